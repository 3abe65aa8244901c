"""The installation of docs/start/install.md on real nodes, from its check to its removal: one story in the order below.

The outside says what is true: kube-scheduler's log, the apiserver's audit log, the pods' statuses. Nothing enforces the
NetworkPolicies here, and no name of a Service resolves.
"""

import contextlib
import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from lab.campaigns.chaos import records
from lab.cluster import errors
from lab.real_nodes import waiting
from lab.tests.real_nodes import burners
from lab.tests.real_nodes.installation import MARKS, NAMESPACE, PAGE, SERVICES, Installation, installed
from tests import pages

pytestmark = MARKS
NODES = ("rn1", "rn2", "rn3")
HOT = "rn2"
LEDGER_PAGE = pages.ROOT / "docs" / "how-to" / "operate.md"
PAUSE = "registry.k8s.io/pause:3.10"
KUBELET_SECONDS = 120.0  # docs: kubelet updates the file within two minutes
RELOAD_SECONDS = 5.0  # docs: the services load it at most 5 s later
LIMIT_SECONDS = 240.0
GREEN_SECONDS = 120.0
OUTSIDE = {"name": "outside", "labels": {"test": "outside"}}
SMALL = {"requests": {"cpu": "1m", "memory": "4Mi"}}  # so that kube-scheduler takes each node for empty


@pytest.fixture(scope="module")
def world() -> Iterator[Installation]:
    """Evenload on three nodes, the second of which has three burners; its mean of five minutes rises from now on."""
    with installed("rn-installation") as world:
        load = burners.container(450, millicores=10, env=[], resources=SMALL)
        burners.placed(world.nodes, {HOT}, burners.deployment("load", load, replicas=3))
        yield world


def green(world: Installation) -> None:
    """Creates a pod, as the page does, and waits until doctor warns of nothing but the youth of Prometheus."""
    world.run(f"kubectl run green --image {PAUSE}")
    node_of(world, "green")
    with contextlib.suppress(errors.ComponentError):
        waiting.until(lambda: not set(world.doctor()) - {"metrics"}, "doctor to be green", GREEN_SECONDS)
    doubts = world.doctor()
    world.run("kubectl delete pod green")  # the next test creates it again
    assert not set(doubts) - {"metrics"}, doubts


def node_of(world: Installation, pod: str) -> str:
    """The node of a pod in the namespace `default`, once it is bound."""
    world.nodes.kubectl("wait", "--for=condition=PodScheduled", f"pod/{pod}", "--timeout=240s")
    return str(world.nodes.get("pod", pod)["spec"]["nodeName"])


def candidates(explained: str) -> dict[str, str]:
    """The verdict about each node in the text of `evenload explain pod`."""
    rows = re.findall(r"^(rn\d) .*?(passes|rejected)", explained, re.MULTILINE)
    return dict(rows)


def typed(begins: str) -> pages.Command:
    """The command of the page's check of the installation that begins so."""
    commands = [command for block in pages.blocks(PAGE) if block.how == "cluster" for command in block.commands()]
    (command,) = [each for each in commands if each.text.startswith(begins)]
    return command


def test_the_check_of_the_page_says_what_the_page_shows(world: Installation) -> None:
    run, doctor = typed("kubectl run web"), typed("evenload doctor")
    assert pages.agrees(run.shown, world.run(run.text))
    node = node_of(world, "web")
    green(world)
    shown = world.run(doctor.text, code=-1)  # 1 while Prometheus is young
    for line in ("ok your rights you have the 14 rights that doctor needs", "ok nodes matched 3 of 3 nodes matched"):
        assert line in re.sub(r" +", " ", shown)
    assert "20 checks: " in shown
    explained = world.run(typed("evenload explain").text, code=-1)  # 4 while a maximum is missing
    assert re.search(r"^pod default/web: what was decided at \S+, policy \w{12}$", explained, re.MULTILINE)
    assert set(candidates(explained)) == set(NODES)
    assert candidates(explained)[node] == "passes"
    assert world.bindings()["web"] == (node, "system:kube-scheduler")
    world.run(typed("kubectl delete pod web").text)
    nodes, plan = typed("evenload nodes"), typed("evenload plan")
    table = world.run(f"{nodes.text} 2>/dev/null").splitlines()
    assert table[0].split() == nodes.shown[0].split()
    assert [row.split()[0] for row in table[1:] if row.startswith(("*", "rn"))] == ["*", *NODES]
    assert pages.agrees(plan.shown, world.run(f"{plan.text} 2>/dev/null"), times=True)


