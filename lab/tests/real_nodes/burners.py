"""Pods of the burner with their owners, and what happened to all pods as the apiserver's clients and its log saw it."""

import contextlib
import datetime
import json
import pathlib
import subprocess
import threading
from collections.abc import Callable, Iterator

from lab.real_nodes import images, waiting
from lab.tests.real_nodes.installation import Installation
from lab.tests.real_nodes.nodes import Document, Nodes

_NEVER = threading.Event()
GRACE_SECONDS = 12  # for which a burner works on after SIGTERM
DESCHEDULER = "system:serviceaccount:evenload-system:evenload-descheduler"
GUARD = "evenload-guard-evictions"
# A minute in the place of five, so that a test takes minutes in the place of a quarter of an hour.
SHORT: Document = {
    "apiVersion": "evenload.io/v1alpha1",
    "kind": "LoadPolicy",
    "sync": {"period": "5s"},
    "metrics": [
        {"name": f"{resource}_avg_1m", "resource": resource, "statistic": "avg", "window": "1m"}
        for resource in ("cpu", "memory")
    ],
    "filter": {"thresholds": {"cpu_avg_1m": 0.65, "memory_avg_1m": 0.65}},
    "descheduler": {
        "mode": "Enforce",
        "interval": "10s",
        "overloadedFor": "20s",
        "thresholds": {f"{resource}_avg_1m": {"evictAbove": 0.8, "evictUntil": 0.6} for resource in ("memory", "cpu")},
        "protect": {"minPodAge": "30s"},
        "cooldown": {"workload": "20s", "node": "20s"},
    },
}


def container(mebibytes: int, *, millicores: int = 0, request: str = "16Mi", **more: object) -> Document:
    """A container that uses so much and ends `GRACE_SECONDS` after SIGTERM; it requests little, so that many fit."""
    return {
        "name": "main",
        "image": images.BURNER,
        "args": [str(millicores), str(mebibytes)],
        "env": [{"name": "GRACE", "value": str(GRACE_SECONDS)}],
        "resources": {"requests": {"memory": request, "cpu": "10m"}},
        **more,
    }


