"""How the commands for people print: kubectl's manners, once for all of them.

Data goes to stdout as text, table, JSON or YAML; everything else (`say`) goes to stderr, so that `-o json | jq` works.
Colour only on a terminal and never with NO_COLOR. Everything printed passes `runtime.terminal`: of control sequences
only the four colours are left. The commands of cli/ call this; services do not.
"""

import collections.abc
import csv
import io
import itertools
import json
import os
import pathlib
import re
import shutil
import sys
import textwrap
from typing import Any, Final, Literal, NamedTuple, NoReturn

import click
import yaml

from kube import errors as kube_errors
from runtime import exit_codes, terminal

Format = Literal["text", "table", "wide", "csv", "json", "jsonl", "yaml", "name", "github", "sarif"]
Colour = Literal["red", "green", "yellow", "cyan"]
NAME: Final = "evenload"
_WIDTH: Final = 120
GAP: Final = "   "  # kubectl's
NARROW_GAP: Final = "  "
SHORTEST: Final = 10  # of a name
NARROWEST: Final = 22  # of a wrapped column
ELLIPSIS: Final = "…"
POD_SUFFIX: Final = 6  # a dash and five letters

Texts = collections.abc.Sequence[str]  # of a cell, under each other, or the headers
Rows = collections.abc.Iterable[collections.abc.Sequence[object]]
Names = collections.abc.Collection[str]
Lines = collections.abc.Sequence[collections.abc.Sequence[Texts]]
_OWN_COLOURS: Final = re.compile(r"(\x1b\[(?:0|31|32|33|36)m)")
# Where the apiserver's refusal of a request is the user's input.
REFUSAL_CODES: Final[dict[type[Exception], exit_codes.Exit]] = {
    kube_errors.KubeError: exit_codes.Exit.BAD_INPUT,
    kube_errors.Unreachable: exit_codes.Exit.UNREACHABLE,
    kube_errors.ServerError: exit_codes.Exit.UNREACHABLE,
}


def program() -> str:
    """Returns the command by which a shell finds this program: by its name, or by the path as it was called."""
    called = sys.argv[0]
    name = pathlib.Path(called).name
    if name == f"kubectl-{NAME}":
        return f"kubectl {NAME}"
    return called if name == NAME and not shutil.which(NAME) else NAME


def option(*formats: Format) -> collections.abc.Callable[[Any], Any]:
    """The option `-o, --output` with these formats, the first being the default; the parameter is `output_format`."""
    return click.option(
        "-o",
        "--output",
        "output_format",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="What stdout carries.",
    )


def as_json(value: object) -> str:
    """Indented JSON without a line break at its end."""
    return json.dumps(value, indent=2, ensure_ascii=False)