def test_a_policy_is_in_force_as_soon_as_the_page_says_and_a_refused_one_changes_nothing(world: Installation) -> None:
    def states(key: str) -> set[str]:
        return {world.configuration(pod).get("policyState", {}).get(key) or "" for pod in world.pods()}

    def written() -> set[str]:
        return {pages.policy_hash((world.clone / "mine" / "policy.yaml").read_bytes())}

    good = {**world.policy(), "sync": {"period": "20s"}}
    world.set_policy(good, hurry=False)
    waiting.until(lambda: states("hash") == written(), "the policy to be in force", KUBELET_SECONDS + RELOAD_SECONDS)
    last = written()
    world.set_policy({**good, "filter": {"thresholds": {"memory_avg_5m": 65}}})
    waiting.until(lambda: states("refusedHash") == written(), "every replica to refuse a policy", LIMIT_SECONDS)
    assert states("hash") == last
    events = world.nodes.items("events", f"--namespace={NAMESPACE}", "--field-selector=reason=PolicyRefused")
    assert "memory_avg_5m: 65 is not a ratio" in events[0]["message"]
    world.set_policy(good)
    waiting.until(lambda: states("refusedHash") == {""}, "no replica to refuse a policy", LIMIT_SECONDS)
    assert states("hash") == last
    green(world)
    assert world.restarts() == []


def test_new_pods_avoid_the_hot_node_as_long_as_kube_scheduler_asks(world: Installation) -> None:
    def placed(name: str) -> set[str]:
        pause = {"name": "main", "image": PAUSE, "resources": SMALL}
        world.nodes.apply(burners.deployment(name, pause, replicas=6))
        world.nodes.kubectl("rollout", "status", f"deployment/{name}", "--timeout=240s")
        pods = world.nodes.items("pods", f"--selector=app={name}")
        bindings = world.bindings()
        assert {bindings[pod["metadata"]["name"]] for pod in pods} == {
            (pod["spec"]["nodeName"], "system:kube-scheduler") for pod in pods
        }
        for pod in pods if name == "asked" else []:
            explained = world.run(f"evenload explain pod {pod['metadata']['name']} -n default", code=-1)
            assert "what was decided" in explained
            assert candidates(explained)[HOT] == "rejected"
            assert candidates(explained)[pod["spec"]["nodeName"]] == "passes"
        world.nodes.kubectl("delete", f"deployment/{name}")
        return {pod["spec"]["nodeName"] for pod in pods}

    rejects = re.compile(rf"^{HOT} .*memory \S+>", re.MULTILINE)
    waiting.until(lambda: bool(rejects.search(world.run("evenload nodes"))), "the node to be hot", 2 * LIMIT_SECONDS)
    failed = world.failed_questions()
    assert placed("asked") == {"rn1", "rn3"}
    assert world.failed_questions() == failed
    world.run(f"kubectl -n {NAMESPACE} scale deployment/evenload-extender --replicas 0")
    world.nodes.kubectl("wait", "--for=delete", f"--namespace={NAMESPACE}", "pod", "-l", extender(), "--timeout=240s")
    assert placed("unasked") == set(NODES)
    world.run("kubectl apply -k mine")
    world.until_running()
    green(world)


def extender() -> str:
    """The selector of the extender's pods."""
    return "app.kubernetes.io/component=extender"