def deployment(
    name: str,
    burner: Document,
    *,
    replicas: int = 2,
    namespace: str = "default",
    marks: Document | None = None,
    **spec: object,
) -> Document:
    """A Deployment of such pods; `marks` are further `labels` or `annotations` of them."""
    labels = {"app": name}
    metadata = {"labels": labels | (marks or {}).get("labels", {}), "annotations": (marks or {}).get("annotations", {})}
    template = {"metadata": metadata, "spec": {"containers": [burner], **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def budget(name: str, least: int) -> Document:
    """A PodDisruptionBudget of the pods of that Deployment."""
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": name}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}


def placed(nodes: Nodes, where: set[str], *documents: Document) -> None:
    """Creates objects while all other nodes are cordoned, and waits until their Deployments are Ready on these."""
    others = sorted({each["metadata"]["name"] for each in nodes.items("nodes")} - where)
    nodes.kubectl("cordon", *others)
    nodes.apply(*documents)
    for each in (document for document in documents if document["kind"] == "Deployment"):
        name, namespace = each["metadata"]["name"], each["metadata"].get("namespace", "default")
        nodes.kubectl("rollout", "status", f"deployment/{name}", f"--namespace={namespace}", "--timeout=120s")
    nodes.kubectl("uncordon", *others)


def eventually(is_so: Callable[[], bool], what: str, seconds: float) -> None:
    """Waits as `waiting.until` does, but asks every other second: a command takes a good part of one."""
    waiting.until(lambda: is_so() or _NEVER.wait(2.0), what, seconds)


def set_policy(world: Installation, policy: Document, *, age: str = "30s") -> None:
    """Applies a policy, and lets the guard take pods of that age: its shipped five minutes are longer than a test.

    The overlay has the guard, so each application brings the five minutes back.
    """
    world.set_policy(policy)
    variables = world.nodes.get("validatingadmissionpolicy", GUARD)["spec"]["variables"]
    index = next(index for index, each in enumerate(variables) if each["name"] == "minPodAge")
    change = [{"op": "replace", "path": f"/spec/variables/{index}/expression", "value": f'duration("{age}")'}]
    world.nodes.kubectl("patch", "validatingadmissionpolicy", GUARD, "--type=json", "-p", json.dumps(change))


def evictions(world: Installation, **columns: object) -> list[Document]:
    """The rows of `evenload evictions` that have these values, the oldest first."""
    rows = json.loads(answer(world, "evenload evictions -o json"))["evictions"][::-1]
    return [row for row in rows if columns.items() <= row.items()]


def plan(world: Installation) -> Document:
    """The plan of this moment."""
    return dict(json.loads(answer(world, "evenload plan -o json")))


def candidates(world: Installation) -> list[Document]:
    """The judged pods of all hot nodes in the plan of this moment."""
    return [each for hot in plan(world)["nodes"] for each in hot["candidates"]]


def answer(world: Installation, command: str) -> str:
    """The JSON of a command, once the service answers it in its time: the machine may be busy."""
    text = ""

    def answered() -> bool:
        nonlocal text
        text = world.run(f"{command} 2>/dev/null", code=-1)
        return text.startswith("{")

    eventually(answered, f"an answer to `{command}`", 60)
    return text


def status(world: Installation) -> dict[str, str]:
    """The column STATUS of `evenload nodes` by node; "Ready" where the column is not there."""
    head, *rows = (world.run("evenload nodes 2>/dev/null", code=-1) or "-").splitlines()
    shown = head.split()[-1] == "STATUS"
    return {row.split()[0]: row.split()[-1] if shown else "Ready" for row in rows if not row.startswith("*")}


def reading(world: Installation, node: str, metric: str) -> float:
    """The load of a node that scheduling goes by; -1 while there is none."""
    rows = json.loads(answer(world, "evenload nodes -o json"))["nodes"]
    return next((float(row["values"].get(metric, -1.0)) for row in rows if row["name"] == node), -1.0)


def requests(nodes: Nodes) -> list[Document]:
    """The Evictions that the descheduler asked for, by the apiserver's own log."""
    text = (nodes.starter.directory / "plane" / "logs" / "audit.log").read_text("utf-8")
    entries = [json.loads(line) for line in text.splitlines() if '"subresource":"eviction"' in line]
    return [
        entry for entry in entries if entry["stage"] == "ResponseComplete" and entry["user"]["username"] == DESCHEDULER
    ]


class Witness:
    """All changes of all pods since it began, as a client of the apiserver sees them."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def changes(self) -> list[Document]:
        """The pods, each as it was after a change, in the order of the changes; `type` says which, as a watch does."""
        lines = self._path.read_text("utf-8").splitlines()
        return [{"type": each["type"], **each["object"]} for each in map(json.loads, lines)]

    def least_ready(self, app: str) -> int:
        """How few pods of a Deployment were Ready, and not on their way out, at the worst moment since all were."""
        ready: dict[str, bool] = {}
        most = least = 0
        for pod in self.changes():
            if pod["metadata"].get("labels", {}).get("app") != app:
                continue
            ready[pod["metadata"]["uid"]] = pod["type"] != "DELETED" and is_ready(pod)
            count = sum(ready.values())
            most, least = max(most, count), count if count > most else min(least, count)
        return least


@contextlib.contextmanager
def witnessed(nodes: Nodes, path: pathlib.Path) -> Iterator[Witness]:
    """Watches all pods into a file."""
    command = [str(nodes.kubectl_program), f"--kubeconfig={nodes.kubeconfig}", "get", "--raw", "/api/v1/pods?watch=1"]
    with path.open("wb") as file, subprocess.Popen(command, stdout=file, stdin=subprocess.DEVNULL) as process:
        try:
            waiting.until(lambda: path.stat().st_size > 0, "the watch of the witness", 30)
            yield Witness(path)
        finally:
            process.kill()


def is_ready(pod: Document) -> bool:
    """Whether a pod serves and stays."""
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def seconds(text: str) -> float:
    """Unix seconds of a time on the wire."""
    return datetime.datetime.fromisoformat(text).timestamp()
