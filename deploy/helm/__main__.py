"""`python -m deploy.helm`: write what is generated of the chart, from values.schema.yaml and the manifests of deploy/.

These are the chart's values.yaml and values.schema.json, the table of values in docs/start/helm.md, and the chart's
copies of manifests: Flux drops symbolic links. tests/unit/deploy/test_helm.py compares, and says to run this.
"""

import copy
import json
import pathlib
import textwrap
from collections.abc import Iterator
from typing import Any, Final

import yaml

ROOT: Final = pathlib.Path(__file__).parents[2]
SOURCE: Final = pathlib.Path(__file__).with_name("values.schema.yaml")
CHART: Final = SOURCE.with_name("evenload")
PAGE: Final = ROOT / "docs" / "start" / "helm.md"
# Below deploy/, the kustomizations that the values choose from, with their files.
MANIFESTS: Final = (
    *("guard/*", "kustomize/base/*", "kustomize/components/*/*", "monitoring/dashboard.json"),
    *("monitoring/kustomization.yaml", "monitoring/prometheusrule-alerts.yaml", "monitoring/service-monitors.yaml"),
    *("namespace/*", "placeholder/base/*", "placeholder/components/*/*", "policies/default.yaml"),
    *("policies/kustomization.yaml", "rbac/*", "scheduler/second/*"),
)
BEGIN: Final = "<!-- values: written by `python -m deploy.helm` -->\n"
END: Final = "<!-- values: end -->\n"
HEAD: Final = """\
# The chart's values with their defaults, written by `python -m deploy.helm` from deploy/helm/values.schema.yaml.
# With these the objects are those of deploy/kustomize/base. Give your own file what you change, and nothing else:
#   helm upgrade --install evenload deploy/helm/evenload -n evenload-system --create-namespace -f mine.yaml
# yaml-language-server: $schema=values.schema.json
"""
COMPONENTS: Final = "annotator, extender, descheduler, console, placeholders, secondScheduler"
WIDTH: Final = 110
Schema = dict[str, Any]


def schema() -> Schema:
    """The JSON Schema of the values, draft 7, which every Helm 3 and 4 reads; unknown values are errors."""
    source = _source()
    for name in ("x-pod", "x-image"):
        del source[name]
    source["properties"]["global"] = {"type": "object", "description": "Helm gives it to dependencies."}
    for section in _sections(source):
        section["additionalProperties"] = False
    return {"$schema": "http://json-schema.org/draft-07/schema#", **source, "definitions": _policy_definitions()}


def values() -> str:
    """The text of values.yaml: each value with its default, its description above it."""
    return HEAD + "".join(_value_lines(_source(), 0))


def by_name() -> dict[str, Schema]:
    """The schema of each value, by its dotted name."""
    return dict(_leaves(_source(), ""))


def table() -> str:
    """The table of values in Markdown; values that every component has are in it once."""
    pod = _source()["x-pod"]
    rows = ["| value | default | meaning |", "|---|---|---|"]
    for name, one in by_name().items():
        component, _, key = name.partition(".")
        rows += [] if component in COMPONENTS.split(", ") and key in pod else [_row(name, one)]
    rows += [_row(f"COMPONENT.{name}", one) for name, one in pod.items()]
    return "\n".join([*rows, "", f"COMPONENT is each of {COMPONENTS}.", ""])


def page(text: str) -> str:
    """A page with the table between its two marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


def texts() -> dict[pathlib.Path, str]:
    """By path what is generated."""
    deploy = ROOT / "deploy"
    sources = [path for pattern in MANIFESTS for path in sorted(deploy.glob(pattern))]
    return {
        CHART / "values.yaml": values(),
        CHART / "values.schema.json": json.dumps(schema(), indent=1, ensure_ascii=False) + "\n",
        PAGE: page(PAGE.read_text(encoding="utf-8")),
        **{CHART / "manifests" / one.relative_to(deploy): one.read_text(encoding="utf-8") for one in sources},
    }


def _source() -> Schema:
    """The source with the keys of each component before those of every component, which YAML's merge puts first."""
    loaded: Schema = copy.deepcopy(yaml.safe_load(SOURCE.read_text(encoding="utf-8")))
    for section in _sections(loaded):
        for shared in (loaded["x-pod"], loaded["x-image"]):
            if shared.keys() <= section["properties"].keys():
                own = {name: one for name, one in section["properties"].items() if name not in shared}
                section["properties"] = {**own, **shared}
    return loaded


def _sections(section: Schema) -> Iterator[Schema]:
    if "properties" in section:
        yield section
        for one in section["properties"].values():
            yield from _sections(one)


def _policy_definitions() -> Schema:
    """The schema of a policy and its parts; `apiVersion` and `kind` may be left out."""
    text = (ROOT / "schemas" / "loadpolicy.schema.json").read_text(encoding="utf-8")
    policy: Schema = json.loads(text.replace("#/$defs/", "#/definitions/"))
    parts: Schema = policy.pop("$defs")
    for key in ("$schema", "$id", "required"):
        policy.pop(key, None)
    return {"LoadPolicy": policy, **parts}


def _value_lines(section: Schema, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, one in section["properties"].items():
        if "default" not in one:
            yield f"{indent}{name}:\n"
            yield from _value_lines(one, depth + 1)
            continue
        for line in textwrap.wrap(one["description"], WIDTH - len(indent)):
            yield f"{indent}# {line}\n"
        yield f"{indent}{name}: {json.dumps(one['default'])}\n"


def _leaves(section: Schema, prefix: str) -> Iterator[tuple[str, Schema]]:
    for name, one in section["properties"].items():
        if "default" in one:
            yield f"{prefix}{name}", one
        else:
            yield from _leaves(one, f"{prefix}{name}.")


def _row(name: str, one: Schema) -> str:
    meaning = one["description"].replace("|", "\\|").rstrip(".")
    return f"| `{name}` | `{json.dumps(one['default'])}` | {meaning} |"


if __name__ == "__main__":
    for path, text in texts().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
