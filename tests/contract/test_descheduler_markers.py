"""Markers of other tools on the real apiserver: a plan of a hot node, each pod of which stays for its own reason."""

from collections.abc import Iterator
from typing import Unpack

import pytest

from kube import kinds
from tests.contract.descheduler_site import HEAVY, HOT, NAMESPACE, Site, Watcher
from tests.e2e import bodies, waiting

pytestmark = pytest.mark.cluster
TENANT, GOLD = "marked", "gold"  # no other file of the group has namespaces of these names
ON_HOT: bodies.PodOptions = {**HEAVY, "node_selector": {"kubernetes.io/hostname": HOT}}
PREFER = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
MARKED = {
    "autoscaled": ({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}, "not_safe_to_evict"),
    "karpenter": ({"karpenter.sh/do-not-disrupt": "true"}, "do_not_disrupt"),
    "koordinated": ({"scheduling.koordinator.sh/eviction-cost": "2147483647"}, "eviction_cost"),
    "for-now": ({"karpenter.sh/do-not-disrupt": "24h"}, "do_not_disrupt"),
}
LEAVING = {
    "ToBeDeletedByClusterAutoscaler": "NoSchedule",
    "DeletionCandidateOfClusterAutoscaler": "PreferNoSchedule",
    "karpenter.sh/disrupted": "NoSchedule",
}
PROTECT = {
    "minPodAge": "1s",
    "nodeBoundVolumes": False,
    "namespaceSelector": {"matchLabels": {"tier": GOLD}},
    "storageClasses": ["slow"],
    "withoutBudget": True,
}


@pytest.fixture(scope="module")
def plane(plane: Site) -> Iterator[Site]:
    """Beside `web` and `api`, of which only `web` has a budget, workloads that stay on the hot node."""
    plane.renew()
    try:
        plane.door.create(kinds.BUDGETS, bodies.budget("web", 1), namespace=NAMESPACE)
        for name, labels in ((TENANT, {}), (GOLD, {"tier": GOLD})):
            plane.cluster.api.create("api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        for name, (annotations, _) in MARKED.items():
            plane.door.create(kinds.DEPLOYMENTS, on_hot(name, annotations=annotations), namespace=TENANT)
        plane.door.create(kinds.DEPLOYMENTS, on_hot("golden"), namespace=GOLD)
        volume, claim = bodies.volume("slow", TENANT, "slow.csi.test", "slow")  # which every node can mount
        plane.door.create(kinds.VOLUMES, volume)
        plane.door.create(kinds.CLAIMS, claim, namespace=TENANT)
        plane.door.create(kinds.DEPLOYMENTS, on_hot("stored", claim="data"), namespace=TENANT)
        plane.door.create(kinds.JOBS, job("once", backoffLimit=0), namespace=TENANT)
        plane.door.create(kinds.JOBS, job("again", backoffLimit=6), namespace=TENANT)
        yield plane
    finally:  # other files of the group count the pods of the hot node
        plane.stop()
        api = plane.cluster.api
        unmarked = {"spec": {"template": {"metadata": {"annotations": {PREFER: None}}}}}
        plane.door.merge_patch(kinds.DEPLOYMENTS, "web", unmarked, namespace=NAMESPACE)
        api.delete(f"apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets")
        for name in (TENANT, GOLD):  # the namespaces stay, empty: ending one takes 0.4 s of processor time
            api.delete(f"apis/apps/v1/namespaces/{name}/deployments")
            api.delete(f"apis/batch/v1/namespaces/{name}/jobs", {"propagationPolicy": "Background"})

        def left() -> list[str]:
            return [pod.key for name in (TENANT, GOLD) for pod in plane.door.list(kinds.PODS, namespace=name).items]

        gone = lambda: not left() and not preferring(plane)  # noqa: E731
        waiting.until(gone, "the pods to go", lambda: (left(), preferring(plane)))


@pytest.fixture
def site(plane: Site) -> Iterator[Site]:
    """The plane as it is, with a policy that protects all of them."""
    plane.obey(descheduler__protect=PROTECT)
    yield plane
    plane.stop()


def on_hot(name: str, **more: Unpack[bodies.PodOptions]) -> dict[str, object]:
    """A Deployment of two pods that can run on the hot node only."""
    options: bodies.PodOptions = {**ON_HOT, **more}
    return bodies.deployment(name, 2, **options)


def job(name: str, **spec: object) -> dict[str, object]:
    """A Job of two pods on the hot node."""
    template = bodies.deployment(name, 2, **ON_HOT)["spec"]["template"]  # type: ignore[index]
    template["spec"]["restartPolicy"] = "Never"
    usage = {**template["metadata"]["annotations"], "cluster.evenload.io/complete-after": "3h"}
    return {
        "metadata": {"name": name},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "template": {**template, "metadata": {"annotations": usage}},
            **spec,
        },
    }