def test_the_second_scheduler_of_the_page_asks_too(world: Installation) -> None:
    folder = world.clone / "deploy" / "scheduler" / "second"
    text = (folder / "config.yaml").read_text("utf-8")
    here = text.replace("http://evenload-extender.evenload-system.svc:8900", world.extender_url())
    (folder / "config.yaml").write_text(here, encoding="utf-8")
    world.run("kubectl apply -k deploy/scheduler/second")
    world.run(f"kubectl -n {NAMESPACE} rollout status deployment/evenload-scheduler --timeout=240s")
    overrides = '{"spec": {"schedulerName": "evenload-scheduler"}}'  # as fifteen-minutes.md has it
    world.run(f"kubectl run second --image {PAUSE} --overrides '{overrides}'")
    node = node_of(world, "second")
    assert world.bindings()["second"] == (node, f"system:serviceaccount:{NAMESPACE}:evenload-scheduler")
    explained = world.run("evenload explain pod second -n default", code=-1)
    assert "what was decided" in explained
    assert candidates(explained)[node] == "passes"
    assert candidates(explained)[HOT] == "rejected"
    green(world)
    world.run("kubectl delete pod second")
    world.run("kubectl delete -k deploy/scheduler/second")


class Stream:
    """Pods that are created one after the other while a test works, for a node without a kubelet: they cost nothing."""

    def __init__(self, world: Installation) -> None:
        self._world = world
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._create)
        self.names: list[str] = []

    def __enter__(self) -> "Stream":
        resources = {"cpu": "64", "memory": "64Gi", "pods": "1000"}
        status = {"capacity": resources, "allocatable": resources}
        taint = {"key": "test/outside", "effect": "NoSchedule"}
        outside = {"metadata": OUTSIDE, "spec": {"taints": [taint]}, "status": status}
        self._world.nodes.apply({"apiVersion": "v1", "kind": "Node", **outside})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._world.nodes.kubectl("delete", "pods", "-l", "test=stream", "--grace-period=0", "--force")
        self._world.nodes.kubectl("delete", "node", "outside")

    def bound(self) -> set[str]:
        """The nodes of all pods, once each is bound."""
        waiting.until(lambda: set(self.names) <= set(self._world.bindings()), "the pods to be bound", LIMIT_SECONDS)
        bindings = self._world.bindings()
        return {bindings[name][0] for name in self.names}

    def _create(self) -> None:
        limit = time.monotonic() + 600
        while not self._end.wait(0.2) and time.monotonic() < limit:
            name = f"stream-{time.monotonic_ns()}"
            spec = {
                "nodeSelector": OUTSIDE["labels"],
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": PAUSE}],
            }
            metadata = {"name": name, "labels": {"test": "stream"}}
            self._world.nodes.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
            self.names.append(name)


def until_led_by_another(world: Installation, service: str, old: set[str]) -> None:
    """Waits until a pod leads a service that is none of the old ones."""
    waiting.until(lambda: holder(world, service) not in {"", *old}, f"another {service} to lead", LIMIT_SECONDS)


def holder(world: Installation, service: str) -> str:
    """The pod that leads a service."""
    lease = world.nodes.get("lease", f"evenload-{service}", f"--namespace={NAMESPACE}")
    return str(lease["spec"]["holderIdentity"] or "").rpartition("_")[0]


def test_each_service_rolls_out_while_pods_are_created_and_none_is_placed_without_an_answer(
    world: Installation,
) -> None:
    failed = world.failed_questions()
    with Stream(world) as stream:
        for service in SERVICES:
            begun, old = len(stream.names), {pod["metadata"]["name"] for pod in world.pods(service)}
            world.run(f"kubectl -n {NAMESPACE} rollout restart deployment/evenload-{service}")
            world.run(f"kubectl -n {NAMESPACE} rollout status deployment/evenload-{service} --timeout=240s")
            assert len(stream.names) > begun + 5
            if service != "extender":
                until_led_by_another(world, service, old)
    assert stream.bound() == {"outside"}
    assert world.failed_questions() == failed
    assert world.restarts() == []
    green(world)


def test_programs_of_a_node_restart_and_nothing_else_does(world: Installation) -> None:
    for name in ("kubelet", "containerd"):
        old = world.nodes.program(HOT, name)
        os.kill(old, signal.SIGKILL)
        waiting.until(lambda: world.nodes.program(HOT, name) not in (0, old), f"another {name}", 60)  # noqa: B023
        world.nodes.until_renewed(HOT)
        green(world)
        world.until_running()
        assert world.restarts() == []


