"""`python -m deploy.monitoring`: write what is generated here, dashboard.json and prometheusrule-alerts.yaml.

People edit dashboard.yaml and evenload-alerts.yaml; a test compares, and says to run this. The recording rules beside
them are what `evenload recording-rules` prints.
"""

import json
import pathlib

import yaml

from cli import recording_rules
from cli.common import output
from deploy.monitoring import dashboard

HERE = pathlib.Path(__file__).parent
ALERTS = "evenload-alerts.yaml"
HEAD = "# evenload-alerts.yaml for prometheus-operator, written by `python -m deploy.monitoring`: edit that file.\n"


def texts() -> dict[str, str]:
    """By file name of this folder what is generated."""
    page = yaml.safe_load((HERE / "dashboard.yaml").read_text(encoding="utf-8"))
    rules = yaml.safe_load((HERE / ALERTS).read_text(encoding="utf-8"))
    manifest = recording_rules.manifest("evenload-alerts", rules)
    return {
        "dashboard.json": json.dumps(dashboard.model(page), indent=1) + "\n",
        "prometheusrule-alerts.yaml": HEAD + output.as_yaml(manifest, block=True) + "\n",
    }


if __name__ == "__main__":
    for name, text in texts().items():
        (HERE / name).write_text(text, encoding="utf-8")
