"""The pages' prose: user pages name no file of the code, dates stand in docs/results alone, lines wrap at 120 letters.

docs/contributing.md, "Laws of words", has the rules. `prose` reads a page line by line without code blocks, HTML
comments and link definitions; each rule is a function from a page's text to its breaches, `LINE: TEXT`.
"""

import pathlib
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from policy.schema import load_policy
from tests import pages

DOCS: Final = pages.ROOT / "docs"
WIDTH: Final = 120
FOR_USERS: Final = ("start", "how-to", "reference", "runbooks")
DATED: Final = ("results", "decisions")
TESTS_COLUMN: Final = "reference/security.md"  # its tables name the test that holds each line: it is asked for
SOURCES: Final = {
    path.relative_to(pages.ROOT).with_suffix("").as_posix().replace("/", "."): path.read_text(encoding="utf-8")
    for package in pages.PACKAGES
    for path in (pages.ROOT / package).rglob("*.py")
}
_DEFINED: Final = re.compile(r"^(?:class|def|async def) (\w+)", re.MULTILINE)
# `evicting.Evicter` and the like: what a module defines, named without its package.
DEFINED: Final = frozenset(
    f"{name.rpartition('.')[2]}.{defined}" for name, text in SOURCES.items() for defined in _DEFINED.findall(text)
)
_WORD: Final = r"[A-Za-z_]\w*"
_CODE: Final = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_TARGET: Final = re.compile(r"\]\(([^)\s]*)\)")
_FILE: Final = re.compile(r"[\w./-]*\.py\b")
_TESTS: Final = re.compile(r"\btests/(?![\w./-]*\.py\b)(?:[\w./-]*\w)?")
_STARTED: Final = re.compile(r"\bpython3? -m \S+")
_REPRODUCED: Final = re.compile(r"^## Reproduced$.*", re.MULTILINE | re.DOTALL)
_DOTTED: Final = re.compile(rf"\b{_WORD}(?:\.{_WORD})+")
_MONTHS: Final = "January|February|March|April|May|June|July|August|September|October|November|December"
_DATE: Final = re.compile(
    rf"\b20\d\d-\d\d-\d\d\b|\b\d{{1,2}}\.? (?:{_MONTHS}),? 20\d\d\b|\b(?:{_MONTHS}) \d{{1,2}}, 20\d\d\b"
)
_FENCE: Final = re.compile(r"^\s*(`{3,}|~{3,})")
_DEFINITION: Final = re.compile(r"^\s*\[[^\]]+\]: \S+")


class Line(NamedTuple):
    """A line of a page outside code blocks and comments."""

    number: int
    text: str

    @property
    def in_table(self) -> bool:
        """Whether it is a row of a table."""
        return self.text.lstrip().startswith("|")


def prose(text: str) -> Iterator[Line]:
    """The lines of a page without fenced and indented code, HTML comments and link definitions."""
    fence, comment, after_blank, in_list = "", False, True, False
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        if fence:
            fence = "" if line.strip() == fence else fence
        elif comment:
            comment = "-->" not in line
        elif mark:
            fence = mark[1]
        elif line.lstrip().startswith("<!--"):
            comment = "-->" not in line
        elif _DEFINITION.match(line) or (line.startswith("    ") and after_blank and not in_list):
            after_blank = True  # code goes on: its next line is indented, too
            continue
        else:
            in_list = bool(re.match(r"\s*(?:[-*+]|\d+\.) ", line)) or (in_list and (not line or line.startswith(" ")))
            yield Line(number, line)
        after_blank = not line.strip()


