"""Alerts, recording rules and dashboard under the real promtool: rules, their tests, and each query as a rule."""

import json
import pathlib
import subprocess

import pytest
import yaml

from lab.cluster import binaries

pytestmark = pytest.mark.cluster
MONITORING = pathlib.Path(__file__).parents[2] / "deploy" / "monitoring"


def promtool(*words: str, directory: pathlib.Path = MONITORING) -> subprocess.CompletedProcess[str]:
    """What the real one says."""
    command = [str(binaries.find_or_build()["promtool"]), *words]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def accepted(*words: str, directory: pathlib.Path = MONITORING) -> str:
    """What it prints of what it must accept."""
    answer = promtool(*words, directory=directory)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


@pytest.mark.parametrize("file", ["alerts.yaml", "alerts.test.yaml", "rules.yaml", "rules.test.yaml"])
def test_promtool_accepts_the_shipped_rules_and_their_tests(file: str) -> None:
    accepted("test" if ".test." in file else "check", "rules", f"evenload-{file}")


def test_promtool_notices_an_alert_that_says_something_else(tmp_path: pathlib.Path) -> None:
    for name in ("evenload-alerts.yaml", "evenload-alerts.test.yaml"):
        text = (MONITORING / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(
            text.replace("_filtered_nodes_total[15m])) > 0.5", "_filtered_nodes_total[15m])) > 0.9"), encoding="utf-8"
        )
    answer = promtool("test", "rules", "--run", "three of four", "evenload-alerts.test.yaml", directory=tmp_path)
    assert answer.returncode != 0
    assert "EvenloadFilterRejectsMost" in answer.stdout + answer.stderr


def test_every_query_of_the_dashboard_is_one(tmp_path: pathlib.Path) -> None:
    panels = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    queries = [target["expr"].replace("$__rate_interval", "5m") for one in panels for target in one.get("targets", [])]
    rules = [{"record": f"query:{at}", "expr": query} for at, query in enumerate(queries)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(queries)} rules found" in accepted("check", "rules", "rules.yaml", directory=tmp_path)
