"""A real control plane with Evenload's services on it, and the few verbs the end-to-end tests are written in."""

import collections
import collections.abc
import contextlib
import json
import pathlib
import tempfile
import types
import typing

from kube import config, errors, kinds, objects
from lab import cluster
from lab.cluster import extender_stanza
from lab.cluster.demo import permissions
from runtime import reloading
from tests.e2e import bodies, lent, policies, services, waiting

NAMESPACE = "default"
SYSTEM_NAMESPACE = permissions.NAMESPACE
IDLE = {"cpu_ratio": 0.1, "memory_ratio": 0.1, "hidden": False}
NEAR_RATIO = 0.1  # a played load counts as arrived within this much of it


class Stack:
    """The cluster, the door tests look through, and the services by name."""

    def __init__(self, running: cluster.Cluster, policy: pathlib.Path, directory: pathlib.Path) -> None:
        self.cluster = running
        self.policy = policy
        self.directory = directory
        self.door = config.connect(str(running.kubeconfig), None)
        self.ledger = directory / "ledger.db"
        prometheus = ["--prometheus", running.prometheus_url]
        self.annotator = services.Service("annotator", [*self._common("annotator"), *prometheus], directory)
        self.extender = services.Service(
            "tests.e2e.patient_extender", [*self._common("extender"), "--deadline", "90s"], directory
        )
        self.descheduler = services.Service(
            "tests.e2e.prompt_descheduler",
            [*self._common("descheduler"), *prometheus, "--ledger", str(self.ledger)],
            directory,
        )

    def _common(self, name: str) -> list[str]:
        """Options of every service; each has the account and the rights that it ships with."""
        kubeconfig = permissions.kubeconfig(self.cluster, name)
        return ["--policy", str(self.policy), "--kubeconfig", str(kubeconfig), "--namespace", SYSTEM_NAMESPACE]

    def start(self, *parts: services.Service) -> None:
        """Starts services in the order given."""
        for part in parts:
            part.start()

    def use_extender(self) -> None:
        """Restarts kube-scheduler with our extender by the stanza that we ship, but for more time.

        The extender is `ignorable`: a pod whose question it answers too late is placed without it, anywhere, and its
        own deadline comes before that. So both are longer than any stall; what the scheduler does without an extender
        is shown by killing it.
        """
        self.cluster.start_scheduler(extenders=[{**extender_stanza.at(self.extender.url), "httpTimeout": "120s"}])

    def take_charge(self) -> None:
        """Starts annotator and extender, and lets kube-scheduler ask the extender."""
        self.start(self.annotator, self.extender)
        self.use_extender()

    def stop(self) -> None:
        """Ends every service of ours."""
        for part in (self.descheduler, self.extender, self.annotator):
            part.kill()

    # what the exporter plays

    def set_load(self, node: str, **values: object) -> None:
        """Sets what a node's own system uses: cpu_ratio, memory_ratio, hidden (no series at all)."""
        services.set_load(self.cluster, node, **values)

    # what the apiserver says

    def nodes(self) -> dict[str, objects.Node]:
        """Every node by name."""
        return {node.name: node for node in self.door.list(kinds.NODES).items}

    def pods(self, prefix: str = "") -> list[objects.Pod]:
        """The living pods whose names start with `prefix`."""
        found = self.door.list(kinds.PODS, namespace=NAMESPACE).items
        return [pod for pod in found if pod.name.startswith(prefix) and not pod.deleting and not pod.finished]

    def placed(self, prefix: str, count: int, *, timeout_seconds: float = waiting.LIMIT_SECONDS) -> list[objects.Pod]:
        """Waits until `count` living pods of that prefix are bound, and returns them."""

        def bound() -> list[objects.Pod]:
            found = [pod for pod in self.pods(prefix) if pod.node_name]
            return found if len(found) == count else []

        return waiting.eventually(
            bound, timeout_seconds, f"{count} pods {prefix}* to be bound", lambda: self._waiting(prefix)
        )

    def _waiting(self, prefix: str) -> list[str]:
        """The pods of that prefix that are not bound, each with what the scheduler says of it."""
        path = f"api/v1/namespaces/{NAMESPACE}/pods"
        found = [one for one in self.cluster.api.items(path) if one["metadata"]["name"].startswith(prefix)]
        return [
            f"{one['metadata']['name']} of {len(found)}: nominated {one['status'].get('nominatedNodeName')}, "
            + "; ".join(str(said.get("message")) for said in one["status"].get("conditions", []))
            for one in found
            if not one["spec"].get("nodeName")
        ]

    def per_node(self, prefix: str, count: int) -> collections.Counter[str]:
        """How many of the `count` pods of that prefix landed on each node."""
        return collections.Counter(pod.node_name for pod in self.placed(prefix, count))

    def readings(self) -> dict[str, dict[str, float]]:
        """What is annotated on each node; a node without the annotation is absent."""
        texts = {name: node.annotations.get("evenload.io/load") for name, node in self.nodes().items()}
        return {name: json.loads(text)["m"] for name, text in texts.items() if text}

    def view_of(self, node: str) -> dict[str, typing.Any]:
        """The extender's row of GET /nodes for one node, {} while it does not know the node."""
        return next((row for row in self.view() if row["name"] == node), {})

    def view(self) -> list[dict[str, typing.Any]]:
        """The extender's rows of GET /nodes."""
        return self.extender.rows("/nodes")

    def await_reading(
        self, node: str, metric: str, low: float, high: float, *, timeout_seconds: float = waiting.LIMIT_SECONDS
    ) -> None:
        """Waits until the annotated value of a metric lies within low..high, and the extender, if it runs, knows."""
        waiting.eventually(
            lambda: all(low <= values.get(node, {}).get(metric, -1.0) <= high for values in self._sync_counts()),
            timeout_seconds,
            f"{metric} of {node} between {low} and {high}",
            lambda: [values.get(node) for values in self._sync_counts()],
        )

    def heat(self, node: str, **ratios: float) -> None:
        """Makes a node hot and waits until the annotation says so and the extender knows."""
        self.set_load(node, **ratios)
        for resource in ("cpu", "memory"):
            if (ratio := ratios.get(f"{resource}_ratio")) is not None:
                self.await_reading(node, f"{resource}_avg_5m", ratio - NEAR_RATIO, ratio + NEAR_RATIO)

    def _sync_counts(self) -> list[dict[str, dict[str, float]]]:
        """Values by node, as annotated and, while it runs, as the extender goes by them: its watch may lag behind."""
        views = [self.readings()]
        if self.extender.running:
            views.append({row["name"]: row["values"] for row in self.view() if row["usable"]})
        return views

    # what users do

    def create_pods(self, prefix: str, count: int, **options: typing.Unpack[bodies.PodOptions]) -> None:
        """Creates bare pods at once."""
        for index in range(count):
            self.door.create(kinds.PODS, bodies.pod(f"{prefix}{index}", **options), namespace=NAMESPACE)

    def obey(self, **overrides: object) -> None:
        """Changes the policy file and waits until annotator and extender go by it."""
        policies.write(self.policy, **overrides)
        name = reloading.content_hash(self.policy.read_bytes())
        for service in (self.annotator, self.extender):
            waiting.until(
                lambda service=service: f'hash="{name}"' in service.text("/metrics"),  # type: ignore[misc]
                f"{service.name} to go by the new policy",
                service.log,
            )

    def reset(self, hot: collections.abc.Mapping[str, float] = types.MappingProxyType({})) -> None:
        """Removes every pod and workload, makes all nodes idle but those with a CPU ratio in `hot`, and waits until
        all of them read so and the extender counts no placement on them. The annotated counts are those of each node's
        last write.
        """
        nodes = self.nodes()
        for node in nodes:
            self.set_load(node, **{**IDLE, **({"cpu_ratio": hot[node]} if node in hot else {})})
        for deployment in self.door.list(kinds.DEPLOYMENTS, namespace=NAMESPACE).items:
            self.door.delete(kinds.DEPLOYMENTS, deployment.name, namespace=NAMESPACE)
        for budget in self.door.list(kinds.BUDGETS, namespace=NAMESPACE).items:
            self.door.delete(kinds.BUDGETS, budget.name, namespace=NAMESPACE)
        waiting.until(self._nothing_left, "all pods of the last test to go")
        waiting.until(lambda: self._all_read(nodes, hot), f"every node to read cool again but {hot}", self._sync_counts)
        what = "the placements of the last test to be forgotten"
        waiting.until(lambda: not self._crowded(), what, self._crowded)

    def _nothing_left(self) -> bool:
        """Deletes what still stands. While a ReplicaSet does, it makes pods anew, however few there are."""
        sets = self.door.list(kinds.REPLICA_SETS, namespace=NAMESPACE).items
        pods = self.door.list(kinds.PODS, namespace=NAMESPACE).items
        for pod in pods:
            if not pod.deleting:
                with contextlib.suppress(errors.NotFound):
                    self.door.delete(kinds.PODS, pod.name, namespace=NAMESPACE)
        return not (sets or pods)

    def _all_read(self, nodes: collections.abc.Collection[str], hot: collections.abc.Mapping[str, float]) -> bool:
        return all(_reads(values.get(node, {}), hot.get(node)) for values in self._sync_counts() for node in nodes)

    def _crowded(self) -> list[str]:
        """The nodes that the extender, if it runs, still counts placements on."""
        rows = self.view() if self.extender.running else []
        return [str(row["name"]) for row in rows if any(row["hot"].values())]


