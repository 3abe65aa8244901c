"""The register of reports: a test names its report with `reported`; docs/why/reports.md is written from all of them.

`python -m tests.reports.register > docs/why/reports.md` writes the page; tests/reports/test_register.py compares it. A
test without its report, or a report without a source, fails there.

    @reported("evictions", "owner/repository#1", before=Before.RIGHT)
    @situation("a pod ends")
    @behaviour("its load counts no longer")
    def test_...
"""

import collections.abc
import dataclasses
import enum
import importlib
import pathlib
import re
import sys
import typing

HERE = pathlib.Path(__file__).parent
SOURCE = re.compile(r"[\w.-]+/[\w.-]+(#\d+(, #\d+)*)?")  # of GitHub: owner/repository#number, or the repository
HEAD = """# Reports

Situations reported in public, and what Evenload does there. Inputs are of our own making. Of {all} situations {wrong}
went wrong when first tried. Each line is a test in `tests/reports`, which says that, too, and which `make test` runs.
`python -m tests.reports.register` writes this page.
"""


class Before(enum.Enum):
    """The behaviour when a report was first tried."""

    RIGHT = "right"
    WRONG = "wrong"
    BY_CHOICE = "by choice"


@dataclasses.dataclass(frozen=True)
class Report:
    """One situation: where it was reported, and the behaviour that the test asserts."""

    area: str  # readings, placements, evictions ...: a heading of the page
    sources: tuple[str, ...]  # owner/repository#number
    situation: str
    behaviour: str
    before: Before
    test: str


REPORTS: list[Report] = []
Texts = dict[collections.abc.Callable[..., object], str]
SITUATIONS: Texts = {}
BEHAVIOURS: Texts = {}
Test = typing.TypeVar("Test", bound=collections.abc.Callable[..., object])


def reported(area: str, *sources: str, before: Before) -> collections.abc.Callable[[Test], Test]:
    """Registers the test below it as the proof of a report, with its situation and behaviour.

    Raises:
        KeyError: a test without one of them.
        ValueError: no source, or a source that is not owner/repository#number.
    """
    if not sources or not all(SOURCE.fullmatch(source) for source in sources):
        raise ValueError(f"sources of a report are owner/repository#number, not {sources}")

    def register(test: Test) -> Test:
        REPORTS.append(Report(area, sources, SITUATIONS[test], BEHAVIOURS[test], before, test.__name__))
        return test

    return register


def situation(text: str) -> collections.abc.Callable[[Test], Test]:
    """Describes the situation that the test below it sets up."""
    return _described(SITUATIONS, text)


def behaviour(text: str) -> collections.abc.Callable[[Test], Test]:
    """Describes the behaviour that the test below it asserts."""
    return _described(BEHAVIOURS, text)


def _described(texts: Texts, text: str) -> collections.abc.Callable[[Test], Test]:
    def describe(test: Test) -> Test:
        texts[test] = text
        return test

    return describe


def modules() -> list[str]:
    """The names of all modules of reports, sorted."""
    return sorted(
        ".".join(("tests", "reports", *path.relative_to(HERE).with_suffix("").parts))
        for path in HERE.rglob("test_*.py")
        if path.name != "test_register.py"
    )


def page(reports: collections.abc.Iterable[Report]) -> str:
    """The page of all reports, by area, in the order of their sources."""
    rows = sorted(reports, key=lambda report: (report.area, report.sources, report.test))
    wrong = sum(report.before is Before.WRONG for report in rows)
    text = [HEAD.format(all=len(rows), wrong=wrong)]
    for area in dict.fromkeys(report.area for report in rows):
        text.append(f"\n## {area.capitalize()}\n\n| reported in | situation | Evenload |\n| --- | --- | --- |\n")
        text.extend(
            f"| {', '.join(report.sources)} | {report.situation} | {report.behaviour} |\n"
            for report in rows
            if report.area == area
        )
    return "".join(text)


def all_reports() -> list[Report]:
    """Imports every module of reports, and returns what they register."""
    for name in modules():
        importlib.import_module(name)
    return REPORTS


if __name__ == "__main__":
    from tests.reports import register as imported  # its own list: that of `__main__` stays empty

    sys.stdout.write(imported.page(imported.all_reports()))
