"""The JSON Schema of the policy file, for completion and checks in editors.

`python -m policy.schema.json_schema > schemas/loadpolicy.schema.json` writes it; a test keeps the published file equal
to the model. Name it in the first line of a policy: `# yaml-language-server:
$schema=.../schemas/loadpolicy.schema.json`.
"""

import json
import sys
from typing import Final

from policy import metrics
from policy.schema import load_policy

# Sections with a map whose keys are metrics.
_BY_METRIC: Final = {"Filter": "thresholds", "Score": "weights", "Descheduler": "thresholds"}
_BY_METRIC_IN_PARTS: Final = {"FilterChange": "thresholds", "ScoreChange": "weights", "PoolDescheduler": "thresholds"}
ID: Final = "schemas/loadpolicy.schema.json"


def text() -> str:
    """The schema as JSON, indented, in a stable order; editors complete the names of the built-in metrics."""
    model = load_policy.LoadPolicy.model_json_schema(by_alias=True, mode="validation")
    model["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    model["$id"] = ID
    _fill(model, load_policy.defaults().as_file(), model["$defs"])
    for section, key in (_BY_METRIC | _BY_METRIC_IN_PARTS).items():
        field = model["$defs"][section]["properties"][key]
        field["properties"] = dict.fromkeys(metrics.names(metrics.BUILT_IN), field["additionalProperties"])
    return json.dumps(model, indent=2, ensure_ascii=False) + "\n"


def _fill(section: object, defaults: object, definitions: dict[str, object]) -> None:
    """Give every key its default as the file writes it, e.g. "30s" where the model holds 30.0 seconds."""
    if not isinstance(section, dict) or not isinstance(defaults, dict):
        return
    if isinstance(reference := section.get("$ref"), str):
        _fill(definitions[reference.rpartition("/")[2]], defaults, definitions)
        return
    for key, described in section.get("properties", {}).items():
        if key not in section.get("required", ()):
            _fill(described, defaults[key], definitions)
            described.pop("default", None)
            if "$ref" not in described:
                described["default"] = defaults[key]


if __name__ == "__main__":
    sys.stdout.write(text())