def _fields(value: object, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Every path of the policy file, whole and without the sections that it begins with."""
    yield from (".".join(path[begin:]) for begin in range(len(path)))
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield from _fields(inner, (*path, name))


FIELDS: Final = frozenset(_fields(load_policy.defaults().as_file()))


def _is_code(name: str) -> bool:
    """Whether a dotted name begins with a module of the tree, or with a name that a module defines."""
    parts = name.split(".")
    begins = [".".join(parts[:end]) for end in range(2, len(parts) + 1)]
    return name not in FIELDS and any(begin in SOURCES or begin in DEFINED for begin in begins)


def files_named(text: str, *, tests_in_tables: bool = False) -> list[str]:
    """Files, modules and definitions that a page names, in prose, code and links; `python -m MODULE` is a command."""
    breaches = []
    for line in prose(text):
        names = [] if tests_in_tables and line.in_table else [*_FILE.findall(line.text), *_TESTS.findall(line.text)]
        spans = [_STARTED.sub("", span) for _, span in _CODE.findall(line.text)]
        names += [name for span in spans for name in _DOTTED.findall(span) if _is_code(name)]
        breaches += [f"{line.number}: {name}" for name in dict.fromkeys(names)]
    return breaches


def dates(text: str) -> list[str]:
    """Days of the calendar in a page's prose and tables; a moment in a code span, such as a format, is none."""
    plain = ((line.number, _TARGET.sub("", _CODE.sub("", line.text))) for line in prose(text))
    return [f"{number}: {date}" for number, line in plain for date in _DATE.findall(line)]


def long_lines(text: str) -> list[str]:
    """Lines of prose over 120 characters."""
    return [f"{line.number}: {len(line.text)}" for line in prose(text) if not line.in_table and len(line.text) > WIDTH]


def _in(page: pathlib.Path, shelves: tuple[str, ...]) -> bool:
    return page.is_relative_to(DOCS) and page.relative_to(DOCS).parts[0] in shelves


def _prose(page: pathlib.Path) -> str:
    return str(page.relative_to(pages.ROOT))


def test_a_page_for_users_names_no_file_of_the_code() -> None:
    breaches = {}
    for page in (page for page in pages.PAGES if _in(page, FOR_USERS)):
        text = page.read_text(encoding="utf-8")
        if _in(page, ("runbooks",)):  # the last part of a runbook names its test: tests/unit/deploy/test_monitoring.py
            text = _REPRODUCED.sub("", text)
        breaches[_prose(page)] = files_named(text, tests_in_tables=page == DOCS / TESTS_COLUMN)
    assert not {page: found for page, found in breaches.items() if found}, "say what it does, not where it is written"


def test_a_page_has_no_dates() -> None:
    texts = {_prose(page): page.read_text(encoding="utf-8") for page in pages.PAGES if not _in(page, DATED)}
    breaches = {page: found for page, text in texts.items() if (found := dates(text))}
    assert not breaches, "measurements with their dates belong into docs/results"


def test_prose_wraps() -> None:
    texts = {_prose(page): page.read_text(encoding="utf-8") for page in pages.PAGES}
    breaches = {page: found for page, text in texts.items() if (found := long_lines(text))}
    assert not breaches, f"wrap at {WIDTH} characters; tables, code and link definitions may be longer"


PAGE = f"""\
# A page
`tests/unit/docs/test_prose.py`, [it](../../bench/table.py), `policy.rules.scoring`, `scoring.rank()`: not tests/unit.
`policy.yaml`, `limits.unreplaced`, `python -m lab.cluster.demo` and docs.rs are none. Taken on 2026-11-21 and on
21 November 2026, `2026-11-21T04:00:00Z` is a format.
<!-- commands: not run: taken 2026-11-21; tests/unit/docs/test_prose.py -->
```
python lab/bench/table.py   # 2026-11-21 {"x" * WIDTH}
```

    python lab/bench/table.py   # 2026-11-21

    {"y" * WIDTH}
| `tests/unit` | {"a cell " * 20}|
[a definition]: https://example.org/{"x" * WIDTH}

- A list

    {"z" * WIDTH}

<!-- a comment of several lines
2026-11-21 -->
"""


def test_files_are_found_in_prose_spans_links_and_tables() -> None:
    found = [
        "tests/unit/docs/test_prose.py",
        "../../bench/table.py",
        "tests/unit",
        "policy.rules.scoring",
        "scoring.rank",
    ]
    assert files_named(PAGE) == [*(f"2: {name}" for name in found), "13: tests/unit"]
    assert files_named(PAGE, tests_in_tables=True) == [f"2: {name}" for name in found]


def test_dates_are_found_outside_of_code_and_comments() -> None:
    assert dates(PAGE) == ["3: 2026-11-21", "4: 21 November 2026"]


def test_long_lines_are_found_outside_of_tables_code_and_definitions() -> None:
    assert long_lines(PAGE) == ["18: 124"]
