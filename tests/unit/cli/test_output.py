"""Printing: columns as kubectl's, YAML our own loader reads, colour only on a terminal that wants it."""

import io
import json
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

from cli.common import output
from runtime import exit_codes

ROOT = pathlib.Path(__file__).parents[3]


class Terminal(io.StringIO):
    """A stdout that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_table_has_capital_headers_aligned_columns_and_nothing_at_the_ends_of_lines() -> None:
    text = output.table(("name", "load"), [("node-10", 0.5), ("n", None)])
    assert text == "NAME      LOAD\nnode-10   0.5\nn         -"


def test_without_headers_only_the_rows_are_left() -> None:
    assert output.table(("name", "load"), [("a", 1)], no_headers=True) == "a   1"
    assert output.table(("name", "load"), [], no_headers=True) == ""


def test_equal_values_are_written_out_twice_because_our_loader_refuses_aliases() -> None:
    shared = {"evictAbove": 0.8}
    assert output.as_yaml({"a": shared, "b": shared}) == "a: {evictAbove: 0.8}\nb: {evictAbove: 0.8}"


def test_texts_that_yaml_versions_read_differently_are_quoted() -> None:
    given = {"from": "22:00", "answer": "no", "days": ["Mon"]}
    assert yaml.safe_load(output.as_yaml(given)) == given


def test_json_keeps_the_order_and_the_letters() -> None:
    assert output.structured({"b": "ü", "a": 1}, "json") == '{\n  "b": "ü",\n  "a": 1\n}'


@pytest.mark.parametrize(
    ("terminal", "environment", "coloured"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
    ],
    ids=["a terminal", "NO_COLOR", "an empty NO_COLOR", "a dumb terminal", "a pipe"],
)
def test_colour_on(
    terminal: bool, environment: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(key, raising=False)
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr("sys.stdout", Terminal() if terminal else io.StringIO())
    assert (output.coloured("text", "red") != "text") == coloured


@pytest.mark.parametrize("arguments", [["policy", "init"], ["policy", "show", "-"]], ids=["at once", "when flushed"])
def test_a_full_disk_is_a_sentence_and_no_finding(arguments: list[str]) -> None:
    policy = b"apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"
    with pathlib.Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "cli", *arguments]
        answer = subprocess.run(command, input=policy, stdout=full, stderr=subprocess.PIPE, check=False, cwd=ROOT)
    assert answer.returncode == 2
    assert answer.stderr.decode().startswith("error: stdout could not be written: No space left on device; what is")
    assert answer.stderr.count(b"\n") == 1


def test_a_failure_is_one_line_on_stderr_and_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        output.fail("no such node")
    assert ended.value.code == 2
    assert capsys.readouterr() == ("", "error: no such node\n")


@pytest.mark.parametrize(
    ("terminal", "wanted"),
    [(True, "next: evenload plan says why-not-more\n  - cpu is over its\n    line\n"), (False, "{}\n")],
    ids=["a terminal", "a pipe"],
)
def test_remarks_are_broken_between_words_and_commands_left_whole(
    terminal: bool, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setenv("COLUMNS", "20")
    text = "next: evenload plan says why-not-more\n  - cpu is over its line"
    output.say(text)
    assert stderr.getvalue() == wanted.format(text)
    with pytest.raises(SystemExit), exit_codes.reported(ValueError):
        raise ValueError("a sentence of an error")
    assert stderr.getvalue().endswith("error: a sentence of\nan error\n") == terminal


HOSTILE = "web\x1b]52;c;eA==\x07\x1b[2J\x9b\u202e\nfake"


@pytest.mark.parametrize("terminal", [True, False], ids=["a terminal", "a pipe"])
def test_text_of_others_does_not_command(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("TERM", raising=False)
    stdout = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr("sys.stdout", stdout)
    output.data(output.table(("pod", "why"), [(HOSTILE, output.Cell("hot", "red"))]))
    output.data(output.wrapped_table(("pod", "why"), [(HOSTILE, output.Cell("hot", "red"))]))
    output.data(f"pod {HOSTILE}")
    shown = stdout.getvalue()
    assert not set("\x07\x9b\u202e") & set(shown)
    assert set(re.findall("\x1b[^m]*m?", shown)) == ({"\x1b[31m", "\x1b[0m"} if terminal else set())
    assert shown.count("\n") == 6, "a name begins a line of its own"


def test_json_and_yaml_of_text_of_others_keep_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    output.data(output.structured({"pod": HOSTILE}, "json"))
    as_json = capsys.readouterr().out
    output.data(output.structured({"pod": HOSTILE, "other": "a\u202eb"}, "yaml"))
    as_yaml = capsys.readouterr().out
    assert not set("\x1b\x07\x9b\u202e") & set(as_json + as_yaml)
    assert json.loads(as_json)["pod"] == yaml.safe_load(as_yaml)["pod"] == HOSTILE
    assert yaml.safe_load(as_yaml)["other"] == "a\u202eb"


def test_remarks_and_failures_do_not_command(capsys: pytest.CaptureFixture[str]) -> None:
    output.say(f"of {HOSTILE}")
    with pytest.raises(SystemExit):
        output.fail(HOSTILE)
    assert not set("\x1b\x07\x9b\u202e") & set(capsys.readouterr().err)
