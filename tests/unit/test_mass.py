"""The mass of the tree has limits: who adds takes out, or raises a figure here in the same commit with its reason.

The figures are those of the day on which a limit was last lowered. Lines are of Python files, words of Markdown files.
"""

import ast
import graphlib
import pathlib
import re
from typing import Final

import pytest

from cli.__main__ import SUBCOMMANDS
from tests import exported, pages, sources
from tests.unit.test_laws import BANNED, dotted, imported, sources_of

ROOT: Final = pathlib.Path(__file__).parents[2]
PRODUCT: Final = tuple(package for package in pages.PACKAGES if package not in ("simulator", "lab", "tests"))
PACKAGES: Final = (*PRODUCT, "simulator", "lab/bench", "lab/cluster", "lab/peers")
SIMULATED: Final = ("tests/unit/simulator", "tests/contract/simulator")
MOST_LINES: Final = {
    "product": ((*PRODUCT, "deploy"), 43_500),
    "simulator": (("simulator",), 12_000),
    "lab": (("lab",), 17_100),
    "tests of the lab": (("lab/tests",), 8_000),
    "tests": (("tests",), 60_900),
    "tests of the simulator": (SIMULATED, 6_920),
}
APART: Final = ("lab/tests", *SIMULATED)  # within `lab` and `tests`, with limits of their own
MOST_WORDS: Final = 105_000
MOST_COMMANDS: Final = 22
MOST_METRICS: Final = 83
MOST_POLICY_FIELDS: Final = 180

MOST_CLASS_LINES: Final = 200
MOST_POSITIONAL: Final = 4
INHERITED: Final = frozenset(("promql/http/proxied_transport.py send",))  # signatures of a library's class
PARTICIPLE: Final = re.compile(r"([a-z]ed|Held|Read|Told|Known|Sent|Taken|Begun|Made|Seen|Said|Shown|Given)$")
# Participles that name an error or a standard's word.
ERRORS: Final = frozenset(
    (
        *(
            "Declined",
            "ImportRefused",
            "LedgerReplaced",
            "NotInstalled",
            "NotListed",
            "Paused",
            "Refused",
            "RowExpired",
        ),
        *("Unauthorized", "_Ended", "_Refused"),
    )
)


@pytest.mark.parametrize("part", MOST_LINES)
def test_source_has_at_most_so_many_lines(part: str) -> None:
    packages, most = MOST_LINES[part]
    apart = sources_of(*(folder for folder in APART if folder not in packages))
    lines = sum(source.lines for path, source in sources_of(*packages).items() if path not in apart)
    assert 0.9 * most < lines <= most


def test_pages_have_at_most_so_many_words() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))]
    assert 0.9 * MOST_WORDS < sum(len(text.split()) for text in texts) <= MOST_WORDS


def test_there_are_at_most_so_many_commands_metrics_and_policy_fields() -> None:
    fields = re.findall(r"\n\| `([a-z][^`]*)` \|", (ROOT / "docs" / "reference" / "policy.md").read_text("utf-8"))
    metrics = {family.page for families in exported.services().values() for family in families}
    counts = len(SUBCOMMANDS), len(metrics), len(set(fields))
    assert counts == (MOST_COMMANDS, MOST_METRICS, MOST_POLICY_FIELDS), "lower the limit where it is less"


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = {dotted(path): source for path, source in sources_of(*PACKAGES).items()}
    graph = {name: imported(source, set(modules)) - {name} for name, source in modules.items()}
    assert sum(map(len, graph.values())) > 1000
    graphlib.TopologicalSorter(graph).prepare()


def test_a_class_has_at_most_two_hundred_lines() -> None:
    lines = {
        f"{dotted(path)}.{one.name}": one.lines
        for path, source in sources_of(*PACKAGES).items()
        for one in source.definitions
        if one.body_lines is None
    }
    assert len(lines) > 500
    assert not {name: count for name, count in lines.items() if count > MOST_CLASS_LINES}


def test_a_caller_passes_at_most_four_values_by_position() -> None:
    long = [
        f"{path} {one.name}"
        for path, source in sources_of(*PACKAGES).items()
        for one in source.definitions
        if one.positional > MOST_POSITIONAL
    ]
    assert set(long) == INHERITED


def test_variables_and_attributes_are_nouns() -> None:
    names = [(str(path), name) for path, source in sources_of(*PACKAGES).items() for name in source.assigned]
    assert len(names) > 10_000
    assert not [(path, name) for path, name in names if name.strip("_") in BANNED]


def test_no_tuple_of_more_than_three_is_taken_apart_by_position() -> None:
    """Its fields have names; who needs some of them names those."""
    breaches = [
        f"{path}:{node.lineno} {ast.unparse(node)}"
        for path in sources.paths(*PACKAGES)
        for node in ast.walk(sources.tree(path))
        if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Store) and len(node.elts) > 3
        if any(isinstance(one, ast.Name) and one.id == "_" for one in node.elts)
    ]
    assert not breaches


def test_classes_are_nouns() -> None:
    participles = [
        f"{dotted(path)}.{one.name}"
        for path, source in sources_of(*PACKAGES).items()
        for one in source.definitions
        if one.body_lines is None and PARTICIPLE.search(one.name) and one.name not in ERRORS
    ]
    assert not participles