def recorded(world: Installation) -> list[str]:
    """The pods in the ledger."""
    rows = world.run("evenload evictions -o jsonl 2>/dev/null").splitlines()
    return [json.loads(row)["pod"] for row in rows]


def test_a_leader_that_dies_at_its_eviction_is_followed_by_none_that_evicts_again(world: Installation) -> None:
    def evicted() -> list[str]:
        calls = records.evictions(world.nodes.starter.directory / "plane" / "logs" / "audit.log")
        return [call.pod for call in calls if call.status == 201 and not call.dry_run]

    relief = {
        "mode": "Enforce",
        "interval": "15s",
        "overloadedFor": "1m",
        "thresholds": {"memory_avg_5m": {"evictAbove": 0.6, "evictUntil": 0.5}},
    }
    assert evicted() == []
    filters = {"thresholds": {"memory_avg_5m": 0.5}}  # under evictAbove, or doctor warns
    world.set_policy({**world.policy(), "filter": filters, "descheduler": relief})
    waiting.until(lambda: evicted() != [], "an eviction", 2 * LIMIT_SECONDS)
    leader = holder(world, "descheduler")
    world.nodes.kubectl("delete", "pod", leader, f"--namespace={NAMESPACE}", "--grace-period=0", "--force")
    until_led_by_another(world, "descheduler", {leader})
    waiting.until(lambda: "_cooldown" in world.run("evenload plan", code=-1), "its successor to wait", LIMIT_SECONDS)
    (pod,) = evicted()
    assert pod.startswith("load-")
    assert recorded(world) == [pod]
    world.nodes.kubectl("rollout", "status", "deployment/load", "--timeout=240s")
    nodes = [each["spec"]["nodeName"] for each in world.nodes.items("pods", "--selector=app=load")]
    assert len([node for node in nodes if node == HOT]) == 2
    world.until_running()
    assert world.restarts() == []


def test_a_drained_node_takes_evenload_nothing_but_the_ledgers_place(world: Installation) -> None:
    def phases() -> set[str]:
        return {pod["status"]["phase"] for pod in world.pods("descheduler")}

    failed, before = world.failed_questions(), recorded(world)
    with Stream(world) as stream:
        world.nodes.kubectl("drain", "rn1", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=240s")
        for service in ("extender", "annotator"):
            world.run(f"kubectl -n {NAMESPACE} rollout status deployment/evenload-{service} --timeout=240s")
        assert not {pod["spec"]["nodeName"] for pod in world.pods("extender")} & {"rn1"}
        waiting.until(lambda: phases() == {"Pending"}, "deschedulers to wait for their node", LIMIT_SECONDS)
        world.nodes.kubectl("uncordon", "rn1")
        world.until_running()
    assert stream.bound() == {"outside"}
    assert world.failed_questions() == failed
    green(world)
    assert recorded(world) == before != []
    assert world.restarts() == []


def test_the_ledger_is_copied_and_restored_by_the_commands_of_its_page(world: Installation) -> None:
    blocks, before = pages.blocks(LEDGER_PAGE), recorded(world)
    (first, *_) = [number for number, block in enumerate(blocks) if "exec needs a kubelet" in block.reason]
    (last,) = [number for number, block in enumerate(blocks) if "delete pod ledger-restore" in str(block.lines)]
    for block in blocks[first : last + 1]:
        if block.file:
            world.write(block)
        for command in block.commands():
            output = world.run(command.text)
            assert not command.shown or pages.agrees(command.shown, output), output
    world.until_running()
    assert recorded(world) == before != []


def test_the_removal_of_the_page_leaves_nothing(world: Installation) -> None:
    for block in pages.blocks(PAGE):
        for command in block.commands() if block.how == "cluster, at the end" else []:
            output = world.run(command.text)
            assert not command.shown or pages.agrees(command.shown, output), output
    assert world.nodes.get("pod", "after")["spec"]["nodeName"] in NODES
    assert NAMESPACE not in world.nodes.kubectl("get", "namespaces", "-o", "name")
    fields = "{.items[*].metadata.annotations}{.items[*].metadata.labels}{.items[*].spec}"  # its image stays in status
    assert "evenload" not in world.nodes.kubectl("get", "nodes", "-o", f"jsonpath={fields}")
