"""Text of others before it reaches a terminal: control characters are written out instead of obeyed.

Names, messages and annotations are written by anyone with a namespace: an OSC 52 sequence in one would set the reader's
clipboard, an erase sequence would hide lines, a bidirectional control would turn them round. `runtime.logs` passes
every text line through here, `cli.common.output` every cell and answer, `runtime.exit_codes` every error.
"""

import functools
import re
import shutil
import textwrap
from typing import TextIO

# C0, DEL and C1; invisible characters and those that change the direction of writing; line separators; halves of
# characters, which no output can encode.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
_IN_LINES = re.compile(f"[{_CONTROLS}]")
_IN_A_LINE = re.compile(f"[{_CONTROLS}\t\n]")
_COMMAND = re.compile(r"\b(curl|evenload|helm|kubectl) [-a-z]")


def escaped(text: str) -> str:
    """The text on one line, each control character as `\\u001b`, which within JSON is the same character."""
    return _IN_A_LINE.sub(_written_out, text)


def escaped_lines(text: str) -> str:
    """Escapes a text of several lines: line breaks and tabs stay."""
    return _IN_LINES.sub(_written_out, text)


def wrapped(text: str, stream: TextIO) -> str:
    """Sentences for a stream; on a terminal their lines are broken at its width, between words. A line with a command
    is left whole: a copy of a broken one would run as two.
    """
    if not stream.isatty():
        return text
    columns = shutil.get_terminal_size().columns
    wrap = functools.partial(textwrap.fill, width=columns, break_long_words=False, break_on_hyphens=False)
    items = ((line, len(line) - len(line.lstrip(" -"))) for line in text.split("\n"))  # words begin after the dash
    lines = (line if _COMMAND.search(line) else wrap(line, subsequent_indent=" " * indent) for line, indent in items)
    return "\n".join(lines)


def _written_out(character: re.Match[str]) -> str:
    return f"\\u{ord(character[0]):04x}"
