"""Every block of commands on the pages says how it is run, and those that need no cluster are run."""

import pathlib
import re

import click
import pytest

import cli.__main__
from cli.__main__ import SUBCOMMANDS
from tests import command_lines, pages
from tests.unit.docs import worlds

PAGES = {str(page.relative_to(pages.ROOT)): pages.blocks(page) for page in pages.PAGES}
BLOCKS = [block for found in PAGES.values() for block in found]
OFFLINE = [name for name, found in PAGES.items() if any(block.how == "offline" for block in found)]
HARMLESS = {"evenload", "cat", "echo", "grep", "head", "sed", "diff", "cp", "mkdir", "python", "sort"}
SERVICES = ("annotator", "extender", "descheduler")


def test_every_block_of_commands_says_how_it_is_run() -> None:
    blocks = [block for page in PAGES.values() for block in page]
    silent = [block.place for block in blocks if block.commands() and not block.how]
    assert not silent, f"{', '.join(silent)}: {pages.RULE}"
    needless = [block.place for block in blocks if block.directive and not block.commands()]
    assert not needless, f"{', '.join(needless)}: a directive, and no command below it"
    plain = [block.place for block in blocks if block.how not in ("", "not run") and block.language != "console"]
    assert not plain, f"{', '.join(plain)}: what is run is fenced as ```console and begins with `$ `"


@pytest.mark.parametrize("name", OFFLINE)
def test_what_needs_no_cluster_runs_and_prints_what_the_page_shows(name: str, tmp_path: pathlib.Path) -> None:
    directory = pages.Directory(tmp_path, {})
    for block in PAGES[name]:
        if block.file:
            directory.write(block.file, block)
        for command in block.commands() if block.how == "offline" else ():
            assert programs(command.text) <= HARMLESS, f"{block.place}: {command.text}: it may touch more than files"
            with worlds.beside(name, tmp_path, command.text) as asked:
                answer = directory.run(command, asked)
            place = f"{name}:{command.line}: $ {command.text}"
            assert answer.returncode == command.code, f"{place}\nended with {answer.returncode}:\n{answer.stdout}"
            same = not command.shown or pages.agrees(command.shown, answer.stdout, times=bool(asked))
            assert same, f"{place}\nprints\n{answer.stdout}"


def programs(text: str) -> set[str]:
    """The programs that a line of shell starts."""
    parts = re.split(r"\||;|&&", re.sub(r"'[^']*'|\"[^\"]*\"", "", text))
    return {part.split()[0] for part in parts if part.split()}


def test_the_guides_have_commands_that_run() -> None:
    """So that nobody silences a whole page; the other pages show services and tools."""
    for name in ("reference/cli", "start/install", "start/migrate", "how-to/operate", "how-to/tune"):
        found = {block.how for block in PAGES[f"docs/{name}.md"]}
        assert found & {"offline", "cluster"}, name


def test_what_needs_a_cluster_is_in_the_guides_that_are_followed() -> None:
    elsewhere = [block.place for block in BLOCKS if block.how.startswith("cluster") and block.page not in pages.GUIDE]
    assert not elsewhere


def test_a_reason_that_names_a_test_names_one_that_is_there() -> None:
    named = {(block.place, path) for block in BLOCKS for path in re.findall(r"(?:lab/)?tests/[\w/]+\.py", block.reason)}
    assert named
    assert not [(place, path) for place, path in named if not (pages.ROOT / path).is_file()]


def test_every_command_and_option_of_ours_that_is_shown_exists() -> None:
    ours = [one for one in command_lines.everywhere() if one.program in ("evenload", "python -m")]
    assert len(ours) > 400
    missing = {f"{one.place}: {' '.join(one.words)}": unknown(" ".join(("evenload", *one.words))) for one in ours}
    assert {command: words for command, words in missing.items() if words} == {}


