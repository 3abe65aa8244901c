"""The faults by name; here those of processes and of what they keep at the apiserver. Each breaks something, mends it
again, and says in words what it did.

A frozen process runs again and a bad policy is replaced when the function returns; `Site.recovered` waits for the rest.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from kube import errors, kinds
from lab.campaigns.chaos import judging, records, surroundings
from lab.campaigns.chaos.site import Site
from lab.cluster.demo import permissions
from policy.contract import heartbeat, load_annotation

STRIKE_SECONDS: Final = 20.0
LOOK_SECONDS: Final = 0.002  # shorter than a call of the Eviction API: without it, looking took a whole processor
LEASES: Final = ("evenload-annotator", "evenload-descheduler")
HEAD: Final = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"
Fault = Callable[[Site], str]


def _service(site: Site) -> str:
    return site.rng.choice(sorted(site.services))


def kill_service(site: Site) -> str:
    """A service is killed and started again a moment later."""
    name = _service(site)
    site.services[name].kill()
    site.pause()
    site.services[name].start()
    return name


def stop_service(site: Site) -> str:
    """A service gets SIGTERM and is started again."""
    name = _service(site)
    site.codes.append((name, site.services[name].stop()))
    site.services[name].start()
    return name


def freeze_service(site: Site) -> str:
    """A service stands still for a while."""
    name = _service(site)
    pid = site.services[name].pid
    os.kill(pid, signal.SIGSTOP)
    site.pause()
    os.kill(pid, signal.SIGCONT)
    return name


def strike_at_an_intent(site: Site) -> str:
    """Both deschedulers are killed while a new eviction is open in the ledger, if there is one in time."""
    limit, known = time.monotonic() + STRIKE_SECONDS, len(records.rows(site.ledger))
    while not (found := _opened(site, known)) and time.monotonic() < limit:
        site.pause(LOOK_SECONDS)
    for number in (0, 1):
        site.services[f"descheduler-{number}"].kill()
    for number in (0, 1):
        site.services[f"descheduler-{number}"].start()
    return f"row {found[-1].id} was open" if found else "no row was open"


def _opened(site: Site, known: int) -> list[judging.Recorded]:
    return [row for row in records.rows(site.ledger)[known:] if row.result == "intended"]


def kill_component(site: Site) -> str:
    """A process of the control plane is killed and started again."""
    name = site.rng.choice(("kube-apiserver", "etcd", "kube-scheduler", "prometheus"))
    process = site.cluster.processes[name]
    if name in ("kube-apiserver", "etcd"):
        site.apiserver_gaps.append(time.time())
    process.kill()
    site.pause()
    process.start()
    if name == "etcd":  # the apiserver may have ended over it
        site.cluster.processes["kube-apiserver"].start()
    return name


def freeze_component(site: Site) -> str:
    """A process of the control plane stands still for a while."""
    name = site.rng.choice(("kube-apiserver", "etcd", "kube-scheduler", "prometheus"))
    process = site.cluster.processes[name]
    process.pause()
    site.pause()
    process.resume()
    return name


def delete_lease(site: Site) -> str:
    """A Lease of ours is deleted."""
    name = site.rng.choice(LEASES)
    with contextlib.suppress(errors.NotFound):
        site.door.delete(kinds.LEASES, name, namespace=permissions.NAMESPACE)
    return name


def damage_lease(site: Site) -> str:
    """A Lease of ours names a holder that there is not, from a moment ago."""
    name = site.rng.choice(LEASES)
    with contextlib.suppress(errors.NotFound):
        body = {"spec": {"holderIdentity": "another-holder", "leaseDurationSeconds": 5}}
        site.door.merge_patch(kinds.LEASES, name, body, namespace=permissions.NAMESPACE)
    return name


def damage_annotation(site: Site) -> str:
    """The load annotation of a node is deleted, or is no JSON, or is of another type."""
    node = site.rng.choice(site.nodes())
    text = site.rng.choice([None, "{", "[]", '{"v":1,"at":"never","m":{}}', '{"v":1,"m":{"cpu_avg_5m":"NaN"}}'])
    site.door.merge_patch(kinds.NODES, node, {"metadata": {"annotations": {load_annotation.KEY: text}}})
    return f"{node}: {text}"


def damage_heartbeat(site: Site) -> str:
    """The heartbeat is deleted or emptied."""
    with contextlib.suppress(errors.NotFound):
        if site.rng.random() < 0.5:
            site.door.delete(kinds.CONFIG_MAPS, heartbeat.CONFIG_MAP, namespace=permissions.NAMESPACE)
            return "deleted"
        body: dict[str, Any] = {"data": None}
        site.door.merge_patch(kinds.CONFIG_MAPS, heartbeat.CONFIG_MAP, body, namespace=permissions.NAMESPACE)
    return "emptied"


def delete_node(site: Site) -> str:
    """A node is deleted with its pods and made again."""
    name = site.rng.choice(site.nodes())
    body = site.cluster.api.get(f"api/v1/nodes/{name}")
    pods = [pod for pod in site.pods() if pod.node_name == name]
    site.taken_by_others(pods)
    site.door.delete(kinds.NODES, name)
    for pod in pods:
        with contextlib.suppress(errors.NotFound):
            site.door.delete(kinds.PODS, pod.name, namespace="default")
    site.pause()
    metadata = {key: body["metadata"].get(key, {}) for key in ("name", "labels", "annotations")}
    site.cluster.api.create("api/v1/nodes", {"metadata": metadata, "spec": {}, "status": body["status"]})
    site.cluster.api.patch(f"api/v1/nodes/{name}/status", {"status": body["status"]})
    return f"{name} with {len(pods)} pods"


def delete_pod(site: Site) -> str:
    """A pod is deleted, not evicted."""
    pod = site.rng.choice(sorted(site.pods(), key=lambda one: one.name))
    site.taken_by_others([pod])
    with contextlib.suppress(errors.NotFound):
        site.door.delete(kinds.PODS, pod.name, namespace="default")
    return pod.name


def break_policy(site: Site) -> str:
    """The policy file is broken, empty or of another kind for a while."""
    text = site.rng.choice(["{", "", "kind: Nonsense\n", f"{HEAD}sync: 7\n"])
    site.policy.write_text(text, encoding="utf-8")
    site.pause()
    site.obey()
    return json.dumps(text)


FAULTS: Final[Mapping[str, Fault]] = {
    one.__name__: one
    for one in (
        kill_service, stop_service, freeze_service, strike_at_an_intent, kill_component, freeze_component, delete_lease,
        damage_lease, damage_annotation, damage_heartbeat, delete_node, delete_pod, break_policy, *surroundings.ALL,
    )
}  # fmt: skip
