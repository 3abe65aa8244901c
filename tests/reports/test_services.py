"""Public reports about processes: their leaders, watches, threads and files, and what they write about them."""

import pathlib
import random

from kube import lease
from policy.loading import loader
from runtime import reloading
from simulator.apiserver import ApiServer
from tests import clocks
from tests.reports.register import Before, reported


@reported(
    "services",
    "kubernetes/kubernetes#61151",
    "kubernetes-csi/external-provisioner#690",
    situation="two processes of one host name and one port stand for one Lease",
    expected="one leads, the other follows",
    before=Before.WRONG,
)
def test_two_processes_of_one_host_name_have_one_leader() -> None:
    clock = clocks.ManualClock()
    door = ApiServer(clock, random.Random(1)).door(waits=False)
    processes = [
        lease.Election(
            door, namespace="default", name="ours", identity=lease.identity(rng), clock=clock, rng=random.Random(1)
        )
        for rng in (random.Random(7), random.Random(8))
    ]
    for process in processes:
        process.attempt()
    assert [process.is_leader() for process in processes] == [True, False]


@reported(
    "services",
    "nil-go/konf#1112",
    "deblasis/wintty#1138",
    situation="a configuration is written in place, line by line, while the process polls it",
    expected="the last whole one stays in force until the new one is whole",
    before=Before.WRONG,
)
def test_no_beginning_of_a_policy_comes_into_force(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "policy.yaml"
    head = ["apiVersion: evenload.io/v1alpha1", "kind: LoadPolicy"]
    path.write_text("\n".join(head), encoding="utf-8")
    policy = reloading.Reloading(path, loader.load, clock=clocks.ManualClock())
    policy.load()
    new = [
        *head,
        "descheduler:",
        "  mode: Enforce",
        "  limits: {perHour: 4}",
        "  windows:",
        "    - {from: '22:00', to: '05:00'}",
    ]
    enforced = []
    for lines in range(len(new) + 1):
        path.write_text("\n".join(new[:lines]), encoding="utf-8")
        policy.poll()
        enforced.append(policy.current.evicts)
    assert not any(enforced), "a beginning evicts at all hours"
    policy.poll()
    assert policy.current.evicts
    assert policy.current.descheduler.windows
