"""Every right that we ask for is needed, and every right that is needed is asked for.

The audit log says what the services called in a whole relief, under their own accounts; the manifests, what they may.
"""

import contextlib
import pathlib
from collections.abc import Iterator

import pytest

from cli.doctor import rights
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Query
from descheduler.snapshot import groups
from kube import config, kinds
from lab import cluster
from lab.cluster import api as cluster_api
from lab.cluster.demo import permissions
from policy.contract import owner_usage
from tests.contract import test_descheduler_evicting, test_doctor, test_guard, test_guard_scales
from tests.e2e import audited, bodies, policies, services, waiting
from tests.e2e.lent import lent

pytestmark = pytest.mark.cluster
NAMESPACE = permissions.NAMESPACE
SHOP = "default"
HOT, OTHERS = "node-0", ("node-1", "node-2")
HEAVY: bodies.PodOptions = {"cpu_millicores": 200, "memory_bytes": 5 * 2**30, "memory_request": "256Mi"}
GROUP = "rights.evenload.test"
JOB_SETS = "jobset.x-k8s.io"
GRANTED = (*rights.SERVICES, rights.SURGES)
OWN_OBJECTS = (
    f"api/v1/namespaces/{SHOP}/pods/keeper",
    f"api/v1/namespaces/{SHOP}/persistentvolumeclaims/data",
    "api/v1/persistentvolumes/disk",
    f"{test_descheduler_evicting.DEFINITIONS}/crews.{GROUP}",
    f"{test_descheduler_evicting.DEFINITIONS}/jobsets.{JOB_SETS}",
)
LIMIT = 2 * waiting.LIMIT_SECONDS


class World:
    """A cluster that writes down who asks for what, and the three services under their own accounts."""

    def __init__(self, running: cluster.Cluster, directory: pathlib.Path) -> None:
        self.cluster = running
        self.door = config.connect(running.kubeconfig)
        self.log = audited.Log(running.directory / "logs" / "audit.log")
        self.ledger = directory / "ledger.sqlite"
        section = {
            "mode": "Enforce",
            "surge": {"enabled": True},
            "cooldown": {"node": "1s"},
            "protect": {"groups": False, "minPodAge": "1s"},
        }
        changes = {f"descheduler__{name}": value for name, value in section.items()}
        self.policy = policies.write(directory / "policy.yaml", **changes)
        prometheus = ["--prometheus", running.prometheus_url]
        more = {"annotator": prometheus, "extender": [], "descheduler": [*prometheus, "--ledger", str(self.ledger)]}
        self.services = {}
        for name in rights.SERVICES:
            common = ["--policy", str(self.policy), "--kubeconfig", str(permissions.kubeconfig(running, name))]
            arguments = [*common, "--namespace", NAMESPACE, *more[name]]
            self.services[name] = services.Service(name, arguments, directory)
        extender, descheduler = self.services["extender"], self.services["descheduler"]
        descheduler.arguments += (
            "--extender",
            f"127.0.0.1:{extender.port}",
        )  # whose decisions it copies without a right

    def unused(self) -> list[str]:
        """Rights that no call has needed so far."""
        calls = self.log.calls()
        return [
            f"{name}: {one}"
            for name in GRANTED
            for one in rights.needed(name, NAMESPACE)
            if not any(
                call.service == name.removesuffix("-surge") and audited.covers(one, call.access) for call in calls
            )
        ]

    def beyond(self) -> list[str]:
        """Calls that were refused, or that others' rules than ours allowed."""
        granted = {name: rights.needed(name, NAMESPACE) for name in rights.SERVICES}
        granted["descheduler"] += rights.needed(rights.SURGES, NAMESPACE)
        return sorted(
            f"{call.service}: {call.access}: {call.status}"
            for call in self.log.calls()
            if call.status in (401, 403) or not any(audited.covers(one, call.access) for one in granted[call.service])
        )


