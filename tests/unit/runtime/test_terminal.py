"""Text of others on a terminal: what would command it is written out."""

import json

import pytest

from runtime import terminal

COMMANDS = {
    "the clipboard (OSC 52)": ("\x1b]52;c;eA==\x07", "\\u001b]52;c;eA==\\u0007"),
    "erasing the screen": ("\x1b[2J", "\\u001b[2J"),
    "a C1 control sequence": ("\x9b2J", "\\u009b2J"),
    "the line again from its begin": ("\r", "\\u000d"),
    "letters from right to left": ("\u202egnp.exe", "\\u202egnp.exe"),
    "an isolate": ("\u2066a\u2069", "\\u2066a\\u2069"),
    "what is not seen": ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
    "another end of a line": ("a\u2028b\x85", "a\\u2028b\\u0085"),
    "half a character": ("\udc80", "\\udc80"),
    "delete": ("\x7f", "\\u007f"),
}


@pytest.mark.parametrize(("text", "expected"), COMMANDS.values(), ids=COMMANDS)
def test_what_commands_a_terminal_is_written_out(text: str, expected: str) -> None:
    assert terminal.escaped(text) == expected
    assert terminal.escaped_lines(text) == expected


def test_letters_of_any_script_stay() -> None:
    text = "café 日本 naïve 😀 ± … → 65 %"
    assert terminal.escaped(text) == text


def test_lines_stay_lines_only_where_they_are_meant() -> None:
    assert terminal.escaped("a\n\tb") == "a\\u000a\\u0009b"
    assert terminal.escaped_lines("a\n\tb") == "a\n\tb"


def test_json_stays_the_same_value() -> None:
    value = {"pod": "a\x1b[2J\x9b\u202e\n"}
    text = json.dumps(value, ensure_ascii=False, indent=2)
    shown = terminal.escaped_lines(text)
    assert "\x9b" not in shown
    assert json.loads(shown) == value
