"""Three replicas behind one address answer alike, and their digests say when they do not.

Nodes are annotated and pods bound by hand. A test can freeze one replica's wire to the apiserver and set its clock.
"""

import http.client
import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib import parse

import pytest
import yaml

from kube.cache import watch_status
from lab import cluster
from policy.contract import heartbeat, load_annotation
from runtime import clock, reloading
from tests import forwarding
from tests.contract import shifted, shifted_extender
from tests.e2e import lent, patient_extender, services, waiting

pytestmark = pytest.mark.cluster
NODES = ("node-0", "node-1", "node-2")
STALE = ["stale_node_watch", "stale_pod_watch"]
SILENCE_SECONDS = 240.0  # over the 90 s after which decisions are flagged, and the longest pause before a next attempt
POLICY = """
apiVersion: evenload.io/v1alpha1
kind: LoadPolicy
sync: {staleAfter: 1h}
hotSpots: [{window: 30m, pods: 2, penalty: 3.5}]
score: {spread: none}
"""
OTHER_POLICY = POLICY + "filter: {thresholds: {cpu_avg_5m: 0.3}}\n"
POD = {"metadata": {"name": "asked", "namespace": "default", "uid": "asked"}, "spec": {"containers": [{"name": "c"}]}}


class Observed(NamedTuple):
    """What a replica is compared by."""

    view: str
    placements: str


class World:
    """The control plane, three replicas on it, and the address in front of them."""

    def __init__(self, running: cluster.Cluster, wire: forwarding.Forwarder, directory: pathlib.Path) -> None:
        self.cluster = running
        self.wire = wire
        self.before = Observed("", "")  # the digests at the start of a test
        self.policies = [directory / f"{number}" / "policy.yaml" for number in range(3)]
        self.shift = shifted.Shift(directory / "shift")
        self.shift.set(0.0)
        self.replicas = [self._replica(path, cut_off=path is self.policies[2]) for path in self.policies]

    def _replica(self, policy: pathlib.Path, *, cut_off: bool) -> services.Service:
        policy.parent.mkdir()
        write(policy, POLICY)
        config = yaml.safe_load(self.cluster.kubeconfig.read_text(encoding="utf-8"))
        if cut_off:
            config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.wire.port}"
        kubeconfig = policy.parent / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
        arguments = ["--policy", str(policy), "--kubeconfig", str(kubeconfig), "--namespace", "default"]
        arguments += ["--deadline", "90s"]
        if cut_off:
            arguments = [shifted.OPTION, str(self.shift.file), *arguments]
            return services.Service(shifted_extender.__name__, arguments, policy.parent)
        return services.Service(patient_extender.__name__, arguments, policy.parent)

    def reset(self) -> Observed:
        """No pods, the first policy, the loads that the answers below are computed from; the digests of that."""
        self.wire.thaw()
        self.cluster.api.delete("api/v1/namespaces/default/pods")
        for policy in self.policies:
            write(policy, POLICY)
        self.annotate(clock.WallClock().now() - 60, node_0=0.1, node_1=0.4, node_2=0.9)
        return waiting.until(self._as_reset, "all replicas to be as at the start", self.observed).pop()

    def _as_reset(self) -> set[Observed]:
        answers = [replica.json("/nodes") for replica in self.replicas]
        for answer in answers:
            ratios = [row["values"].get("cpu_avg_5m") for row in answer["nodes"]]
            counts = [row["hot"]["30m"] for row in answer["nodes"]]
            held = (answer["policy"], ratios, counts, answer["heartbeat"]["matches"])
            if held != (reloading.content_hash(POLICY.encode()), [0.1, 0.4, 0.9], [0, 0, 0], True):
                return set()
        found = set(self.observed())
        return found if len(found) == 1 else set()

    def annotate(self, at_seconds: float, **cpu_ratio: float) -> None:
        """Readings taken at a moment (node_0=0.9), and the heartbeat over all of them as of now."""
        for key, ratio in cpu_ratio.items():
            text = load_annotation.encode(
                load_annotation.Reading(at_seconds, {"cpu_avg_5m": ratio, "memory_avg_5m": ratio})
            )
            body = {"metadata": {"annotations": {load_annotation.KEY: text}}}
            self.cluster.api.patch(f"api/v1/nodes/{key.replace('_', '-')}", body)
        texts = lent.texts(self.cluster.api)
        data = heartbeat.encode(clock.WallClock().now(), "hash", len(texts), heartbeat.digest(texts))
        self.cluster.api.patch(f"api/v1/namespaces/default/configmaps/{heartbeat.CONFIG_MAP}", {"data": data})

    def bind(self, name: str, node: str) -> None:
        """A pod that a scheduler put on a node."""
        lent.bind(self.cluster.api, name, node)

    def hot(self, node: str) -> list[int]:
        """The pods of the last 30 minutes on a node, as each replica counts them."""
        return [row["hot"]["30m"] for replica in self.replicas for row in replica.rows("/nodes") if row["name"] == node]

    def await_hot(self, node: str, count: int) -> None:
        """Wait until every replica counts so many."""
        waiting.until(
            lambda: set(self.hot(node)) == {count}, f"{count} pods to count on {node}", lambda: self.hot(node)
        )

    def observed(self) -> list[Observed]:
        """The digests of each replica."""
        return [Observed(**replica.json("/nodes")["view"]) for replica in self.replicas]

    def settled(self, before: Observed) -> Observed:
        """The digests that all three show, once they are the same and not those of before."""

        def same() -> set[Observed]:
            found = set(self.observed())
            return found if len(found) == 1 and before not in found else set()

        return waiting.until(same, "three equal new digests", self.observed).pop()

    def two_against_one(self, before: Observed) -> None:
        """Wait until the first two replicas show something new and the third does not show that."""

        def split() -> bool:
            one, two, three = self.observed()
            return one == two != three and one != before

        waiting.until(split, "two against one", self.observed)

    def answers(self) -> list[dict[str, Any]]:
        """What one client gets that asks the address in front of all three, on a new connection each time."""
        with forwarding.Forwarder(*(replica.port for replica in self.replicas)) as service:
            found = [ask(service.port) for _ in self.replicas]
            assert set(service.connections.values()) == {1}, "every replica was to be asked once"
        return found