@pytest.fixture
def world(fleet: cluster.Cluster, tmp_path: pathlib.Path) -> Iterator[World]:
    """The services are not started yet; the guard, which is part of every overlay, is in force."""
    with lent(fleet):
        fleet.api.create("api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        permissions.apply(fleet)
        made = World(fleet, tmp_path)
        try:
            surges = test_guard_scales.granted(fleet, test_guard_scales.RIGHTS[0]["rules"])
            with test_doctor.guarded(fleet), surges:
                fleet.api.patch(test_guard.SCALES, test_guard_scales.with_component())
                yield made
        finally:
            for service in made.services.values():
                service.kill()
            made.door.close()
            for path in OWN_OBJECTS:  # other files of the group do not know them
                if fleet.api.exists(path):
                    fleet.api.delete(path)
            for name in OTHERS:
                fleet.api.patch(f"api/v1/nodes/{name}", {"spec": {"unschedulable": None}})


def test_the_services_do_what_they_may_and_may_what_they_do(world: World) -> None:
    someone_elses_kind(world.cluster.api)
    a_job_set(world)
    volume, claim = bodies.volume("disk", SHOP, "disks.test")  # only then is anybody asked about volumes
    world.cluster.api.create("api/v1/persistentvolumes", volume)
    world.cluster.api.create(f"api/v1/namespaces/{SHOP}/persistentvolumeclaims", claim)
    pod = bodies.pod("keeper", claim="data")
    bound = {**pod, "spec": {**pod["spec"], "nodeName": OTHERS[0]}}  # type: ignore[dict-item]
    world.cluster.api.create(f"api/v1/namespaces/{SHOP}/pods", bound)
    crowded(world)
    for service in world.services.values():
        service.start()
    descheduler = world.services["descheduler"]
    carried_out = lambda: descheduler.rows("/evictions?outcome=evicted")  # noqa: E731
    waiting.eventually(carried_out, LIMIT, "an eviction", lambda: descheduler.json("/plan"))
    descheduler.kill()
    with contextlib.closing(Ledger(world.ledger).open()) as ledger:  # as a crash before the answer leaves it
        row = ledger.rows(Query(outcome="evicted", limit=1))[0]
        ledger.decide(row.id, "unknown", status=None, message="", at_seconds=row.at_seconds)
    descheduler.start()
    usage = f"api/v1/namespaces/{NAMESPACE}/configmaps/{owner_usage.CONFIG_MAP}"
    waiting.eventually(lambda: world.cluster.api.exists(usage), LIMIT, "owners' usage to be published")
    world.door.create(kinds.DEPLOYMENTS, bodies.deployment("later", 1), namespace=SHOP)  # and so it changes
    world.policy.write_text("kind: Nonsense\n", encoding="utf-8")  # of which all three tell
    waiting.eventually(lambda: not world.unused(), LIMIT, "every right to be used", world.unused)
    for service in world.services.values():
        service.stop()
    assert not world.beyond()


def crowded(world: World) -> None:
    """A node over its line by four pods of a Deployment and the only one of another, which may surge; beside them a pod
    whose owner is of somebody else's kind.
    """
    for name in OTHERS:
        world.door.merge_patch(kinds.NODES, name, {"spec": {"unschedulable": True}})
    only = {**bodies.deployment("only", 1, **HEAVY), "metadata": {"name": "only", **test_guard_scales.LABEL}}
    for one in (bodies.deployment("web", 4, **HEAVY), only):
        world.door.create(kinds.DEPLOYMENTS, one, namespace=SHOP)

    def ready() -> int:
        found = world.door.list(kinds.PODS, namespace=SHOP, label_selector="app in (web, only)").items
        return sum(pod.ready and pod.node_name == HOT for pod in found)

    waiting.eventually(lambda: ready() == 5, LIMIT, "five pods to be ready", ready)
    for name in OTHERS:
        world.door.merge_patch(kinds.NODES, name, {"spec": {"unschedulable": None}})
    services.set_load(world.cluster, HOT, cpu_ratio=0.1, memory_ratio=0.2, hidden=False)


def someone_elses_kind(api: cluster_api.Api) -> None:
    """A custom resource with a scale, and a pod on the hot node that it owns."""
    test_descheduler_evicting.serve(api, GROUP)
    uid = test_descheduler_evicting.new_crew(api, GROUP, SHOP, "crew")
    owner = {"apiVersion": f"{GROUP}/v1", "kind": "Crew", "name": "crew", "uid": uid, "controller": True}
    pod = bodies.pod("crew-0")
    api.create(
        f"api/v1/namespaces/{SHOP}/pods",
        {"metadata": {**pod["metadata"], "ownerReferences": [owner]}, "spec": {**pod["spec"], "nodeName": HOT}},  # type: ignore[dict-item]
    )


def a_job_set(world: World) -> None:
    """A JobSet whose Job has a pod on the hot node."""
    api, names = world.cluster.api, {"plural": "jobsets", "singular": "jobset", "kind": "JobSet"}
    test_descheduler_evicting.serve(api, JOB_SETS, "v1", "v1alpha2", names=names)
    body = {"apiVersion": f"{JOB_SETS}/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"}}
    uid = api.create(f"apis/{JOB_SETS}/v1alpha2/namespaces/{SHOP}/jobsets", body)["metadata"]["uid"]
    owner = {"apiVersion": f"{JOB_SETS}/v1alpha2", "kind": "JobSet", "name": "train", "uid": uid, "controller": True}
    lasting = {"cluster.evenload.io/complete-after": "1h"}
    pod = bodies.pod("train", labels={groups.JOB_SET: "train"}, annotations=lasting)
    spec = {"template": {**pod, "spec": {**pod["spec"], "nodeName": HOT, "restartPolicy": "Never"}}}  # type: ignore[dict-item]
    world.door.create(
        kinds.JOBS, {"metadata": {"name": "train", "ownerReferences": [owner]}, "spec": spec}, namespace=SHOP
    )
