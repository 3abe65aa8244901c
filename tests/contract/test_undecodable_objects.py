"""Objects that kube-apiserver stores and serves and that no struct of ours can hold: what they cost our services.

Whoever may patch a status can write a condition of the year 0, or of 9999 in a zone behind UTC, which kube-apiserver
1.36 serves as the year 10000 for ever. One node and one pod have such conditions here. The extender runs while they
appear, extender and annotator are restarted, and the descheduler plans.
"""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube import config, kinds
from lab.cluster import Cluster, api
from tests import starting
from tests.e2e import lent, policies, services, waiting

pytestmark = pytest.mark.cluster
PODS = "api/v1/namespaces/default/pods"
TIMES = {"0000-01-01T00:00:00Z": "0000-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00": "10000-01-01T00:59:59Z"}
YEAR_0, YEAR_10000 = TIMES
POSSIBLE = "2026-01-01T00:00:00Z"
KINDS = {"Node node-1 (time)", "Pod default/spoilt on node-0 (time)"}


@pytest.fixture(scope="module")
def running(fleet: Cluster) -> Iterator[Cluster]:
    """Three nodes with their load in Prometheus, all of whose times are possible afterwards; pods are bound by hand."""
    with lent.lent(fleet):
        try:
            yield fleet
        finally:
            for node in fleet.api.items("api/v1/nodes"):
                with_condition(fleet, f"api/v1/nodes/{node['metadata']['name']}", condition("example.com/x", POSSIBLE))


def condition(kind: str, time: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "reason": "x", "message": "x", "lastTransitionTime": time}


def with_condition(running: Cluster, path: str, added: dict[str, Any]) -> str:
    """Adds a condition to a status as anyone with the right may; the time as the apiserver serves it."""
    held = running.api.get(path).get("status", {}).get("conditions", [])
    conditions = [*(one for one in held if one["type"] != added["type"]), added]
    running.api.patch(f"{path}/status", {"status": {"conditions": conditions}})
    served = running.api.get(path)["status"]["conditions"]
    return str(next(one["lastTransitionTime"] for one in served if one["type"] == added["type"]))


def bound_pod(running: Cluster, name: str, node: str) -> None:
    lent.bind(running.api, name, node)
    waiting.until(lambda: running.api.get(f"{PODS}/{name}")["status"]["phase"] == "Running", "kwok")


@contextlib.contextmanager
def started(name: str, arguments: list[str], directory: Path) -> Iterator[services.Service]:
    directory.mkdir(exist_ok=True)
    made = services.Service(name, arguments, directory)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def left_out(service: services.Service) -> str:
    return next(line for line in service.text("/readyz?verbose").splitlines() if line.startswith("[+]objects"))


def names_both(service: services.Service) -> bool:
    return all(one in left_out(service) for one in KINDS)


def test_what_the_apiserver_stores_and_serves(running: Cluster) -> None:
    served = {time: with_condition(running, "api/v1/nodes/node-2", condition("example.com/x", time)) for time in TIMES}
    assert served == TIMES
    with pytest.raises(api.ApiError, match="422"):
        with_condition(running, "api/v1/nodes/node-2", condition("example.com/x", "10000-01-01T00:00:00Z"))
    with_condition(running, "api/v1/nodes/node-2", condition("example.com/x", POSSIBLE))


def test_a_node_and_a_pod_with_impossible_times_cost_only_themselves(running: Cluster, tmp_path: Path) -> None:
    policy = policies.write(tmp_path / "policy.yaml")
    common = ["--policy", str(policy), "--kubeconfig", str(running.kubeconfig), "--namespace", "default"]
    measured = [*common, "--prometheus", running.prometheus_url, "--no-leader-elect"]
    bound_pod(running, "spoilt", "node-0")
    bound_pod(running, "sound", "node-0")
    with started("extender", common, tmp_path / "running") as extender:
        assert left_out(extender) == "[+]objects ok: all decoded"
        with_condition(running, "api/v1/nodes/node-1", condition("example.com/x", YEAR_0))
        with_condition(running, f"{PODS}/spoilt", condition("Ready", YEAR_10000))
        waiting.until(lambda: names_both(extender), "both to be named", lambda: left_out(extender))
        bound_pod(running, "later", "node-2")
        waiting.until(lambda: counts(extender) == {"node-0": 2, "node-2": 1}, "it to go on")
        assert extender.metric("evenload_kube_undecodable_objects_total") == 2
        assert extender.log().count("objects cannot be decoded") == 2
        assert "lost contact" not in extender.log(), "no watch was to end, and nothing to be listed again"
    with started("extender", common, tmp_path / "restarted") as extender:
        assert names_both(extender)
        assert counts(extender) == {"node-0": 2, "node-2": 1}
    with started("annotator", measured, tmp_path / "annotator") as annotator:
        assert names_both(annotator)
        others = {"node-0", "node-2"}
        waiting.until(lambda: lent.texts(running.api).keys() == others, "all other nodes to be written")
    ledger = ["--ledger", str(tmp_path / "ledger.sqlite")]
    planned = once("descheduler", *measured, *ledger)
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)
    shown = once("extender", *common)
    assert {row["name"] for row in json.loads(shown.stdout)["nodes"]} == {"node-0", "node-2"}, shown.stderr
    synced = once("annotator", *common, "--prometheus", running.prometheus_url)
    assert synced.returncode in (0, 4), synced.stderr
    advised = once("cli", "doctor", "--kubeconfig", str(running.kubeconfig), "-n", "default", "-o", "json")
    assert "Node node-1 (time)" in advised.stdout, advised.stdout + advised.stderr
    # A door that lists again finds all whole.
    with_condition(running, "api/v1/nodes/node-1", condition("example.com/x", POSSIBLE))
    running.api.delete(f"{PODS}/spoilt")
    with contextlib.closing(config.connect(running.kubeconfig)) as door:
        assert len(door.list(kinds.NODES).items) == 3
        assert door.undecodable.line() == "all decoded"


def counts(extender: services.Service) -> dict[str, int]:
    answer: Any = extender.json("/nodes")
    assert [row["name"] for row in answer["nodes"]] == ["node-0", "node-2"]
    return {row["name"]: row["hot"]["10m"] for row in answer["nodes"]}


def once(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return starting.run(starting.Command(module, (*arguments, *(["--once"] if module != "cli" else []))))
