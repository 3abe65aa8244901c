"""The model of the policy: promised defaults, promised presets, promised documentation."""

import collections.abc
import json
import pathlib
import re
import types
import typing

import pydantic
import pytest

from policy.loading import loader
from policy.schema import descheduler_section, json_schema, load_policy, sections

ROOT = pathlib.Path(__file__).parents[3]
PRESETS = ROOT / "deploy" / "policies"


def _preset(name: str) -> load_policy.LoadPolicy:
    return loader.load((PRESETS / name).read_text(), name)


def test_the_score_before_is_a_preset() -> None:
    score = _preset("field.yaml").score
    assert (score.combine, score.incoming_pod, score.weights) == ("mean", False, _preset("crane.yaml").score.weights)


def test_the_default_preset_spells_out_every_default() -> None:
    assert _preset("default.yaml").as_file() == load_policy.defaults().as_file()


def test_every_default_stands_in_the_default_preset() -> None:
    spelt = set(re.findall(r"([a-zA-Z_0-9]+):", (PRESETS / "default.yaml").read_text()))
    keys = set(_keys(load_policy.defaults().as_file())) - {"matchLabels", "matchExpressions"}
    assert keys <= spelt


def _keys(tree: object) -> collections.abc.Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield key
            yield from _keys(value)


def test_the_memory_bound_preset_filters_weighs_and_relieves_by_memory() -> None:
    policy = _preset("memory-bound.yaml")
    assert policy.filter.thresholds == {"memory_avg_5m": 0.6, "memory_max_1h": 0.7}
    assert [policy.score.weights[f"memory_{window}"] for window in ("avg_5m", "max_1h", "max_1d")] == [0.8, 0.2, 0.2]
    assert [policy.score.weights[f"cpu_{window}"] for window in ("avg_5m", "max_1h", "max_1d")] == [0.1, 0.1, 0.1]
    assert list(policy.descheduler.thresholds) == ["memory_avg_5m"]
    assert policy.descheduler.thresholds["memory_avg_5m"].evict_above_ratio == 0.8
    assert policy.sync == load_policy.defaults().sync


def test_the_pressure_preset_evicts_by_waiting_alone_and_has_destinations_under_their_use() -> None:
    policy = _preset("pressure.yaml")
    bands = {
        name: (band.evict_above_ratio, band.evict_until_ratio) for name, band in policy.descheduler.thresholds.items()
    }
    assert bands == {"memory_avg_5m": (0.8, 0.6), "cpu_pressure_5m": (0.4, 0.2), "cpu_avg_5m": (1, 0.8)}
    assert policy.filter.thresholds["cpu_pressure_5m"] == 0.25 < policy.filter.thresholds["cpu_avg_5m"] == 0.85
    assert policy.score == load_policy.defaults().score


def test_flow_rules_are_shown_as_they_are_written() -> None:
    allowed: list[object] = ["Never", {"perMinute": 6, "burst": 2}, {"inFlight": 1}]
    policy = load_policy.LoadPolicy.of({"descheduler": {"flow": [{"allow": rule} for rule in allowed]}})
    shown = [rule.model_dump(mode="json", by_alias=True)["allow"] for rule in policy.descheduler.flow]
    assert json.loads(json.dumps(shown)) == allowed


def test_a_policy_cannot_be_changed_once_made() -> None:
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        setattr(load_policy.defaults().sync, "period_seconds", 1.0)  # noqa: B010  (a plain assignment is refused by mypy)


def test_filter_and_descheduler_thresholds_are_crossings() -> None:
    policy = load_policy.LoadPolicy.of({"filter": {"thresholds": {"cpu_avg_5m": 0.65, "cpu_max_1h": 0}}})
    assert policy.crossings() == {"cpu_avg_5m": (0.6, 0.65, 0.8), "cpu_max_1h": (), "memory_avg_5m": (0.6, 0.8)}


def test_the_published_json_schema_is_the_one_of_the_model() -> None:
    published = (ROOT / "schemas" / "loadpolicy.schema.json").read_text()
    assert published == json_schema.text(), (
        "write it anew: python -m policy.schema.json_schema > schemas/loadpolicy.schema.json"
    )


def test_the_json_schema_shows_defaults_as_the_file_writes_them() -> None:
    model = json.loads(json_schema.text())
    assert model["$defs"]["Sync"]["properties"]["period"]["default"] == "30s"
    assert model["$defs"]["DefaultLoad"]["properties"]["memory"]["default"] == "200Mi"
    assert model["required"] == ["apiVersion", "kind"]


def _fields(model: type[pydantic.BaseModel], prefix: str) -> collections.abc.Iterator[str]:
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        yield path
        inner = field.annotation
        if typing.get_origin(inner) is tuple:
            inner, path = typing.get_args(inner)[0], path + "[]"
        elif typing.get_origin(inner) is dict:
            inner, path = typing.get_args(inner)[1], path + ".<metric>"
        elif isinstance(inner, types.UnionType) and sections.LabelSelector not in typing.get_args(inner):
            inner = typing.get_args(inner)[0]
        if isinstance(inner, type) and issubclass(inner, pydantic.BaseModel) and inner is not descheduler_section.Allow:
            yield from _fields(inner, f"{path}.")


def test_the_walk_over_fields_reaches_the_depths_of_the_model() -> None:
    paths = set(_fields(load_policy.LoadPolicy, ""))
    assert {
        "hotSpots[].pods",
        "descheduler.cooldown.returned.max",
        "descheduler.thresholds.<metric>.evictUntil",
        "descheduler.thresholds.<metric>.overMean.floor",
    } <= paths


def test_the_documentation_has_a_row_for_every_field_and_for_fields_only() -> None:
    rows = re.findall(r"\n\| `([a-z][^`]*)` \|", (ROOT / "docs" / "reference" / "policy.md").read_text())
    assert set(rows) == set(_fields(load_policy.LoadPolicy, ""))


def test_every_field_says_what_it_means() -> None:
    def silent(model: type[sections.Section]) -> list[str]:
        return [name for name, field in model.model_fields.items() if not field.description]

    models = [model for model in sections.Section.__subclasses__() if model is not descheduler_section.Allow]
    assert len(models) > 20
    assert {model.__name__: silent(model) for model in models if silent(model)} == {}


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ({}, {}, True),
        ({"matchLabels": {"app": "web"}}, {"app": "web", "tier": "1"}, True),
        ({"matchLabels": {"app": "web"}}, {"app": "db"}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}, {"app": "b"}, True),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}, {}, False),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}, {}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, {"app": ""}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, {"app": ""}, False),
    ],
)
def test_a_label_selector_matches_as_kubernetes_does(
    selector: dict[str, object], labels: dict[str, str], matches: bool
) -> None:
    assert sections.LabelSelector.model_validate(selector).matches(labels) is matches
