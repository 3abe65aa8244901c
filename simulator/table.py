"""The final table, before and after, for people (rich) and for scripts (JSON); `__main__` prints one of them.

It shows what was measured in this run and nothing else, with the seed and settings that repeat it.
"""

from collections.abc import Mapping, Sequence

import msgspec
from rich import console, table

from simulator import figures

STYLES = {"better": "green", "worse": "bold red", "same": "dim", "": "dim"}


def print_table(rows: Sequence[figures.Row], settings: Mapping[str, object], out: console.Console) -> None:
    """Prints the table, the settings, and in one sentence how many figures got better and which got worse."""
    shown = table.Table(title="the same arrivals, before and after", title_justify="left")
    for heading in ("figure", "plain", "Evenload", ""):
        shown.add_column(heading, justify="left" if heading in ("figure", "") else "right")
    for row in rows:
        words = (row.name, figures.written(row.before, row.unit), figures.written(row.after, row.unit), row.verdict)
        shown.add_row(*words[:3], f"[{STYLES[row.verdict]}]{row.verdict}[/]" if row.verdict else "")
    out.print(shown)
    out.print(", ".join(f"{name} {value}" for name, value in settings.items()), style="dim", highlight=False)
    out.print(summary(rows), highlight=False)
    if note := footnote(rows):
        out.print(note, style="dim", highlight=False)


def summary(rows: Sequence[figures.Row]) -> str:
    """One sentence that hides nothing."""
    better = sum(row.verdict == "better" for row in rows)
    worse = [row.name for row in rows if row.verdict == "worse"]
    got_worse = f"; worse: {', '.join(worse)}" if worse else "; none got worse"
    sided = sum(bool(row.better) for row in rows)
    return f"{better} of {sided} figures that can be better or worse got better{got_worse}."


def footnote(rows: Sequence[figures.Row]) -> str:
    """What a reader must know before judging the utilisation at scheduling; "" where nothing was evicted."""
    moved = {row.name: row.after for row in rows}.get("evictions", 0.0)
    if not moved:
        return ""
    return (
        f"{moved:.0f} evicted pods were scheduled a second time, later and on a fuller cluster: they are in Evenload's "
        "effectiveness figures and raise its *_utilization_total_avg."
    )


def to_json(rows: Sequence[figures.Row], settings: Mapping[str, object]) -> str:
    """The same as JSON: settings, and per figure plain, evenload, unit and verdict."""
    body = {
        "settings": dict(settings),
        "figures": {
            row.name: {
                "plain": round(row.before, 6),
                "evenload": round(row.after, 6),
                "unit": row.unit,
                "verdict": row.verdict or None,
            }
            for row in rows
        },
    }
    return msgspec.json.format(msgspec.json.encode(body)).decode()
