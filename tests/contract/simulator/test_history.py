"""What `simulator.history` reads back from a real Prometheus is what happened: the truth of the past is known here."""

import collections.abc
import contextlib
import json
import math
import pathlib
import subprocess
import time

import numpy as np
import pytest

from lab import cluster
from lab.cluster import past
from promql.http import client
from simulator.contention import Load
from simulator.history import reader, rebuilding
from simulator.history.queries import Selectors
from simulator.scenario import NEVER, Machine, Owner, Replica, Scenario, Usage
from tests import starting

pytestmark = pytest.mark.cluster
GIB = 2.0**30
STEP_SECONDS, STEPS = 300.0, 30
AGO_SECONDS = 3 * 3600.0  # what is back-filled must be older than what Prometheus holds in its head


def happened(end_seconds: float) -> tuple[Scenario, list[str]]:
    """Four nodes; six owners of four replicas, of which some come and go; and where each replica stood."""
    rng = np.random.default_rng(7)
    owners = tuple(Owner("shop", f"web-{number}", Load(200.0 + 50 * number, GIB)) for number in range(6))
    start_seconds, replicas, nodes = end_seconds - STEPS * STEP_SECONDS, [], []
    for number in range(24):
        first, last = (0, STEPS) if number % 3 else (number % 7, STEPS - 2 - number % 5)
        leaves = NEVER if last == STEPS else start_seconds + last * STEP_SECONDS
        arrives = start_seconds + first * STEP_SECONDS + (10.0 if first else 0.0)
        replicas.append(Replica(number % 6, number // 6, arrives, leaves, offset=number * STEPS))
        nodes.append(f"node-{number % 4}")
    cpu = rng.uniform(100.0, 900.0, 24 * STEPS).astype(np.float32)
    memory = (rng.uniform(0.5, 2.0, 24 * STEPS) * GIB).astype(np.float32)
    machines = tuple(Machine(f"node-{number}", Load(8000.0, 32 * GIB), max_pods=60) for number in range(4))
    usage = Usage(cpu, memory)
    return Scenario("truth", start_seconds, STEP_SECONDS, STEPS, machines, owners, tuple(replicas), usage), nodes


@pytest.fixture(scope="module")
def recorded() -> collections.abc.Iterator[tuple[Scenario, list[str], client.Client]]:
    end_seconds = math.floor((time.time() - AGO_SECONDS) / STEP_SECONDS) * STEP_SECONDS
    truth, nodes = happened(end_seconds)
    with cluster.Cluster(kubernetes=False, node_exporter=False) as running:
        running.backfill(past.openmetrics(truth, nodes))
        with contextlib.closing(client.connect(running.prometheus_url, timeout_seconds=60.0)) as door:
            yield truth, nodes, door


def test_the_past_comes_back_as_it_was(
    recorded: tuple[Scenario, list[str], client.Client], tmp_path: pathlib.Path
) -> None:
    truth, nodes, door = recorded
    span = reader.Span(truth.start_seconds, STEP_SECONDS, STEPS)
    read = reader.read(door, span, Selectors(), reader.Cache(tmp_path, ""), now_seconds=time.time())
    assert list(tmp_path.iterdir()), "Prometheus did not say which cluster it is of, so nothing was kept"
    assert read.warnings == ()
    found = rebuilding.rebuild(read, "past")
    scenario = found.scenario
    assert [(one.name, one.capacity, one.max_pods) for one in scenario.machines] == [
        (one.name, one.capacity, one.max_pods) for one in truth.machines
    ]
    assert {(one.kind, one.namespace, one.name, one.requests) for one in scenario.owners} == {
        ("Deployment", one.namespace, one.name, one.requests) for one in truth.owners
    }
    lives = {life(scenario, replica) for replica in scenario.replicas}
    assert lives == {life(truth, replica) for replica in truth.replicas}
    started = {replica.node for replica in scenario.replicas if replica.node}
    assert started == set(nodes)


def life(scenario: Scenario, replica: Replica) -> tuple[str, int, int, int, int]:
    """Whose, the steps from and to which, and mean use in cores and GiB of all but the first, in hundredths."""
    first = math.floor((replica.arrives_seconds - scenario.start_seconds) / STEP_SECONDS)
    last = round((min(replica.leaves_seconds, scenario.end_seconds) - scenario.start_seconds) / STEP_SECONDS)
    where = slice(replica.offset + first + 1, replica.offset + last)  # the first step's rate is not wholly known
    cpu, memory = scenario.usage.cpu_millicores[where], scenario.usage.memory_bytes[where]
    return (
        scenario.owners[replica.owner].name,
        first,
        last,
        round(float(np.nanmean(cpu)) / 10),
        round(float(np.nanmean(memory)) / GIB * 100),
    )


def test_whatif_replays_the_past_of_a_real_prometheus(
    recorded: tuple[Scenario, list[str], client.Client], tmp_path: pathlib.Path
) -> None:
    truth, _, door = recorded
    minutes = math.ceil((time.time() - truth.start_seconds) / 60) + 5
    kept = tmp_path / "past.npz"
    asked = [
        "whatif",
        "--prometheus",
        door.name.removeprefix("Prometheus at "),
        "--since",
        f"{minutes}m",
        "--cache",
        str(tmp_path / "cache"),
    ]
    answer = evenload(*asked, "--seeds", "2", "--save", str(kept), "-o", "json")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert [variant["name"] for variant in found["variants"]] == ["plain", "default"]
    pods = found["figures"]["pods_bound"]["variants"]["plain"]
    assert pods["median"] >= len(truth.replicas)
    assert found["assumptions"][0].startswith("really measured: CPU mean ")
    again = evenload("whatif", "--history", str(kept), "--seeds", "2", "-o", "json")
    assert json.loads(again.stdout)["figures"] == found["figures"]


def evenload(*words: str) -> subprocess.CompletedProcess[str]:
    """The command line, as people type it."""
    return starting.run(starting.Command("cli", words))
