"""Public reports about processes: their leaders, watches, threads and files, and what they write about them."""

import random

from kube import lease
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