def write(policy: pathlib.Path, text: str) -> None:
    """A file that appears whole."""
    whole = policy.with_suffix(".new")
    whole.write_text(text, encoding="utf-8")
    whole.rename(policy)


def ask(port: int) -> dict[str, Any]:
    """Filter and prioritize for one pod, on one connection: the reason by rejected node, the score of each other."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        rejected = post(connection, "/filter", NODES)
        names = [name for name in NODES if name not in rejected["FailedAndUnresolvableNodes"]]
        scores = {row["Host"]: row["Score"] for row in post(connection, "/prioritize", names)}
        return {**rejected["FailedAndUnresolvableNodes"], **scores}
    finally:
        connection.close()


def post(connection: http.client.HTTPConnection, verb: str, names: Sequence[str]) -> Any:
    """One request of kube-scheduler."""
    body = json.dumps({"Pod": POD, "NodeNames": list(names)})
    connection.request("POST", verb, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200
    return json.load(answer)


@pytest.fixture(scope="module")
def plane(control_plane: cluster.Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with lent.lent(control_plane) as running:
        apiserver = parse.urlsplit(yaml.safe_load(running.kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
        assert apiserver.port is not None
        body = {"metadata": {"name": heartbeat.CONFIG_MAP}, "data": {}}
        running.api.create("api/v1/namespaces/default/configmaps", body)
        with forwarding.Forwarder(apiserver.port) as wire:
            made = World(running, wire, tmp_path_factory.mktemp("replicas"))
            try:
                for replica in made.replicas:
                    replica.start()
                yield made
            finally:
                for replica in made.replicas:
                    replica.kill()  # one that is told to end waits for two seconds for requests under way


@pytest.fixture
def world(plane: World) -> World:
    plane.before = plane.reset()
    return plane


def test_settled_replicas_show_one_digest_and_give_one_answer(world: World) -> None:
    before = world.before
    for pod in ("first", "second"):
        world.bind(pod, "node-0")
    world.await_hot("node-0", 2)  # both: after the first alone all three may agree for a moment
    after = world.settled(before)
    assert after.view == before.view
    assert after.placements != before.placements
    answers = world.answers()
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["node-2"] == "cpu_avg_5m over 0.65"
    # 250m of 8 cores a pod: 9 - 3.5 for the two there, 0.6 (less while they age) and 0.3 for the one asked about;
    # 10 * (1 - 0.4) - 0.3
    assert (answers[0]["node-0"], answers[0]["node-1"]) == (5, 6)
    assert after.view in world.replicas[0].text("/readyz?verbose")


def test_pods_that_end_or_go_stop_counting_in_every_replica(world: World) -> None:
    for pod in ("ends", "goes", "stays"):
        world.bind(pod, "node-0")
    world.await_hot("node-0", 3)
    pods = "api/v1/namespaces/default/pods"
    waiting.until(lambda: {pod["status"]["phase"] for pod in world.cluster.api.items(pods)} == {"Running"}, "kwok")
    world.cluster.api.patch(f"{pods}/ends/status", {"status": {"phase": "Succeeded"}})
    world.cluster.api.delete(f"{pods}/goes")
    world.await_hot("node-0", 1)
    world.bind("elsewhere", "node-1")
    world.await_hot("node-1", 1)
    assert world.hot("node-0") == [1, 1, 1]
    world.settled(world.before)


def test_a_replica_that_gets_no_news_shows_another_digest_until_it_does(world: World) -> None:
    before = world.before
    world.wire.freeze()
    world.annotate(clock.WallClock().now(), node_1=0.8)
    world.two_against_one(before)
    answers = world.answers()
    assert answers[0] == answers[1] != answers[2]
    assert (answers[0]["node-1"], answers[2]["node-1"]) == ("cpu_avg_5m over 0.65", 6)
    world.wire.thaw()
    world.settled(before)
    answers = world.answers()
    assert answers[0] == answers[1] == answers[2]


def test_a_silent_pod_watch_flags_decisions_until_it_brings_something_again(world: World) -> None:
    """Its connections stay open and nothing comes; what a watch does not last of the limit passes by its clock."""
    cut_off, sound = world.replicas[2], world.replicas[0]
    world.wire.freeze()

    def ready() -> str:
        lines = cut_off.text("/readyz?verbose").splitlines()
        return "\n".join(line for line in lines if line.startswith(("[+]nodes watch", "[+]pods watch")))

    def watch_problems() -> bool:
        return all("broke off" in line or "timed out" in line for line in ready().splitlines())

    waiting.eventually(watch_problems, SILENCE_SECONDS, "the silence to be noticed", ready)
    ages = [float(line.split("heard ")[1].split(" s ago")[0]) for line in ready().splitlines()]
    assert max(ages) < watch_status.STALE_SECONDS, "noticed before the decisions are flagged"
    assert degraded(cut_off) == []
    world.shift.set(watch_status.STALE_SECONDS - min(ages) + 1)  # ages are shown as whole seconds
    waiting.eventually(lambda: degraded(cut_off) == STALE, SILENCE_SECONDS, "decisions to be flagged", ready)
    assert degraded(sound) == []
    assert sound.metric("evenload_kube_watch_problem") == 0
    assert cut_off.text("/readyz") == "ok\n"
    assert cut_off.metric("evenload_kube_watch_problem") >= 2
    world.wire.thaw()
    waiting.eventually(lambda: degraded(cut_off) == [], SILENCE_SECONDS, "contact to be back", ready)
    world.settled(Observed("", ""))


def degraded(replica: services.Service) -> list[str]:
    """The causes that a decision of this moment is flagged with, apart from those of its nodes."""
    connection = http.client.HTTPConnection("127.0.0.1", replica.port, timeout=30)
    try:
        causes = post(connection, "/explain", NODES)["degraded"]
    finally:
        connection.close()
    return sorted(cause for cause in causes if cause in STALE)


def test_a_replica_under_another_policy_shows_another_digest(world: World) -> None:
    before = world.before
    write(world.policies[0], OTHER_POLICY)
    write(world.policies[1], OTHER_POLICY)
    world.two_against_one(before)
    answers = world.answers()
    assert answers[0] == answers[1] != answers[2]
    write(world.policies[2], OTHER_POLICY)
    world.settled(before)
    answers = world.answers()
    assert answers[0] == answers[1] == answers[2]
