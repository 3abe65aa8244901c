"""Import every module of the given packages and each module that they name inside functions; print what that loads.

    python - annotator cli … < deploy/image/imports.py

`root` runs it within the finished root file system, where a module or a shared library that was left out ends the
build; a unit test runs it in the tree's environment to learn which distributions are used. One line a loaded module:
its name, a tab, its file (empty for what is built in).
"""

import ast
import collections.abc
import importlib
import pathlib
import pkgutil
import re
import sys
from typing import Final

# A line that may import and does not begin with it. Imports that lines begin with are done when the module is imported,
# so only a text with another one is parsed, which takes longer than to import it.
_IMPORTS_LATER: Final = re.compile(r"^(?!import\b|from\b).*\bimport\b", re.MULTILINE)


def import_all(package: str) -> None:
    """Import a package, every module below it, and what their functions import; ImportError names the first missing."""
    root = importlib.import_module(package)
    found = pkgutil.walk_packages(root.__path__, f"{package}.")
    modules = [root, *(importlib.import_module(info.name) for info in found)]
    for module in modules:
        if module.__file__ and module.__file__.endswith(".py"):
            for name in names(pathlib.Path(module.__file__).read_text(encoding="utf-8")):
                # A name that is an attribute of its module, as in `from os import path`, is imported already.
                parent, _, attribute = name.rpartition(".")
                if not (parent and hasattr(importlib.import_module(parent), attribute)):
                    importlib.import_module(name)


def names(text: str) -> list[str]:
    """Returns the names that functions and other blocks of a module import."""
    return [*_imported(ast.parse(text))] if _IMPORTS_LATER.search(text) else []


def _imported(node: ast.AST) -> collections.abc.Iterator[str]:
    """The modules that statements below import, but for those that only type checkers follow; expressions have none."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    elif not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
        for child in ast.iter_child_nodes(node):
            yield from () if isinstance(child, ast.expr) else _imported(child)


def main(packages: collections.abc.Sequence[str]) -> None:
    """Import and print."""
    for package in packages:
        import_all(package)
    for name, module in sorted(sys.modules.items()):
        sys.stdout.write(f"{name}\t{getattr(module, '__file__', None) or ''}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
