"""A descheduler that surges, killed with SIGKILL between any two of its steps on a real control plane, and the next.

The rights and the guard are those of the component surge. Only usage is made up (tests/contract/mortal.py).
"""

import contextlib
import copy
import math
import pathlib
import signal
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import yaml

from descheduler.eviction.followup import ANSWER_SECONDS
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import DONE, Query
from kube import kinds
from kube.http import client
from lab import cluster
from lab.cluster.demo import permissions
from tests.contract import mortal, test_guard_scales
from tests.contract.test_descheduler_kills import QUICK, Site, ended
from tests.e2e import bodies
from tests.e2e.test_relief import BudgetWatcher

pytestmark = pytest.mark.cluster
APP = "victim"
KILLED = -signal.SIGKILL


class Death(NamedTuple):
    """The open surge and the replicas right after a death, how the next leader ends it, and whether it does so only
    once no request of the dead process can be carried out any more.
    """

    state: str
    replicas: int
    ends: str = "finished"
    later: bool = False


# In the order in which they happen; after a row is before the next request.
DEATHS = {
    "before the row scaling_up": Death("", 1),
    "before the scale 2": Death("scaling_up", 1, "undone", later=True),
    "after the scale 2": Death("scaling_up", 2),
    "before the row waiting": Death("scaling_up", 2),
    "before the row intended": Death("waiting", 2),
    "before the eviction": Death("waiting", 2, later=True),
    "after the eviction": Death("waiting", 2),
    "before the row evicted": Death("waiting", 2),
    "before the row scaling_down": Death("waiting", 2),
    "before the scale 1": Death("scaling_down", 2),
    "after the scale 1": Death("scaling_down", 1),
    "before the row finished": Death("scaling_down", 1),
}
UNDOING = ("before the row scaling_down", "before the scale 1", "after the scale 1", "before the row undone")


@pytest.fixture
def site(
    permitted: cluster.Cluster,
    admin: client.Client,
    descheduler: client.Client,
    namespace: str,
    tmp_path: pathlib.Path,
) -> Iterator[Site]:
    """A Deployment of one replica that opts in."""
    body: dict[str, Any] = bodies.deployment(APP, 1)
    body["metadata"] |= test_guard_scales.LABEL
    admin.create(kinds.DEPLOYMENTS, body, namespace=namespace)
    made = Site(admin, namespace, permissions.kubeconfig(permitted, "descheduler"), tmp_path, replicas=1)
    obey(made)
    with (
        test_guard_scales.granted(permitted, test_guard_scales.RIGHTS[0]["rules"]),
        test_guard_scales.enforced(permitted, descheduler, namespace, APP),
    ):
        yield made


def obey(site: Site, **section: object) -> None:
    """Writes the policy of the leaders to come; victims of the test before may still be there, in their namespace."""
    policy: dict[str, Any] = copy.deepcopy(QUICK)
    elsewhere = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [site.namespace]}
    policy["descheduler"]["protect"]["namespaceSelector"] = {"matchExpressions": [elsewhere]}
    policy["descheduler"] |= {"surge": {"enabled": True}, **section}
    (site.directory / "policy.yaml").write_text(yaml.safe_dump(policy), encoding="utf-8")


@pytest.mark.parametrize("dies_at", DEATHS)
def test_the_next_leader_ends_a_surge_wherever_the_last_one_died(site: Site, dies_at: str) -> None:
    death = DEATHS[dies_at]
    with surged(site, death.ends) as hot:
        assert ended(mortal.lead, site.order(hot, dies_at)) == KILLED
        with contextlib.closing(Ledger(site.directory / "ledger.sqlite").open()) as ledger:
            state = "".join(one.state for one in ledger.surges(math.inf))
        assert (state, replicas(site)) == (death.state, death.replicas)
        ahead_seconds = ANSWER_SECONDS if death.later else 0.0
        assert ended(mortal.lead, site.order(hot, 0)._replace(ahead_seconds=ahead_seconds)) == 0


def test_a_pause_undoes_a_surge_wherever_its_leaders_die(site: Site) -> None:
    with surged(site, "undone") as hot:
        assert ended(mortal.lead, site.order(hot, "before the row intended")) == KILLED
        obey(site, paused=True)
        assert [ended(mortal.lead, site.order(hot, dies_at)) for dies_at in UNDOING] == [KILLED] * len(UNDOING)
        assert ended(mortal.lead, site.order(hot, 0)) == 0


@contextlib.contextmanager
def surged(site: Site, ends: str) -> Iterator[str]:
    """The hot node; afterwards all is as before the surge, but the pod is another one if it has `finished`."""
    (old,) = site.ready().values()
    with BudgetWatcher(site.admin, APP, least_ready=1, namespace=site.namespace) as watcher:
        yield old.node_name
        (last,) = site.ready().values()
    assert watcher.held(), f"{watcher.lowest_ready} ready of 1, in {watcher.looks} looks"
    with contextlib.closing(Ledger(site.directory / "ledger.sqlite").open()) as ledger:
        assert [one.state for one in ledger.surges(0.0)] == [ends]
        evicted = [row.pod_uid for row in ledger.rows(Query(limit=100)) if row.result in DONE]
        assert not ledger.open_rows()
    assert evicted == ([old.uid] if ends == "finished" else []), "no pod but the old one, and it once"
    assert ends == "undone" or last.uid != old.uid  # the ReplicaSet may end either of two Ready ones
    assert replicas(site) == 1


def replicas(site: Site) -> int:
    return site.admin.get(kinds.DEPLOYMENTS, APP, namespace=site.namespace).spec_replicas