class _Plain(yaml.SafeDumper):
    """A dumper that writes equal values out again: the policy reader refuses aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """A text of several lines stands as such, not as one line with escapes, unless it has control characters: only
    between double quotes `data` can write them out.
    """
    style = '"' if terminal.escaped_lines(text) != text else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Plain.add_representer(str, _text)


def as_yaml(value: object, *, block: bool = False) -> str:
    """YAML in the order given, no line break at its end; small innermost maps and lists are on one line.

    With `block` every entry has a line of its own, and no line is wrapped.
    """
    flow, width = (False, sys.maxsize) if block else (None, _WIDTH)
    text: str = yaml.dump(
        value, Dumper=_Plain, sort_keys=False, default_flow_style=flow, width=width, allow_unicode=True
    )
    return text.rstrip("\n")


def structured(value: object, output_format: str) -> str:
    """JSON or YAML of a value, as `-o` asks."""
    return as_json(value) if output_format == "json" else as_yaml(value)


class Cell(NamedTuple):
    """A text in a colour ("": in none), and further lines below it."""

    text: str
    colour: Colour | Literal[""] = ""
    below: tuple[str, ...] = ()


def table(headers: Texts, rows: Rows, *, names: Names = (), no_headers: bool = False, room: int | None = None) -> str:
    """Columns aligned as kubectl's, headers in capitals, nothing behind the last column; "" for no lines at all. In
    `room` characters, by default on a terminal its width, they fit as far as the columns `names` can be shortened and
    the last one wrapped.
    """
    cells = [] if no_headers else [[Cell(header.upper()) for header in headers]]
    cells += [[_cell(cell) for cell in row] for row in rows]
    texts = [[list(map(terminal.escaped, (cell.text, *cell.below))) for cell in line] for line in cells]
    if not texts:
        return ""
    cut = {at for at, header in enumerate(headers) if header in names}
    narrow = room is not None
    if room is None and sys.stdout.isatty():  # in a pipe nothing is cut
        room = shutil.get_terminal_size().columns
    gap, lines = fitted(texts, cut, room, narrow=narrow)
    widths = [max(len(part) for cell in column for part in cell) for column in zip(*lines, strict=True)]
    result = []
    for line, row in zip(lines, cells, strict=True):
        for at, parts in enumerate(itertools.zip_longest(*line, fillvalue="")):
            padded = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
            result.append(gap.join(_painted(text, cell, at) for text, cell in zip(padded, row, strict=True)).rstrip())
    return "\n".join(result)


def _cell(value: object) -> Cell:
    return value if isinstance(value, Cell) else Cell("-" if value in (None, "") else str(value))


def shortened(name: str, width: int) -> str:
    """The beginning of a name that is longer than this, and the end, which tells pods of one workload apart: the hash
    of a ReplicaSet between the two goes before the name does.
    """
    if len(name) <= width:
        return name
    tail = min((width - 1) // 2, POD_SUFFIX)
    return f"{name[: width - 1 - tail]}{ELLIPSIS}{name[len(name) - tail :]}"


def fitted(
    lines: Lines, names: collections.abc.Collection[int], room: int | None, *, narrow: bool = False
) -> tuple[str, list[list[list[str]]]]:
    """The gap between columns and the cells of each line; `names` are the columns that may be shortened, the last one
    may have several lines, `room` is the terminal's width (None: all that it takes). What does not fit even so is
    left whole. If `narrow`, gaps are small even where there is room, and words are broken that are longer than a line.
    """
    gap = NARROW_GAP if narrow else GAP
    widths = [max(len(text) for cell in column for text in cell) for column in zip(*lines, strict=True)]
    gaps = len(widths) - 1
    least = [
        min(width, SHORTEST) if at in names else min(width, NARROWEST) if at == len(widths) - 1 else width
        for at, width in enumerate(widths)
    ]
    too_wide = room is not None and not narrow and sum(least) + gaps * len(NARROW_GAP) > room
    if room is None or too_wide or sum(widths) + gaps * len(gap) <= room:
        return gap, [[list(cell) for cell in line] for line in lines]
    for _ in range(sum(widths) + gaps * len(NARROW_GAP) - room):
        widest = max((at for at in range(len(widths)) if widths[at] > least[at]), key=widths.__getitem__, default=None)
        if widest is None:
            break
        widths[widest] -= 1
    return NARROW_GAP, [
        [_fitted_cell(cell, widths[at], at in names, narrow) for at, cell in enumerate(line)] for line in lines
    ]


def _fitted_cell(texts: Texts, width: int, is_name: bool, narrow: bool) -> list[str]:
    if is_name:
        return [shortened(text, width) for text in texts]
    wrap = textwrap.TextWrapper(width, break_long_words=narrow, break_on_hyphens=False)
    return [line for text in texts for line in wrap.wrap(text) or [""]]


def csv_table(headers: Texts, rows: Rows, *, no_headers: bool = False) -> str:
    """Rows as comma-separated values (RFC 4180 with line feeds); nothing is shortened."""
    written = io.StringIO()
    lines = csv.writer(written, lineterminator="\n")
    lines.writerows([] if no_headers else [headers])
    lines.writerows([cell.text if isinstance(cell, Cell) else cell for cell in row] for row in rows)
    return written.getvalue().rstrip("\n")


def _painted(text: str, cell: Cell, line: int) -> str:
    """A padded text in its cell's colour, which the lines `below` do not have."""
    words = text.rstrip()
    if not cell.colour or not words or (cell.below and line):
        return text
    return coloured(words, cell.colour) + text[len(words) :]


def wrapped_table(headers: Texts, rows: Rows, *, names: Names = (), no_headers: bool = False) -> str:
    """Columns like `table`'s whose last one is wrapped at the terminal's width (120 where there is none), and may have
    several lines; the columns `names` are shortened on a terminal only.
    """
    room = shutil.get_terminal_size((_WIDTH, 24)).columns
    lines = [(*cells, _lines(_cell(last))) for *cells, last in rows]
    shortened = names if sys.stdout.isatty() else ()
    return table(headers, lines, names=shortened, no_headers=no_headers, room=room)


def _lines(cell: Cell) -> Cell:
    first, *below = cell.text.split("\n")
    return cell._replace(text=first, below=tuple(below))


def _plain(text: str, escaped: collections.abc.Callable[[str], str]) -> str:
    """The text escaped, but for the colours of `coloured` where there are any."""
    if not _colours():
        return escaped(text)
    parts = _OWN_COLOURS.split(text)  # every other one is a colour
    return "".join(part if at % 2 else escaped(part) for at, part in enumerate(parts))


def coloured(text: str, colour: Colour) -> str:
    """The text in a colour, if stdout is a terminal and NO_COLOR is not set (no-color.org)."""
    return click.style(terminal.escaped_lines(text), fg=colour) if _colours() else text


def _colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def data(text: str) -> None:
    """Print what was asked for. Where stdout takes no more (a full disk) the command ends with code 2 and says so; a
    reader that went away (`| head`) is no mistake and left to click.
    """
    try:
        click.echo(_plain(text, terminal.escaped_lines))
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python tries again at its end: code 120
        fail(f"stdout could not be written: {error.strerror}; what is there is not whole, so run it again elsewhere")


def say(text: str) -> None:
    """Print what is not data: remarks, hints, counts."""
    click.echo(terminal.wrapped(terminal.escaped_lines(text), sys.stderr), err=True)


def fail(message: str) -> NoReturn:
    """End the command: `error: message` on stderr and exit code 2."""
    say(f"error: {message}")
    raise SystemExit(int(exit_codes.Exit.BAD_INPUT))
