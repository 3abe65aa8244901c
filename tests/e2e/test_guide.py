"""The guides as a reader follows them: install, look, tune, operate, roll back, each command as the pages have it.

kubectl talks to a real apiserver; kwok plays the pods. What runs in them is played here: wherever a Deployment of ours
has replicas, the service runs as a process under the account that was applied, and its policy file is the applied
ConfigMap (`Guide.settle`, before every block of commands). Addresses behind `kubectl port-forward` and behind the
apiserver's proxy, which need kubelets, are replaced by those of the processes. Nodes carry the same load from their
first second on, and a quarter of an hour of it is back-filled, because a maximum of a day is looked at every five
minutes by the clock. So the figures of a page stand still: only times and hashes may differ.
"""

import os
import pathlib
import time
from collections.abc import Iterator

import pytest
import yaml

from lab import cluster
from lab.cluster import binaries, nodes
from lab.cluster.demo import permissions
from tests import pages
from tests.e2e import services, stack, waiting

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]  # a long story of short steps, each with its own limit
NAMESPACE = permissions.NAMESPACE
LOADS = {"node-0": (70, 22), "node-1": (10, 68), "node-2": (25, 31)}  # percent of CPU and memory
PODS_RATIO = 0.004  # less than it looks: our own pods add up to half a percent, and the rounded figure stays
HISTORY_SECONDS = 900
NODE_BYTES = 32 * 2**30
SERVICES = ("annotator", "extender", "descheduler")
LIMIT = 2 * waiting.LIMIT_SECONDS  # a hot spot of a minute has to pass, too
PAUSE_SECONDS = 2.0  # a command is a process: five a second for that minute took two thirds of the guide's time


class Guide:
    """A cluster without Evenload, and a reader with a clone."""

    def __init__(self, running: cluster.Cluster, directory: pathlib.Path) -> None:
        self.cluster = running
        self.clone = directory / "clone"
        self.clone.mkdir()
        self._policy = directory / "played" / "policy.yaml"
        self._policy.parent.mkdir()
        (kubectl,) = binaries.find_or_build([tool for tool in binaries.TOOLS if tool.name == "kubectl"]).values()
        path = f"{kubectl.parent}{os.pathsep}{os.environ['PATH']}"
        self._reader = pages.Directory(self.clone, {"PATH": path, "KUBECONFIG": str(running.kubeconfig)})
        self.played: stack.Stack | None = None

    def follow(self, block: pages.Block) -> None:
        """Types what a block says."""
        if block.file:
            self._reader.write(block.file, block)
        if block.how.startswith("cluster"):
            self.settle()
            for command in block.commands():
                self._type(block, command)

    def _type(self, block: pages.Block, command: pages.Command) -> None:
        """One command; what only reads is asked until what the page shows has come about."""
        limit = LIMIT if command.text.startswith("evenload") or " get " in command.text else 0.0
        said = ""

        def as_shown() -> bool:
            nonlocal said
            answer = self._reader.run(command._replace(text=self._reachable(command.text)), self._addresses())
            said = f"exit code {answer.returncode}:\n{answer.stdout}"
            shown = not command.shown or pages.agrees(command.shown, answer.stdout, times=True)
            return answer.returncode == command.code and shown

        place = f"{block.place}: $ {command.text}"
        waiting.eventually(as_shown, limit, place, lambda: said, pause_seconds=PAUSE_SECONDS)

    def _addresses(self) -> dict[str, str]:
        if self.played is None:
            return {}
        return {f"EVENLOAD_{name.upper()}": getattr(self.played, name).url for name in SERVICES}

    def _reachable(self, text: str) -> str:
        text = text.replace("http://127.0.0.1:9090", self.cluster.prometheus_url)
        if self.played is None:
            return text
        if text.startswith("evenload doctor"):  # one process plays every replica
            asked = [self.played.extender.url] * self._replicas("extender")
            text += "".join(f" --extender {url}" for url in asked) + f" --descheduler {self.played.descheduler.url}"
        return text

    # what kubelets would have done meanwhile

    def settle(self) -> None:
        """Until each service runs or not as its Deployment says, under the policy of the ConfigMap."""
        wanted = {name: self._replicas(name) for name in SERVICES}
        if not any(wanted.values()) and self.played is None:
            return
        if self.played is None:
            texts = (path.read_text(encoding="utf-8") for path in sorted(permissions.FOLDER.glob("*.yaml")))
            documents = [one for text in texts for one in yaml.safe_load_all(text) if one["kind"] in permissions.PATHS]
            for right in permissions.granted(documents):
                permissions.await_right(self.cluster, right)
            self.played = stack.Stack(self.cluster, self._mounted(), self._policy.parent)
        for name in SERVICES:
            self._follow_deployment(getattr(self.played, name), name, wanted[name])
        running = [one for name in SERVICES if (one := getattr(self.played, name)).running]
        if running:
            expected = pages.policy_hash(self._mounted().read_bytes())
            waiting.until(
                lambda: all(one.json("/configz")["policyState"]["hash"] == expected for one in running),
                "every service to obey the ConfigMap",
                lambda: {one.name: one.json("/configz") for one in running},
            )

    def _follow_deployment(self, service: services.Service, name: str, replicas: int) -> None:
        played = self.played
        assert played is not None
        if replicas and not service.running:
            service.start()
            if name == "extender":
                # It decides as well without the load of every node, but not as the page says.
                waiting.until(
                    lambda: (
                        {row["name"] for row in played.view() if row["usable"] and not row["unusable"]} == set(LOADS)
                    ),
                    "every node to have usable readings",
                    played.view,
                )
                played.use_extender()  # the guide's third step
        elif not replicas and service.running:
            service.kill()

    def _replicas(self, name: str) -> int:
        path = f"apis/apps/v1/namespaces/{NAMESPACE}/deployments/evenload-{name}"
        return int(self.cluster.api.get(path)["spec"]["replicas"]) if self.cluster.api.exists(path) else 0

    def _mounted(self) -> pathlib.Path:
        """The policy file as the ConfigMap has it now."""
        maps = self.cluster.api.get(f"api/v1/namespaces/{NAMESPACE}/configmaps/evenload-policy")
        new = self._policy.with_suffix(".new")
        new.write_text(maps["data"]["policy.yaml"], encoding="utf-8")
        return new.rename(self._policy)  # at once, as kubelet swaps the link of a volume

    def close(self) -> None:
        """Ends what was started here."""
        if self.played is not None:
            self.played.stop()
            self.played.door.close()