def unknown(text: str) -> list[str]:
    """The subcommands and options of a command line that are not there."""
    words = text.split()[1:]
    command: click.Command = cli.__main__.main
    context = click.Context(command)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        wanted = words.pop(0).split("|")
        found = [command.get_command(context, one) for one in wanted]
        if None in found:
            return wanted
        command = found[0]  # type: ignore[assignment]
    known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help", "-h"}
    given = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    return sorted({one for word in given for one in word.split("|") if one.startswith("-")} - known)


def test_a_command_that_is_not_there_is_found() -> None:
    assert unknown("evenload polisy show") == ["polisy"]
    assert unknown("evenload policy validate --strict x.yaml") == ["--strict"]
    texts = 'next: evenload polisy show, "then", or `evenload policy init --preset default > x` (see kubectl -n X get)'
    assert [" ".join((one.program, *one.words)) for one in command_lines.lines("", texts)] == [
        "evenload polisy show",
        "evenload policy init --preset default",
        "kubectl -n X get",
    ]
    assert set(SERVICES) <= set(SUBCOMMANDS)


PAGE = """# A page
<!-- commands: offline -->
```console
$ echo one \\
    two
one two
$ false # exit code 1
```
```yaml
# some/file.yaml
key: value
```
Text, and

    kubectl delete node everything

<!-- commands: not run: it would be sad -->
```sh
rm -r /   # do not
```
```
a drawing -> of data
```
1. In a list:

   ~~~sh title="a fence of another kind"
   make run
   ~~~
"""


def test_a_page_is_read_as_people_read_it() -> None:
    found = pages.blocks(pages.ROOT / "docs" / "page.md", PAGE)
    assert [block.how for block in found] == ["offline", "", "", "not run", "", ""]
    assert [block.place for block in found][:2] == ["docs/page.md:3", "docs/page.md:9"]
    first, second = found[0].commands()
    assert (first.line, first.text, first.shown, first.code) == (4, "echo one \\\n    two", ("one two",), 0)
    assert (second.text, second.code) == ("false # exit code 1", 1)
    assert (found[1].file, found[1].commands()) == ("some/file.yaml", [])
    assert [command.text for command in found[2].commands()] == ["kubectl delete node everything"]
    assert found[3].reason == "it would be sad"
    assert not found[4].commands()
    assert [command.text for command in found[5].commands()] == ["make run"]


@pytest.mark.parametrize(
    "directive", ["<!-- commands: -->", "<!-- commands: not run -->", "<!-- commands: not run:  -->"]
)
def test_a_directive_without_a_reason_is_none(directive: str) -> None:
    (block,) = pages.blocks(pages.ROOT / "docs" / "page.md", f"{directive}\n```console\n$ true\n```\n")
    assert not block.how


@pytest.mark.parametrize(
    ("expected", "printed", "times", "same"),
    [
        pytest.param("a\nb", "a\nb\n", False, True, id="the same text"),
        pytest.param("a\nb", "a\nc\n", False, False, id="another line"),
        pytest.param("a", "a\nb\n", False, False, id="a line that the page does not show"),
        pytest.param("a\n...", "a\nb\nc\n", False, True, id="any lines"),
        pytest.param("a\n...\nc", "a\nb\n", False, False, id="any lines, and one that is missing"),
        pytest.param("policy …; next", "policy 12ab; next", False, True, id="anything within a line"),
        pytest.param("read 5s ago", "read 7s ago", False, False, id="another age"),
        pytest.param("read 5s ago", "read 12.5s ago", True, True, id="another age where times may differ"),
        pytest.param("at 2026-11-21T04:00:00Z", "at 2027-01-02T03:04:05Z", True, True, id="another moment"),
        pytest.param("hash 32c8d3f8b717", "hash 0a1b2c3d4e5f", False, True, id="the hash of another file"),
        pytest.param("A    B", "A  B", True, True, id="another width"),
        pytest.param("cpu 90%", "cpu 91%", True, False, id="another figure, for which no time is to blame"),
    ],
)
def test_outputs_are_compared_strictly_but_for_times(expected: str, printed: str, times: bool, same: bool) -> None:
    assert pages.agrees(tuple(expected.splitlines()), printed, times=times) is same
