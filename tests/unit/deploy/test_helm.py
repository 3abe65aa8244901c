"""The chart's files agree with their sources; tests/contract/test_helm.py has the objects that Helm makes of them."""

import importlib
import json
from typing import Any

import yaml

from deploy.helm import __main__
from policy.schema import load_policy
from runtime import version

MANIFESTS = __main__.CHART / "manifests"


def validator() -> Any:
    """Returns a validator of the values; jsonschema, which has no types, takes a second to import."""
    return importlib.import_module("jsonschema").Draft7Validator(__main__.schema())


def test_what_is_generated_is_up_to_date() -> None:
    differing = [path for path, text in __main__.texts().items() if path.read_text(encoding="utf-8") != text]
    assert not differing, "python -m deploy.helm writes them"


def test_the_chart_has_the_version_of_the_code() -> None:
    chart = yaml.safe_load((__main__.CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["apiVersion"], chart["version"], chart["appVersion"]) == ("v2", version.VERSION, version.VERSION)


def test_the_charts_manifests_are_files_and_no_others_than_are_generated() -> None:
    paths = [path for path in MANIFESTS.rglob("*") if path.is_symlink() or path.is_file()]
    assert len(paths) > 40
    assert not [path for path in paths if path.is_symlink()]
    assert set(paths) == {path for path in __main__.texts() if path.is_relative_to(MANIFESTS)}


def test_every_value_has_a_default_and_a_meaning_and_the_defaults_are_valid() -> None:
    assert all(one["description"] for one in __main__.by_name().values())
    values = yaml.safe_load((__main__.CHART / "values.yaml").read_text(encoding="utf-8"))
    by_schema = validator()
    by_schema.check_schema(__main__.schema())
    assert not list(by_schema.iter_errors(values))
    for name, one in __main__.by_name().items():
        found = values
        for key in name.split("."):
            found = found[key]
        assert found == one["default"], name


def test_the_schema_of_the_policy_takes_the_sections_of_a_policy_and_no_others() -> None:
    by_schema = validator()
    whole = json.loads(json.dumps(load_policy.defaults().as_file()))
    assert not list(by_schema.iter_errors({"policy": whole}))
    (error,) = by_schema.iter_errors({"policy": {"descheduler": {"mode": "Enforc"}}})
    assert list(error.path) == ["policy", "descheduler", "mode"]
    (error,) = by_schema.iter_errors({"policy": {"deschedular": {}}})
    assert "deschedular" in error.message
