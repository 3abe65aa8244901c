"""Table of a bench run: a line per measurement with its reference, the ratio, the budget and a verdict.

Every bench gives `Row`s; `__main__` prints them under a heading that names machine, versions and seed, because a figure
without them means nothing.
"""

import datetime
import pathlib
import platform
from typing import NamedTuple

from lab.bench import contestants

HEADINGS = ("what", "evenload", "reference", "ratio", "of legs", "budget", "")


class Row(NamedTuple):
    """One measurement.

    `ours` and `yardstick` in `unit` (yardstick None: there is none, the budget is a plain limit); `limit` is the
    ratio (or value) allowed, None where no budget is set; `at_least` turns the comparison round. `legs` are the
    lowest and highest ratio of the legs that `ours` and `yardstick` are the medians of, if there were any.
    """

    what: str
    ours: float
    unit: str
    yardstick: float | None = None
    limit: float | None = None
    at_least: bool = False
    legs: tuple[float, float] | None = None

    @property
    def compared(self) -> float | None:
        """Returns the number that the limit applies to: the ratio, or the value itself where there is no reference."""
        if self.yardstick is None:
            return self.ours
        return self.ours / self.yardstick if self.yardstick else None

    @property
    def within(self) -> bool | None:
        """Whether the budget is met; None without a budget."""
        if self.limit is None or self.compared is None:
            return None
        return self.compared >= self.limit if self.at_least else self.compared <= self.limit


def machine(seed: int, started: datetime.datetime) -> str:
    """Returns one line: the time, processors, load before, Python, TCP's congestion control (bbr paces replies: with
    it the last packets of 100 kB can leave 8 ms late), and the seed.
    """
    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown"
    )
    load = _lines("/proc/loadavg")[0].split()[0]
    cores = contestants.processors()
    when = started.strftime("%Y-%m-%d %H:%M UTC")
    software = f"Python {platform.python_version()} | TCP {_congestion_control()} | seed {seed}"
    return f"{when} | {cores} x {model} | load before {load} | {software}"


def _congestion_control() -> str:
    return _lines("/proc/sys/net/ipv4/tcp_congestion_control")[0]


def rendered(rows: list[Row]) -> str:
    """The table as text, columns aligned."""
    cells = [HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    )


def _cells(row: Row) -> tuple[str, ...]:
    ratio = f"{row.compared:.2f}x" if row.yardstick is not None and row.compared is not None else ""
    spread = "" if row.legs is None else "{:.2f}-{:.2f}x".format(*row.legs)
    figures = _figure(row.ours, row.unit), _figure(row.yardstick, row.unit)
    return (row.what, *figures, ratio, spread, _budget(row), _verdict(row))


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f} {unit}"


def _budget(row: Row) -> str:
    if row.limit is None:
        return ""
    sign = ">=" if row.at_least else "<="
    return f"{sign} {row.limit:g} {row.unit}" if row.yardstick is None else f"{sign} {row.limit:g}x"


def _verdict(row: Row) -> str:
    return {True: "ok", False: "OVER" if not row.at_least else "UNDER", None: ""}[row.within]


def _lines(path: str) -> list[str]:
    return pathlib.Path(path).read_text(encoding="utf-8").splitlines()