def disk_on(node: str) -> dict[str, object]:
    """A local disk for the ledger. Where it is, the deschedulers are: five pods at once on one node are a hot spot."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "ssd",
        "hostPath": {"path": "/nowhere"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    return {"metadata": {"name": "disk"}, "spec": spec}


def history(now_seconds: float) -> str:
    """The series of a node_exporter on each node until now, as the load exporter goes on with them."""
    counters, totals, available = list[str](), list[str](), list[str]()
    for index, used in enumerate(LOADS.values()):
        where = f'instance="{nodes.address(index)}:9100",job="load-exporter"'
        cpu, memory = (1 - percent / 100 + PODS_RATIO for percent in used)  # what is free of each
        for mode, share in (("idle", cpu), ("user", 1 - cpu)):
            series = f'node_cpu_seconds_total{{{where},cpu="0",mode="{mode}"}}'
            counters += _samples(series, now_seconds, 0.0, share)
        totals += _samples(f"node_memory_MemTotal_bytes{{{where}}}", now_seconds, NODE_BYTES)
        available += _samples(f"node_memory_MemAvailable_bytes{{{where}}}", now_seconds, NODE_BYTES * memory)
    types = ("node_cpu_seconds counter", "node_memory_MemTotal_bytes gauge", "node_memory_MemAvailable_bytes gauge")
    families = zip(types, (counters, totals, available), strict=True)
    return "\n".join([line for head, rows in families for line in (f"# TYPE {head}", *rows)] + ["# EOF\n"])


def _samples(series: str, now_seconds: float, value: float, per_second: float = 0.0) -> list[str]:
    return [
        f"{series} {value + (HISTORY_SECONDS - age) * per_second:.3f} {now_seconds - age:.3f}"
        for age in range(HISTORY_SECONDS, 0, -15)
    ]


@pytest.fixture
def guide(tmp_path: pathlib.Path) -> Iterator[Guide]:
    """Three nodes whose load was there before them, and a disk for the ledger."""
    with cluster.Cluster(node_exporter=False) as running:
        for name, (cpu, memory) in LOADS.items():
            load = {"cpu_ratio": cpu / 100 - PODS_RATIO, "memory_ratio": memory / 100 - PODS_RATIO}
            services.set_load(running, name, **load)
        running.backfill(history(time.time()))
        running.add_nodes(nodes.shapes(len(LOADS)))
        running.api.create("api/v1/persistentvolumes", disk_on("node-0"))
        made = Guide(running, tmp_path)
        try:
            yield made
        finally:
            made.close()


def test_what_the_guides_tell_people_to_type_does_what_they_say(guide: Guide) -> None:
    followed = [block for page in pages.GUIDE for block in pages.blocks(page)]
    for block in (one for one in followed if one.how != pages.AT_THE_END):
        guide.follow(block)
    for block in (one for one in followed if one.how == pages.AT_THE_END):
        guide.follow(block)
    guide.settle()
    api = guide.cluster.api
    left = {node["metadata"]["name"]: node["metadata"].get("annotations", {}) for node in api.items("api/v1/nodes")}
    assert not {name for name, keys in left.items() if any(key.startswith("evenload.io/") for key in keys)}, left
    waiting.until(lambda: not api.exists(f"api/v1/namespaces/{NAMESPACE}"), "the namespace to be gone")
