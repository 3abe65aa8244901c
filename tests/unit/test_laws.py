"""The laws of docs/contributing.md that a parser can check: folders, small modules, names, first lines, hops."""

import ast
import collections
import pathlib
import re
from typing import Final

import pytest

from tests import pages, sources

ROOT: Final = pathlib.Path(__file__).parents[2]
PRODUCT: Final = (
    *(package for package in pages.PACKAGES if package not in ("lab", "tests")),
    "lab/cluster",
    "lab/peers",
)
MOST_MODULES: Final = 12
FLAT: Final = {
    "cli": "one module a command",
    "kube/api": "one module a part of the API's objects",
    "lab/cluster": "one module a part of the control plane",
    "runtime": "one module a concern of a process; no data passes between them",
}
SMALL_LINES: Final = 60
APART: Final[dict[str, str]] = {
    "annotator.publish.crane_keys": "crane-scheduler's names, read by the guard's tests too",
    "lab.cluster.demo.budgets": "judges the demo; fed by a reflector, not by the phases",
    "policy.schema.json_schema": "an entry point: python -m policy.schema.json_schema",
    "promql.http.response_limits": "limits of one response; the client is long",
    "simulator.controllers.nodes": "one module a controller",
    "lab.peers.koordinator": "one module a peer",
    "simulator.tuning.policy_file": "a pure text below the command that writes it",
    "simulator.workloads.splitting": "a pure cut below the command that makes it",
}
BANNED: Final = frozenset(
    ("told", "said", "seen", "asked", "given", "found", "made", "kept", "shown", "several", "whoever")
)
RIDDLE: Final = re.compile(r"(What|Whoever|Who|Whom|The same)\b")


def sources_of(*packages: str) -> dict[pathlib.Path, sources.Source]:
    """The modules of packages by their path below the root."""
    return {path: sources.source(path) for path in sources.paths(*packages)}


def dotted(path: pathlib.Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imported(source: sources.Source, modules: set[str]) -> set[str]:
    """The modules of this tree that a module imports."""
    names = source.imports
    return {name if (name := f"{module}.{attribute}") in modules else module for module, attribute in names} & modules


def banned_names(source: sources.Source) -> list[str]:
    """Line and name of each definition and parameter that is a participle or pronoun instead of a noun."""
    banned = []
    for one in source.definitions:
        names = [one.name, *one.parameters]
        banned += [f"{one.line} {name}" for name in names if name.strip("_").lower() in BANNED]
        banned += [f"{one.line} one" for name in one.parameters if name == "one"]
    return banned


def constructs(tree: ast.Module, name: str) -> bool:
    """Whether the module calls the type, one of its constructors, or `cls` within the type."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    defines = any(isinstance(node, ast.ClassDef) and node.name == name for node in tree.body)
    return any(names_it(call, name) or (defines and isinstance(call, ast.Name) and call.id == "cls") for call in calls)


def names_it(tree: ast.AST, name: str) -> bool:
    return any(
        (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)
        for node in ast.walk(tree)
    )


def hops() -> list[tuple[str, str, str, str]]:
    """Hop, type, role and module of each name in the third and fourth column of the hop table."""
    text = (ROOT / "docs" / "why" / "architecture.md").read_text(encoding="utf-8")
    module = re.compile(rf"`((?:{'|'.join(PRODUCT)})(?:\.\w+)+)`")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [
        (row[0], kind, role, name)
        for row in rows
        if len(row) == 4
        for kind in module.findall(row[1])
        for role, cell in (("makes", row[2]), ("names", row[3]))
        for name in module.findall(cell)
    ]


def test_a_folder_of_over_twelve_modules_has_a_reason() -> None:
    counts = collections.Counter(
        str(path.parent) for path in sources.paths(*PRODUCT) if path.stem not in ("__init__", "__main__")
    )
    assert {folder for folder, count in counts.items() if count > MOST_MODULES} == set(FLAT)


def test_a_small_module_with_one_importer_has_a_reason() -> None:
    modules = {dotted(path): source for path, source in sources_of(*PRODUCT).items()}
    importers = collections.Counter(name for source in modules.values() for name in imported(source, set(modules)))
    entries = {dotted(path) for path in sources.paths(*PRODUCT) if path.stem in ("__init__", "__main__")}
    small = {name for name, one in modules.items() if one.lines < SMALL_LINES and importers[name] == 1} - entries
    assert small == set(APART)


@pytest.mark.parametrize("package", pages.PACKAGES)
def test_names_are_nouns(package: str) -> None:
    banned = {str(path): names for path, one in sources_of(package).items() if (names := banned_names(one))}
    assert not banned


@pytest.mark.parametrize("package", [*PRODUCT, "lab/bench", "deploy"])
def test_a_docstring_begins_with_its_subject(package: str) -> None:
    texts = [
        (str(path), text)
        for path, source in sources_of(package).items()
        for text in (source.docstring, *(one.docstring for one in source.definitions))
    ]
    assert not [(path, text.splitlines()[0]) for path, text in texts if text and RIDDLE.match(text)]


def test_a_hop_is_as_its_row_says() -> None:
    rows = hops()
    assert len(rows) > 50
    paths = {dotted(path): path for path in sources.paths(*PRODUCT)}
    trees = {module: sources.tree(paths[module]) for module in {row[-1] for row in rows}}
    wrong = []
    for hop, kind, role, module in rows:
        name = kind.rpartition(".")[2]
        if not (constructs if role == "makes" else names_it)(trees[module], name):
            wrong.append(f"{hop}: {module} {role} no {name}")
    assert not wrong


def test_the_simulator_subclasses_no_service_class() -> None:
    """Its shortcuts stand behind the doors and the extender's port (docs/contributing.md)."""
    services = ("annotator", "extender", "descheduler")
    subclasses = set()
    for path in sources.paths("simulator"):
        tree = sources.tree(path)
        local = {
            alias.asname or alias.name: node.module or ""
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in ast.walk(tree):
            for base in node.bases if isinstance(node, ast.ClassDef) else ():
                root = base.value if isinstance(base, ast.Attribute) else base
                if isinstance(root, ast.Name) and local.get(root.id, "").split(".")[0] in services:
                    subclasses.add(f"{path}: {ast.unparse(base)}")
    assert subclasses == set()
