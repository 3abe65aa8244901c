"""The Python of this tree as the tests of its rules read it: a module is parsed once a process, and its tree dropped.

The trees of all modules are millions of objects, through which Python's garbage collector would go for the rest of a
run. What stays of a module is what its statements say; a test of its expressions parses it again with `tree`.
"""

import ast
import functools
import pathlib
from collections.abc import Iterator
from typing import Final, NamedTuple

ROOT: Final = pathlib.Path(__file__).parents[1]
_DEFINITION: Final = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS: Final = ("body", "orelse", "finalbody", "handlers", "cases")


class Definition(NamedTuple):
    """A class, or a function with its parameters, of which callers may pass so many by position (`self` and `cls` left
    out), and the lines of its body below the docstring (None of a class). `lines` are all of it.
    """

    line: int
    name: str
    docstring: str | None
    lines: int
    parameters: tuple[str, ...] = ()
    positional: int = 0
    body_lines: int | None = None


class Source(NamedTuple):
    """A module; an import is what stands behind `from` with one of the names behind `import`, `assigned` are the names
    of variables and attributes that it sets, once for each place.
    """

    lines: int
    docstring: str | None
    definitions: tuple[Definition, ...]
    imports: frozenset[tuple[str, str]]
    assigned: tuple[str, ...]


def paths(*packages: str) -> list[pathlib.Path]:
    """The modules of packages by their path below the root."""
    return sorted(path.relative_to(ROOT) for package in packages for path in (ROOT / package).rglob("*.py"))


def tree(path: pathlib.Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


@functools.cache
def source(path: pathlib.Path) -> Source:
    """The statements of a module."""
    text = (ROOT / path).read_text(encoding="utf-8")
    module = ast.parse(text)
    nodes = list(_statements(module))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return Source(
        text.count("\n"),
        ast.get_docstring(module),
        tuple(_definition(node) for node in nodes if isinstance(node, _DEFINITION)),
        frozenset((node.module or "", alias.name) for node in imports for alias in node.names),
        tuple(_assigned(module)),
    )


def _assigned(module: ast.Module) -> Iterator[str]:
    """Variables outside of comprehensions, and attributes, where they are set."""
    inner = {
        id(name) for node in ast.walk(module) if isinstance(node, ast.comprehension) for name in ast.walk(node.target)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store) and id(node) not in inner:
            yield node.id if isinstance(node, ast.Name) else node.attr


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below one, without their expressions, in which nothing is defined or imported."""
    for name in _BLOCKS:
        for child in getattr(node, name, ()):
            yield child
            yield from _statements(child)


def _definition(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Definition:
    docstring, lines = ast.get_docstring(node), (node.end_lineno or 0) - node.lineno + 1
    if isinstance(node, ast.ClassDef):
        return Definition(node.lineno, node.name, docstring, lines)
    all_of = node.args
    arguments = (*all_of.posonlyargs, *all_of.args, *all_of.kwonlyargs, all_of.vararg, all_of.kwarg)
    begins = node.body[1] if docstring and len(node.body) > 1 else node.body[0]
    names = tuple(one.arg for one in arguments if one is not None)
    positional = [one.arg for one in (*all_of.posonlyargs, *all_of.args) if one.arg not in ("self", "cls")]
    body_lines = (node.end_lineno or 0) - begins.lineno
    return Definition(node.lineno, node.name, docstring, lines, names, len(positional), body_lines)
