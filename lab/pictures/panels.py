"""The panels of dashboard.json as Grafana shows them: variables replaced, a repeated panel once for each value.

Contract tests send these queries to a real Prometheus, and `dashboard` draws the answers. Places are in
Grafana's units: columns of 24 across, rows of about 38 pixels down.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

Json = dict[str, Any]

COLUMNS: Final = 24
_LABEL_VALUES: Final = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)")


class Query(NamedTuple):
    """A query in PromQL, and the legend of its series with {{LABEL}} in it."""

    legend: str
    expression: str


class Panel(NamedTuple):
    """A panel or the heading of a row (kind `row`), at its place, with its unit as Grafana names it."""

    kind: str
    title: str
    unit: str
    stacked: bool
    left: int
    top: int
    width: int
    height: int
    queries: tuple[Query, ...]


def values_query(page: Json, name: str) -> Query:
    """The query of a variable's values: one series for each value, in the label that the legend names."""
    (variable,) = [each for each in page["templating"]["list"] if each["name"] == name]
    found = _LABEL_VALUES.fullmatch(variable["query"]["query"])
    if found is None:
        raise ValueError(f"variable {name}: expected label_values(SERIES, LABEL), not {variable['query']['query']}")
    return Query(found["label"], f"count by ({found['label']}) ({found['series']})")


def on_page(page: Json, values: Sequence[str], rate_interval: str) -> Iterator[Panel]:
    """All panels from the top; a repeated one stands once for each of `values`, and those below it give way."""
    moved = 0
    for panel in page["panels"]:
        repeats = values if "repeat" in panel else ("",)
        per_row = panel.get("maxPerRow", 1)
        place = panel["gridPos"]
        width = COLUMNS // per_row if "repeat" in panel else place["w"]
        for at, value in enumerate(repeats):
            row, column = divmod(at, per_row)
            top = place["y"] + moved + row * place["h"]
            yield _filled(panel, value, rate_interval, (place["x"] + column * width, top, width, place["h"]))
        moved += (len(repeats) - 1) // per_row * place["h"]


def _filled(panel: Json, value: str, rate_interval: str, place: tuple[int, int, int, int]) -> Panel:
    variables = {"$__rate_interval": rate_interval}
    if "repeat" in panel:
        variables[f"${panel['repeat']}"] = value
    defaults = panel.get("fieldConfig", {}).get("defaults", {})
    stacking = defaults.get("custom", {}).get("stacking", {}).get("mode", "none")
    queries = [
        Query(target["legendFormat"], _replaced(target["expr"], variables)) for target in panel.get("targets", ())
    ]
    title = _replaced(panel["title"], variables)
    return Panel(panel["type"], title, defaults.get("unit", ""), stacking == "normal", *place, tuple(queries))


def _replaced(text: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        text = text.replace(name, value)
    return text
