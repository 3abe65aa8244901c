"""dashboard.json is decoded strictly by the types that Grafana publishes, in a small Go program (tests/grafana)."""

import copy
import json
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from lab.cluster import programs

pytestmark = pytest.mark.cluster
READER = pathlib.Path(__file__).parents[1] / "grafana"
DASHBOARD = pathlib.Path(__file__).parents[2] / "deploy" / "monitoring" / "dashboard.json"
PAGE = json.loads(DASHBOARD.read_text(encoding="utf-8"))
Json = dict[str, Any]


def problems(page: Json) -> str:
    """Everything that is wrong with a dashboard, "" where nothing is."""
    reader = str(programs.built(READER))
    answer = subprocess.run([reader], input=json.dumps(page), capture_output=True, text=True, check=False)
    assert answer.returncode == (1 if answer.stdout else 0), answer.stderr
    return answer.stdout


def test_the_dashboard_is_what_grafanas_schema_says() -> None:
    assert not problems(PAGE)


def first(page: Json, kind: str) -> Json:
    """The first panel of a kind."""
    panel: Json = next(panel for panel in page["panels"] if panel["type"] == kind)
    return panel


def sources(page: Json) -> list[Json]:
    """The data sources of the first panel and of its queries."""
    panel = first(page, "stat")
    return [panel["datasource"], *(target["datasource"] for target in panel["targets"])]


@pytest.mark.parametrize(
    ("mutate", "named"),
    [
        pytest.param(lambda page: page.update(refreshEvery="30s"), "refreshEvery", id="unknown field of the page"),
        pytest.param(lambda page: page.update(schemaVersion="39"), "schemaVersion", id="another type"),
        pytest.param(lambda page: page.update(time={"from": "now-6h"}), "to", id="missing field"),
        pytest.param(lambda page: first(page, "stat").update(tittle="x"), "tittle", id="unknown field of a panel"),
        pytest.param(lambda page: first(page, "row").update(collapsed="no"), "collapsed", id="row"),
        pytest.param(lambda page: first(page, "stat")["gridPos"].update(w="3"), "gridPos", id="place"),
        pytest.param(lambda page: first(page, "stat")["options"].update(colour="x"), "colour", id="option of a panel"),
        pytest.param(
            lambda page: first(page, "timeseries")["fieldConfig"]["defaults"]["custom"].update(fillOpacty=1),
            "fillOpacty",
            id="custom field",
        ),
        pytest.param(
            lambda page: first(page, "timeseries")["targets"][0].update(expression="up"),
            "expression",
            id="unknown field of a query",
        ),
        pytest.param(lambda page: first(page, "stat")["targets"][0].pop("expr"), "expr", id="query without PromQL"),
        pytest.param(lambda page: first(page, "stat").update(type="statt"), "statt", id="panel of no known type"),
        pytest.param(
            lambda page: [source.update(type="prometeus") for source in sources(page)],
            "data source has no schema",
            id="data source of no known type",
        ),
        pytest.param(lambda page: page["panels"].append({"title": "x"}), "discriminator", id="panel without a type"),
        pytest.param(
            lambda page: page["templating"]["list"][1].update(multiple=True),
            "multiple",
            id="unknown field of a variable",
        ),
    ],
)
def test_a_mistake_is_named(mutate: Callable[[Json], object], named: str) -> None:
    page = copy.deepcopy(PAGE)
    mutate(page)
    assert named in problems(page)