def test_every_marker_has_its_own_verdict_in_one_plan(site: Site) -> None:
    site.heat()
    site.first.service.start()
    expected = {name: cause for name, (_, cause) in MARKED.items()} | {
        "golden": "namespace_selector",
        "stored": "storage_class",
        "once": "job_without_retry",
        "again": "without_budget",
        "api": "without_budget",
    }

    def judged() -> dict[str, str]:
        found = {str(one["workload"]).partition("/")[2]: str(one["verdict"]) for one in site.candidates(site.first)}
        return {name: cause for name, cause in found.items() if name in expected}

    waiting.until(lambda: judged() == expected, "every pod's own verdict", judged)
    rules = {str(one["verdict"]): str(one["rule"]) for one in site.candidates(site.first)}
    assert rules["not_safe_to_evict"] == "protect.markers.safeToEvict"
    assert rules["job_without_retry"] == "protect.jobsWithoutRetry"


def test_nodes_that_autoscalers_take_away_are_neither_filled_nor_relieved(site: Site) -> None:
    site.renew()
    site.obey(descheduler__protect=PROTECT, descheduler__coolNodes=0)
    try:
        for number, (key, effect) in enumerate(LEAVING.items(), start=1):
            taint(site, f"node-{number}", [{"key": key, "effect": effect}])
        site.heat()
        site.first.service.start()
        site.judged(site.first, "no_destination")
        taint(site, HOT, [{"key": "karpenter.sh/rebooting", "effect": "NoSchedule"}])
        alone = ["taint karpenter.sh/rebooting"]
        waiting.until(
            lambda: [one["left_alone"] for one in site.plan(site.first)["nodes"]] == alone, f"{HOT} to be {alone}"
        )
        assert site.rows(site.first) == []
    finally:
        for node in site.door.list(kinds.NODES).items:
            taint(site, node.name, None)


def taint(site: Site, node: str, taints: list[dict[str, str]] | None) -> None:
    site.door.merge_patch(kinds.NODES, node, {"spec": {"taints": taints}})


def test_a_pod_that_prefers_to_stay_goes_when_no_other_helps(site: Site) -> None:
    """`web` may leave (it has a budget), and would go last; nothing else may leave at all."""
    site.close_all_but_the_hot_node()
    template = {"metadata": {"annotations": {PREFER: "true"}}}
    site.door.merge_patch(kinds.DEPLOYMENTS, "web", {"spec": {"template": template}}, namespace=NAMESPACE)
    waiting.until(lambda: preferring(site) == 4, "four pods that prefer to stay")
    site.open_all()
    site.ready()
    site.heat()

    def evicted() -> list[dict[str, object]]:
        return [row for row in site.rows(site.first) if row["result"] == "evicted"]

    with Watcher(site.door) as watcher:
        watcher.look()
        site.first.service.start()
        waiting.until(lambda: watcher.left, "a pod to leave", lambda: site.plan(site.first))
    rows = waiting.until(evicted, "the ledger to tell of it", lambda: site.rows(site.first))
    assert {str(row["workload"]) for row in rows} == {"Deployment/web"}, rows


def preferring(site: Site) -> int:
    """How many pods of `web` prefer to stay, where there are four of them; -1 while there are more or fewer."""
    pods = site.door.list(kinds.PODS, namespace=NAMESPACE, label_selector="app=web").items
    return sum(PREFER in pod.annotations for pod in pods) if len(pods) == 4 else -1
