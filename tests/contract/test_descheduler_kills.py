"""The descheduler killed with SIGKILL at every step of a run, on the real apiserver: no eviction is lost, doubled or
unrecorded.

Each round starts a run that dies one step later than the one before (tests/contract/mortal.py), until a run lives to
its end. After each death a client of our own looks which pods are gone, a restarted descheduler's `reconcile` looks,
too, and both must agree.
"""

import contextlib
import itertools
import math
import pathlib
import signal
import sqlite3
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest
import yaml

from descheduler.eviction import followup
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import DONE, OPEN, Query, Row
from kube import kinds
from kube.door import KubeDoor
from kube.objects import Pod
from lab import cluster
from lab.cluster.demo import permissions
from policy.contract import relief_hint
from runtime.clock import WallClock
from tests import starting
from tests.contract import mortal
from tests.e2e import bodies, policies, waiting

pytestmark = pytest.mark.cluster
REPLICAS = 3
OLD_SECONDS = 2.0  # more than minPodAge and the windows below, in whole seconds of the API
FEWEST_STEPS = 20  # a run that evicts has more: fewer would mean that nothing was evicted
QUICK = {
    "apiVersion": "evenload.io/v1alpha1",
    "kind": "LoadPolicy",
    "metrics": policies.metrics({"avg_5m": 1}),
    "descheduler": {
        "mode": "Enforce",
        "overloadedFor": "0s",
        "limits": {"perHour": 100_000},
        "protect": {"minPodAge": "1s", "labelSelector": {"matchLabels": {"app": "victim"}}},
        "cooldown": {"workload": "1ms", "node": "1ms", "returned": {"initial": "1ms", "max": "1ms", "window": "1m"}},
    },
}


class Site(NamedTuple):
    """Where it happens: the cluster as administrator, the victims' namespace, and the files of the descheduler."""

    admin: KubeDoor
    namespace: str
    kubeconfig: pathlib.Path
    directory: pathlib.Path
    replicas: int = REPLICAS

    def pods(self) -> dict[str, Pod]:
        """The victims that are not leaving, by uid."""
        replacements = self.admin.list(kinds.PODS, namespace=self.namespace).items
        return {pod.uid: pod for pod in replacements if not pod.deleting}

    def ready(self) -> dict[str, Pod]:
        """All replicas, once they are ready and the oldest has run for longer than the policy's windows."""

        def replacements() -> dict[str, Pod]:
            pods = self.pods()
            (counted,) = self.admin.list(kinds.DEPLOYMENTS, namespace=self.namespace).items
            if (
                len(pods) != self.replicas
                or not all(pod.ready for pod in pods.values())
                or counted.status.ready_replicas != self.replicas
            ):
                return {}
            return pods if WallClock().now() - started(oldest(pods)) > OLD_SECONDS else {}

        return waiting.until(replacements, "all victims to be ready, and one old enough")

    def order(self, hot: str, dies_at: int | str) -> mortal.Order:
        """A run over these files."""
        return mortal.Order(
            self.kubeconfig, self.directory / "policy.yaml", self.directory / "ledger.sqlite", hot, dies_at
        )


def ended(target: Callable[[mortal.Order], None], order: mortal.Order) -> int | None:
    """The exit code of a process of its own."""
    process = starting.context().Process(target=target, args=(order,))
    process.start()
    process.join(waiting.START_SECONDS)
    return process.exitcode


def started(pod: Pod) -> float:
    """Since when it runs; far in the future while it does not."""
    return pod.started_at_seconds or math.inf


def oldest(pods: Mapping[str, Pod]) -> Pod:
    """The pod that has run for longest."""
    return min(pods.values(), key=started)


@pytest.fixture
def site(permitted: cluster.Cluster, admin: KubeDoor, namespace: str, tmp_path: pathlib.Path) -> Site:
    """Three victims of one Deployment, and the descheduler's own rights."""
    admin.create(kinds.DEPLOYMENTS, bodies.deployment("victim", REPLICAS), namespace=namespace)
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(QUICK), encoding="utf-8")
    return Site(admin, namespace, permissions.kubeconfig(permitted, "descheduler"), tmp_path)


def restarted(site: Site, known: int) -> list[Row]:
    """The rows after `known` that a descheduler finds and closes when it starts a minute after the death."""
    path = site.directory / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as stored:
        assert stored.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    ledger = Ledger(path).open()
    followup.reconcile(ledger, site.admin, now_seconds=WallClock().now() + followup.ANSWER_SECONDS)
    rows = [row for row in ledger.rows(Query(limit=10_000)) if row.id > known]
    assert not ledger.open_rows()
    ledger.close()
    return rows


@pytest.mark.timeout(1800)  # some thirty rounds of a process each, and every one waits for a new pod
def test_no_eviction_is_lost_doubled_or_unrecorded_however_the_descheduler_dies(site: Site) -> None:
    known, seen, rows = 0, [], list[Row]()
    for dies_at in itertools.count(1):
        before = site.ready()
        hot = oldest(before).node_name
        code = ended(mortal.run, site.order(hot, dies_at))
        assert code in (0, -signal.SIGKILL), f"the run ended with {code} at step {dies_at}"
        gone = set(before) - set(site.pods())
        rows = restarted(site, known)
        done = [row for row in rows if row.result in DONE]
        assert sorted(row.pod_uid for row in done) == sorted(gone), f"killed at step {dies_at}: {rows}"
        assert len(gone) <= 1, "one pod of a workload at a time"
        if gone:
            hint = relief_hint.decode(site.admin.get(kinds.NODES, hot).annotations.get(relief_hint.KEY))
            assert hint is not None
            assert {row.owner_uid for row in done} <= set(hint.untils_seconds), "the hint is there before the eviction"
        known = max((row.id for row in rows), default=known)
        seen += [row.result for row in rows]
        if code == 0:  # it lived to its end
            break
    assert dies_at > FEWEST_STEPS
    assert [row.result for row in rows] == ["evicted"], "the run that lived carried its eviction out"
    assert {"not_done", "evicted_unconfirmed", "evicted"} == set(seen), "it died before, in and after the call"
    assert not set(seen) & set(OPEN)
