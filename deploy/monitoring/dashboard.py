"""dashboard.yaml -> Grafana's dashboard model: every panel gets an id, a place on the page and its targets.

`deploy.monitoring` writes the result to dashboard.json, which Grafana imports and a kustomize component puts into a
ConfigMap. Ids are counted from 1 in the order of the page, places fill rows of 24 columns from the left.
"""

from collections.abc import Iterator
from typing import Any, Final

Json = dict[str, Any]

COLUMNS: Final = 24
USUAL_WIDTH: Final = 8
HEIGHTS: Final = {"timeseries": 8, "stat": 4}
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
DATASOURCE: Final = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
# The metrics that the annotator reads, those of the policy's own included; all of them by default.
METRIC: Final = {
    "name": "metric",
    "label": "Metric",
    "type": "query",
    "datasource": SOURCE,
    "query": {"query": "label_values(evenload_node_load_ratio, metric)", "refId": "metrics"},
    "refresh": 2,
    "sort": 1,
    "multi": True,
    "includeAll": True,
    "current": {"text": ["All"], "value": ["$__all"]},
}
SCHEMA_VERSION: Final = 39  # Grafana 10.4 and later read it


def model(page: Json) -> Json:
    """The whole dashboard of what dashboard.yaml says."""
    return {
        "uid": page["uid"],
        "title": page["title"],
        "tags": ["evenload", "kubernetes"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [DATASOURCE, METRIC]},
        "annotations": {"list": []},
        "panels": list(_placed(page["rows"])),
    }


def _placed(rows: list[Json]) -> Iterator[Json]:
    number, top = 0, 0
    for row in rows:
        number += 1
        heading = {"type": "row", "title": row["title"], "collapsed": False, "panels": []}
        yield heading | {"id": number, "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": top}}
        top, left, highest = top + 1, 0, 0
        for panel in row["panels"]:
            width = panel.get("width", USUAL_WIDTH)
            if left + width > COLUMNS or "repeat" in panel:
                top, left, highest = top + highest, 0, 0
            number += 1
            made = _panel(panel)
            height = HEIGHTS[made["type"]]
            yield made | {"id": number, "gridPos": {"h": height, "w": width, "x": left, "y": top}}
            left, highest = COLUMNS if "repeat" in panel else left + width, max(highest, height)
        top += highest


def _panel(panel: Json) -> Json:
    """One panel without its id and place."""
    kind = panel.get("kind", "timeseries")
    custom = {"fillOpacity": 10, "stacking": {"mode": "normal" if panel.get("stacked") else "none"}}
    defaults = {"unit": panel.get("unit", "short"), "min": 0, "custom": custom if kind == "timeseries" else {}}
    repeated = {"repeat": panel["repeat"], "repeatDirection": "h", "maxPerRow": 3} if "repeat" in panel else {}
    return {
        "type": kind,
        "title": panel["title"],
        "description": panel["text"],
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _options(kind),
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": expr, "legendFormat": legend}
            for at, (legend, expr) in enumerate(panel["queries"].items())
        ],
        **repeated,
    }


def _options(kind: str) -> Json:
    """All that Grafana's schema requires, its defaults included."""
    if kind == "stat":
        return {
            "reduceOptions": {"calcs": ["lastNotNull"]},
            "colorMode": "value",
            "graphMode": "area",
            "justifyMode": "auto",
            "orientation": "auto",
            "percentChangeColorMode": "standard",
            "showPercentChange": False,
            "textMode": "auto",
            "wideLayout": True,
        }
    legend = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
    return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