def _reads(values: collections.abc.Mapping[str, float], hot_ratio: float | None) -> bool:
    """Whether a node's six values are those of a hot node, or of a cool one."""
    if hot_ratio is None:
        return len(values) == 6 and max(values.values()) < 0.3
    return len(values) == 6 and abs(values["cpu_avg_5m"] - hot_ratio) <= NEAR_RATIO


@contextlib.contextmanager
def started(
    nodes: int,
    write_policy: collections.abc.Callable[[pathlib.Path], pathlib.Path],
    scheduler_gates: collections.abc.Mapping[str, bool] | None = None,
) -> typing.Iterator[Stack]:
    """A stack on a cluster of its own; no service of ours runs yet.

    Without the real node_exporter: one process plays those of all nodes, so a scrape that it misses on a stalled
    machine must not leave the series of another machine standing. Then all nodes would have vanished beside one that
    goes on, and lose their values at once; an answer without any series is none, and the values are held.
    """
    with (
        cluster.Cluster(nodes=nodes, scheduler_gates=scheduler_gates, node_exporter=False) as running,
        started_on(running, write_policy) as stack,
    ):
        yield stack


@contextlib.contextmanager
def in_charge(running: cluster.Cluster, **policy: object) -> typing.Iterator[Stack]:
    """A stack on a shared cluster, with annotator and extender at work, and kube-scheduler asking the extender."""
    with lent.lent(running), started_on(running, lambda path: policies.write(path, **policy)) as stack:
        stack.take_charge()
        yield stack


@contextlib.contextmanager
def started_on(
    running: cluster.Cluster, write_policy: collections.abc.Callable[[pathlib.Path], pathlib.Path]
) -> typing.Iterator[Stack]:
    """A stack on a cluster where nothing is of ours yet; no service of ours runs yet."""
    with tempfile.TemporaryDirectory(prefix="evenload-e2e-") as name:
        directory = pathlib.Path(name)
        running.api.create("api/v1/namespaces", {"metadata": {"name": SYSTEM_NAMESPACE}})
        permissions.apply(running)
        stack = Stack(running, write_policy(directory / "policy.yaml"), directory)
        try:
            yield stack
        finally:
            stack.stop()
            stack.door.close()
