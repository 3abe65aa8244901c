"""`evenload explain eviction`: the verdict on one pod now, its limit, what would change it, and the ledger's rows."""

import json
import pathlib
from collections.abc import Iterator

import pytest

from descheduler.ledger.rows import RecordedEvent
from tests import commands
from tests.unit.cli import deschedulers
from tests.unit.descheduler.scenes import NOW
from tests.unit.descheduler.test_ledger import record
from tests.unit.docs.worlds import crowded

HOT = "node hot: memory_avg_5m 90% > 80%, until 60%, since 2026-11-21T03:56:05Z, then 59%"
COOL = "node cool: not overloaded: memory_avg_5m 10.0% of 80%, cpu_avg_5m 10.0% of 80%"
NEEDS = "to leave it needs "
VERDICTS = {
    "web-0": [" would leave: chosen: expected on cool", HOT, f"{NEEDS}mode Enforce"],
    "db-0": [
        " stays: budget: db allows 0 (3 healthy, 2 needed)",
        HOT,
        f"{NEEDS}a PodDisruptionBudget that allows a disruption",
    ],
    "web-1": [
        " stays: not_needed",
        COOL,
        "it leaves only if a metric is over its line for 3m (descheduler.thresholds, overloadedFor) and other pods do "
        "not relieve the node",
    ],
    "few-0": [
        " stays: few_replicas: ReplicaSet/few wants 1, at least 2 needed",
        COOL,
        "limit: descheduler.protect.minReplicas = 2",
        f"{NEEDS}a change of the pod, its workload or the policy: no load is enough",
    ],
}


@pytest.fixture
def descheduler(tmp_path: pathlib.Path) -> Iterator[deschedulers.Descheduler]:
    """A descheduler that observes a crowded node and a calm one."""
    with deschedulers.serving(crowded().workload("few", on=["cool"], replicas=1), tmp_path) as served:
        yield served


@pytest.mark.parametrize("pod", VERDICTS)
def test_a_pod_has_its_verdict_its_limit_and_its_needs(pod: str, descheduler: deschedulers.Descheduler) -> None:
    first, *lines = descheduler.run("explain", "eviction", pod, code=0).stdout.splitlines()
    expected, *more = VERDICTS[pod]
    assert first == f"pod default/{pod} of ReplicaSet/{pod[:-2]}{expected}"
    now = f"at 2026-11-21T04:00:00Z, mode Observe, policy {descheduler.world.policy.content_hash}"
    assert lines == [*more, now, "", "no eviction in the ledger"]


def test_rows_of_the_pod_and_of_its_workload_follow(descheduler: deschedulers.Descheduler) -> None:
    for name, result in (("web", "evicted"), ("db", "refused"), ("old", "evicted")):
        record(descheduler.world.ledger, result, name=name)
    for pod, first, header, own in (
        ("web-1", "pod default/web-1 of ReplicaSet/web stays", "AGE POD NODE", "0s default/web-0 hot"),
        ("old-0", "pod default/old-0: no node has it now", "AGE NODE", "0s hot"),
    ):
        lines = descheduler.run("explain", "eviction", pod, code=0).stdout.splitlines()
        assert lines[0].startswith(first)
        assert [" ".join(line.split()) for line in lines[-2:]] == [
            f"{header} LOAD RESULT LANDED READY 5M 30M",
            f"{own} memory 90%>80% evicted - - - -",
        ]
    document = json.loads(descheduler.run("explain", "eviction", "web-1", "-o", "json", code=0).stdout)
    assert document["plan"]["nodes"][0]["candidates"][0]["verdict"] == "not_needed"
    assert [row["pod"] for row in document["evictions"]] == ["web-0"]
    descheduler.world.ledger.set_aside("it was corrupt", NOW - 60)
    without = descheduler.run("explain", "eviction", "web-1", code=0).stdout
    assert without.endswith("\nno eviction in the ledger since 2026-11-21T03:59:00Z, when it was begun anew\n")


def test_events_that_kept_the_pods_of_its_node_or_it_follow(descheduler: deschedulers.Descheduler) -> None:
    for event in ((1, "Node", "", "cool"), (1, "Pod", "shop", "web-1"), (0, "Node", "", "cool")):
        descheduler.world.ledger.tell(RecordedEvent(NOW - 120, "R", *event, "", "0 evicted: 1 PDB"))
    lines = descheduler.run("explain", "eviction", "web-1", code=0).stdout.splitlines()
    shown = [" ".join(line.split()) for line in lines[-2:]]
    assert shown == ["AGE TYPE REASON OBJECT NOTE", "2m Warning R Node/cool 0 evicted: 1 PDB"]


def test_a_pod_that_is_nowhere_is_bad_input(descheduler: deschedulers.Descheduler) -> None:
    words = "no node has a pod shop/web-0, and the ledger has no eviction of it"
    commands.assert_refused(descheduler.run("explain", "eviction", "web-0", "-n", "shop"), 2, words)


def test_data_that_is_not_whole_gives_no_verdict(descheduler: deschedulers.Descheduler) -> None:
    descheduler.world.prometheus.warnings = ("a store is away",)
    shown = descheduler.run("explain", "eviction", "web-0", code=4)
    assert "a store is away" in shown.stdout.splitlines()[0]
