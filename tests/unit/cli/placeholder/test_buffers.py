"""A buffer instead of pods: the objects rendered, and what an autoscaler says of it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import commands
from tests.unit.cli.placeholder.test_commands import BUFFERS, EVENLOAD, TEMPLATES, Apiserver

STATUS = ("status", "--as", "buffers")
SINCE = "2026-11-29T10:00:00Z"
Document = dict[str, Any]


def rendered(*options: str) -> dict[str, Document]:
    """What is rendered, by kind."""
    return {one["kind"]: one for one in yaml.safe_load_all(commands.output("placeholder", "render", *options))}


def test_its_template_is_that_of_the_pods_but_for_the_spread() -> None:
    options = ("--requests", "cpu=2,memory=4Gi", "--toleration", "*", "--name", "gpu", "-n", "mine")
    template, buffer = (rendered("--as", "buffers", *options)[kind] for kind in ("PodTemplate", "CapacityBuffer"))
    deployment = rendered(*options)["Deployment"]["spec"]
    assert deployment["template"]["spec"].pop("topologySpreadConstraints")
    assert template["template"] == deployment["template"]
    assert template["metadata"] == buffer["metadata"]
    assert (buffer["metadata"]["namespace"], buffer["metadata"]["name"]) == ("mine", "gpu")
    assert (buffer["spec"]["podTemplateRef"], buffer["spec"]["replicas"]) == ({"name": "gpu"}, deployment["replicas"])


@pytest.mark.parametrize(
    ("options", "first"),
    [(("--replicas=4", "--during=20:00-07:00=2"), 4), (("--nodes-per-replica=4", "--max-replicas=9"), 0)],
)
def test_its_number_is_sized_as_that_of_pods_and_never_missing(options: tuple[str, ...], first: int) -> None:
    found = rendered("--as", "buffers", *options)
    assert found["CapacityBuffer"]["spec"]["replicas"] == first
    (container,) = found["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [f"--namespace={EVENLOAD}", "--buffer=placeholder", *options]


@pytest.mark.parametrize(
    ("provided", "condition", "cells", "remark"),
    [
        (3, ("True", "FitsExistingCapacity"), ["3", "0", "0", "900m", "1800Mi"], ""),
        (2, ("True", "FitsExistingCapacity"), ["2", "1", "0", "600m", "1200Mi"], "has written Provisioning of all"),
        (3, ("False", "RequiresNewCapacity"), ["0", "3", "0", "0m", "0Mi"], "Provisioning False (RequiresNewCapacity)"),
        (0, (), ["0", "3", "0", "0m", "0Mi"], "no autoscaler has written Provisioning of all"),
    ],
)
def test_status_has_the_autoscalers_word(
    provided: int, condition: tuple[str, ...], cells: list[str], remark: str, tmp_path: Path
) -> None:
    keys = ("status", "reason", "type", "lastTransitionTime")
    conditions = [dict(zip(keys, (*condition, "Provisioning", SINCE), strict=True))] if condition else []
    metadata = {"name": "placeholder", "namespace": EVENLOAD, "creationTimestamp": SINCE}
    buffer = {"metadata": metadata, "spec": {"replicas": 3}, "status": {"replicas": provided, "conditions": conditions}}
    server = Apiserver(tmp_path, {BUFFERS: [buffer], TEMPLATES: [rendered("--as", "buffers")["PodTemplate"]]})
    result = server.run(*STATUS, code=1 if remark else 0)
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [["*", *cells]]
    assert remark in result.stderr
    assert bool(remark) == ("kubectl describe capacitybuffer placeholder -n evenload-system" in result.stderr)
    document = json.loads(server.run(*STATUS, "-o", "json").stdout)
    assert [document["held"], document["waiting"]] == [int(cell) for cell in cells[:2]]
    assert (document["nodes"], document["preemptions"], document["sets"][0]["priority"]) == ([], [], None)
    assert {one.query["labelSelector"] for one in server.asked} == {"evenload.io/placeholder-set"}
