"""Relief of a node that is hot anyway: evictions under a disruption budget, on a real control plane."""

import collections.abc
import contextlib
import functools
import itertools
import json
import threading
import typing

import pytest

from descheduler.ledger import rows
from kube import errors, kinds, objects
from kube.door import KubeDoor
from policy.contract import relief_hint
from runtime import clock, exit_codes
from tests import commands
from tests.e2e import bodies, hot_nodes, policies, stack, waiting

pytestmark = pytest.mark.cluster
HOT = "node-0"
HEAVY: bodies.PodOptions = {"cpu_millicores": 200, "memory_bytes": 5 * 2**30, "memory_request": "256Mi"}
RELIEF_SECONDS = 300.0  # two evictions, each waiting for readings, the run after them and the last replacement
ENFORCE: typing.Final = {
    "descheduler__mode": "Enforce",
    "descheduler__interval": "1s",
    "descheduler__overloadedFor": "2s",  # three readings, which are a second apart
}


class BudgetWatcher:
    """Lists the pods many times a second and keeps the worst that it saw: ready pods against what must be ready."""

    def __init__(self, door: KubeDoor, name: str, least_ready: int, *, namespace: str = stack.NAMESPACE) -> None:
        self._door = door
        self._name, self._namespace = name, namespace
        self._least_ready = least_ready
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.lowest_ready = 10**6
        self.looks = 0

    def __enter__(self) -> "BudgetWatcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def held(self) -> bool:
        """Whether enough pods were ready at every look (and there were looks)."""
        return self.looks > 0 and self.lowest_ready >= self._least_ready

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            selector = f"app={self._name}"
            pods = self._door.list(kinds.PODS, namespace=self._namespace, label_selector=selector).items
            self.lowest_ready = min(self.lowest_ready, sum(pod.ready and not pod.deleting for pod in pods))
            self.looks += 1


@pytest.fixture(scope="module")
def running() -> collections.abc.Iterator[stack.Stack]:
    """All three services on five nodes, the descheduler told to Enforce but not started yet."""
    with stack.started(5, lambda path: policies.write(path, **ENFORCE)) as started:
        started.take_charge()
        yield started


@pytest.fixture
def evenload(running: stack.Stack) -> collections.abc.Iterator[stack.Stack]:
    """Idle nodes, a fresh ledger, the descheduler not running."""
    running.reset()
    for leftover in running.directory.glob("ledger.db*"):
        leftover.unlink()
    yield running
    running.descheduler.kill()


def overload(
    evenload: stack.Stack,
    *,
    replicas: int = 4,
    budget: int | None = 3,
    kind: kinds.Kind[typing.Any] = kinds.DEPLOYMENTS,
    **options: typing.Unpack[bodies.PodOptions],
) -> None:
    """Brings HOT over 80 % of memory by the pods of Deployment (or `kind`) `web` that were made to land there."""
    if budget is not None:
        evenload.door.create(kinds.BUDGETS, bodies.budget("web", budget), namespace=stack.NAMESPACE)
    hot_nodes.filled(evenload, "web", HOT, {**HEAVY, **options}, replicas=replicas, kind=kind)
    evenload.set_load(HOT, memory_ratio=0.25)
    evenload.await_reading(HOT, "memory_avg_5m", 0.8, 1.0)


def evicted(evenload: stack.Stack) -> list[dict[str, object]]:
    """The rows of evictions that took place, also where the answer was lost and the pod found gone."""
    return [row for row in evenload.descheduler.rows("/evictions") if row["result"] in rows.DONE]


def replacements(evenload: stack.Stack, first: set[str], count: int) -> list[objects.Pod]:
    """The ready pods beyond the `first` (uids) once there are `count` and the ledger names those lost; [] before."""
    pods = [pod for pod in evenload.pods("web-") if pod.ready]
    gone = first - {pod.uid for pod in pods}
    settled = len(pods) == count and gone == {row["pod_uid"] for row in evicted(evenload)}
    return [pod for pod in pods if pod.uid not in first] if settled else []


def pod_events(evenload: stack.Stack) -> set[str]:
    """Names of the pods that an Event of ours says were evicted."""
    events = evenload.door.list(kinds.EVENTS, namespace=stack.NAMESPACE, field_selector="reason=NodeOverloaded").items
    return {event.regarding.name for event in events if event.regarding.kind == "Pod"}


@pytest.fixture
def lift_pause(evenload: stack.Stack) -> collections.abc.Iterator[collections.abc.Callable[[], object]]:
    """The policy pauses the descheduler until this is called: it answers what it would do, and does nothing."""
    resume = functools.partial(policies.write, evenload.policy, **ENFORCE)
    resume(descheduler__paused=True)
    yield resume
    evenload.descheduler.kill()
    resume()


def command_json(evenload: stack.Stack, *words: str) -> dict[str, typing.Any]:
    """What an `evenload` command says of the descheduler; {} when that does not answer in time, or not of all."""
    result = commands.run(*words, "--descheduler", evenload.descheduler.url, "-o", "json")
    if result.exit_code in (exit_codes.Exit.UNREACHABLE, exit_codes.Exit.PARTIAL):
        return {}
    assert result.exit_code == 0, result.stderr
    answer: dict[str, typing.Any] = json.loads(result.stdout)
    return answer


def candidates(evenload: stack.Stack) -> list[dict[str, typing.Any]]:
    """What `evenload plan` says of the pods of HOT."""
    nodes = command_json(evenload, "plan").get("nodes", [])
    return [one for node in nodes if node["node"] == HOT for one in node["candidates"]]


def planned(evenload: stack.Stack, candidates: int) -> dict[str, typing.Any]:
    """What `evenload plan` says, once it judges so many pods of HOT by caps alone and chooses one of them; {} before.

    Until then a pod may be too young for its usage to be known, or the budget not computed yet.
    """
    answer = command_json(evenload, "plan")
    verdicts = sorted(pod["verdict"] for node in answer.get("nodes", []) for pod in node["candidates"])
    return answer if verdicts == ["chosen", *["node_cap"] * (candidates - 1)] else {}


def test_an_overloaded_node_reaches_its_target_as_planned_under_a_budget_that_is_never_violated(
    evenload: stack.Stack, lift_pause: collections.abc.Callable[[], object]
) -> None:
    overload(evenload)
    first = {pod.uid: pod for pod in evenload.pods("web-")}
    with BudgetWatcher(evenload.door, "web", least_ready=3) as watcher:
        evenload.descheduler.start()
        foretold = lambda: planned(evenload, len(first))  # noqa: E731
        plan = waiting.until(foretold, "a plan to evict one of the pods", lambda: command_json(evenload, "plan"))
        tells_what_it_would_do(plan, first)
        assert not evenload.descheduler.rows("/evictions"), "nothing was done before the plan was asked for"
        lift_pause()
        evenload.await_reading(HOT, "memory_avg_5m", 0.0, 0.6, timeout_seconds=RELIEF_SECONDS)
        moved = waiting.until(
            lambda: replacements(evenload, set(first), 4),
            "one ledger row for each pod that left, and all replaced",
            lambda: (first, evenload.pods("web-"), evenload.descheduler.rows("/evictions")),
        )
    assert watcher.held(), f"{watcher.lowest_ready} ready of 3 that the budget wants, in {watcher.looks} looks"
    back = [pod.name for pod in moved if pod.node_name == HOT]
    assert not back, "an evicted pod came back to the hot node"
    done = sorted(evicted(evenload), key=lambda row: int(str(row["id"])))
    assert done[0]["pod_uid"] == plan["evictions"][0]["uid"], "of equals the order does not change: as it was planned"
    assert len(done) >= 2, f"one alone does not bring 0.875 to 0.6: {done}"
    names = {str(row["pod"]) for row in done if row["result"] == "evicted"}
    waiting.until(lambda: names <= pod_events(evenload), f"an Event for each of {names}")
    waiting.until(
        lambda: names <= event_names(evenload, "Node"),
        "and one on the node",
        lambda: evenload.descheduler.rows("/events"),
    )
    waiting.until(
        lambda: names <= event_names(evenload, "Deployment"),
        "and its owner",
        lambda: evenload.descheduler.rows("/events"),
    )
    outcomes = waiting.until(lambda: known(listed(evenload)), "every outcome to be known", lambda: listed(evenload))
    assert {(row["returned"], row["namespace"]) for row in outcomes} == {(False, stack.NAMESPACE)}
    judged = waiting.until(
        lambda: [row for row in listed(evenload) if row["error_30m_ratio"] is not None],
        "a prediction to be judged by what was measured",
        lambda: listed(evenload),
    )
    tells_how_good_its_plans_were(evenload, judged)
    tells_the_story(evenload, names)


def tells_what_it_would_do(plan: dict[str, typing.Any], pods: collections.abc.Mapping[str, objects.Pod]) -> None:
    """It names the node with its lines, every pod of it, where the chosen one goes, and what its budget allows."""
    (node,), (eviction,) = plan["nodes"], plan["evictions"]
    (over,) = node["overloads"]
    assert (node["node"], over["metric"]) == (HOT, "memory_avg_5m")
    assert (over["threshold_ratio"], over["target_ratio"]) == (0.8, 0.6)
    assert over["value_ratio"] > 0.8 > over["projected_ratio"], "one pod of 5 GiB of 32 brings it under the line"
    assert {one["pod"] for one in node["candidates"]} == {pod.name for pod in pods.values()}
    assert pods[eviction["uid"]].name == eviction["pod"]
    assert eviction["workload"].endswith("/web"), eviction
    assert eviction["destination_ratio"] <= 0.6, "where it is expected it stays under the target, too"
    assert eviction["destination"] in {one["node"] for one in plan["headroom"]["destinations"]} - {HOT}
    budget = {"namespace": stack.NAMESPACE, "name": "web", "allowed": 1, "reserved": 1}
    assert plan["headroom"]["budgets"] == [budget]
    assert plan["mode"] == "Enforce"


def tells_how_good_its_plans_were(evenload: stack.Stack, judged: list[dict[str, typing.Any]]) -> None:
    """Each row has what was expected, what was measured and what else moved; the summary counts it."""
    for row in judged:
        assert 0 < row["expected_30m_ratio"] < row["value_ratio"], "a pod of 5 GiB of 32 leaves less"
        expected = row["expected_30m_ratio"] + row["moved_30m_ratio"]
        assert row["load_30m_ratio"] - expected == pytest.approx(row["error_30m_ratio"], abs=2e-4), "four digits"
    (whole,) = command_json(evenload, "evictions", "--summary")["groups"]
    assert whole["after_30m"]["judged"] >= len(judged)
    assert (whole["returned"], whole["replaced"]) == (0, whole["evictions"])
    table = commands.run("evictions", "--summary", "--descheduler", evenload.descheduler.url)
    assert f"{100 * whole['after_30m']['median_error_ratio']:+.1f}pp" in table.stdout, table.output


def tells_the_story(evenload: stack.Stack, names: set[str]) -> None:
    """First the overload, then the evictions with their effect. Prometheus does not scrape us: it knows no leaders."""
    doors = ("--descheduler", evenload.descheduler.url, "--prometheus", evenload.cluster.prometheus_url)
    words = ("story", "--since", "10m", "--node", HOT, "--kubeconfig", evenload.cluster.kubeconfig, *doors)
    result = commands.run(*words, code=exit_codes.Exit.PARTIAL)
    first, *rest = [line for line in result.stdout.splitlines()[3:] if "memory" in line]
    assert "memory_avg_5m over 80%, at most 8" in first, result.output
    effects = [line.partition("/")[2] for line in rest if "; now on node-" in line and ", Ready after " in line]
    assert {line.partition(": memory ")[0] for line in effects} >= names, result.output
    assert "not known: leaders: Prometheus has no evenload_descheduler_leader" in result.stderr


def event_names(evenload: stack.Stack, kind: str) -> set[str]:
    """Names of the pods of which an Event on something of that kind says, with figures, that they were evicted."""
    notes = [
        one["note"].partition(" evicted: memory_avg_5m ")
        for one in evenload.descheduler.rows("/events")
        if one["kind"] == kind
    ]
    return {key.removeprefix(f"{stack.NAMESPACE}/") for key, _, figures in notes if f"on {HOT}, until 0.60" in figures}


def known(rows: list[dict[str, typing.Any]]) -> list[dict[str, typing.Any]]:
    """The rows, once the replacement of each is ready; [] before."""
    return rows if all(row["ready_at"] for row in rows) else []


def listed(evenload: stack.Stack) -> list[dict[str, typing.Any]]:
    """What `evenload evictions` says of the evictions carried out; [] when the descheduler does not answer in time."""
    rows: list[dict[str, typing.Any]] = command_json(evenload, "evictions", "--outcome", "evicted").get("evictions", [])
    return rows


def test_the_second_replica_of_a_service_with_one_spare_waits_for_the_firsts_replacement(evenload: stack.Stack) -> None:
    overload(evenload, replicas=4, budget=3, annotations={"cluster.evenload.io/ready-delay": "8s"})
    first = {pod.uid for pod in evenload.pods("web-")}
    with BudgetWatcher(evenload.door, "web", least_ready=3) as watcher:
        evenload.descheduler.start()
        evenload.await_reading(HOT, "memory_avg_5m", 0.0, 0.6, timeout_seconds=RELIEF_SECONDS)
        waiting.until(
            lambda: len(replacements(evenload, first, 4)) >= 2,
            "two pods to have left and to be replaced",
            lambda: (first, evenload.pods("web-"), evenload.descheduler.rows("/evictions")),
        )
    assert watcher.held(), f"{watcher.lowest_ready} ready of 3"
    times = sorted(str(row["intended_at"]) for row in evicted(evenload))
    gaps = [clock.from_rfc3339(later) - clock.from_rfc3339(earlier) for earlier, later in itertools.pairwise(times)]
    assert min(gaps) >= 8, f"evictions followed each other before the replacement was ready: {times}"


@pytest.fixture
def one_replica_set(evenload: stack.Stack) -> collections.abc.Iterator[None]:
    """No threshold rejects a node, only a relief hint does, and the workload rests for ten minutes.

    The ReplicaSet `web` that the test makes is gone afterwards.
    """
    evenload.obey(**ENFORCE, filter__thresholds={}, descheduler__cooldown={"workload": "10m", "node": "1s"})
    yield
    evenload.descheduler.kill()
    with contextlib.suppress(errors.NotFound):
        evenload.door.delete(kinds.REPLICA_SETS, "web", namespace=stack.NAMESPACE)
    evenload.door.merge_patch(kinds.NODES, HOT, {"metadata": {"annotations": {relief_hint.KEY: None}}})
    evenload.obey(**ENFORCE)


def hinted(evenload: stack.Stack) -> bool:
    """Whether HOT carries a hint about the ReplicaSet, and the extender knows just that hint."""
    hint = relief_hint.decode(evenload.nodes()[HOT].annotations.get(relief_hint.KEY))
    uid = evenload.door.get(kinds.REPLICA_SETS, "web", namespace=stack.NAMESPACE).uid
    known = evenload.view_of(HOT).get("relief_until")
    return hint is not None and uid in hint.untils_seconds and known == clock.to_rfc3339(hint.until_seconds)


def unplaced(evenload: stack.Stack) -> dict[str, str]:
    """The pods that are not bound, each with what kube-scheduler says of it."""
    matching = evenload.cluster.api.items(f"api/v1/namespaces/{stack.NAMESPACE}/pods")
    return {
        one["metadata"]["name"]: "; ".join(str(said.get("message")) for said in one["status"].get("conditions", []))
        for one in matching
        if not one["spec"].get("nodeName")
    }


def replaced_only_on_the_hot_node(evenload: stack.Stack) -> None:
    """From now on new pods of `web` can go to HOT only, and kube-scheduler waits for a word before it looks."""
    label = {"e2e.evenload.io/replacements": "yes"}
    hot_nodes.labelled(evenload, HOT, label)
    spec = {"nodeSelector": label, "schedulingGates": [{"name": "e2e.evenload.io/wait"}]}
    patch = {"spec": {"template": {"spec": spec}}}
    evenload.door.merge_patch(kinds.REPLICA_SETS, "web", patch, namespace=stack.NAMESPACE)

    def observed() -> bool:
        made = evenload.door.get(kinds.REPLICA_SETS, "web", namespace=stack.NAMESPACE)
        return made.status.observed_generation >= made.metadata.generation

    waiting.until(observed, "the new template to be known to its controller")


def test_a_replacement_stays_away_while_its_node_is_hot(evenload: stack.Stack, one_replica_set: None) -> None:
    overload(evenload, budget=None, kind=kinds.REPLICA_SETS)
    replaced_only_on_the_hot_node(evenload)
    evenload.descheduler.start()
    (name,) = waiting.eventually(
        lambda: unplaced(evenload), RELIEF_SECONDS, "a replacement that waits", evenload.descheduler.log
    )
    waiting.until(lambda: hinted(evenload), "the extender to know the hint", lambda: evenload.view_of(HOT))
    evenload.door.merge_patch(kinds.PODS, name, {"spec": {"schedulingGates": None}}, namespace=stack.NAMESPACE)
    waiting.until(
        lambda: relief_hint.REASON in unplaced(evenload).get(name, ""),
        "the replacement to be kept off the only node that could take it, which is hot",
        lambda: (unplaced(evenload), evenload.view_of(HOT)),
    )
    evenload.set_load(HOT, memory_ratio=0.0)
    waiting.eventually(
        lambda: [pod for pod in evenload.pods(name) if pod.node_name == HOT and pod.ready],
        RELIEF_SECONDS,
        "the replacement to come back once the node is relieved",
        lambda: (unplaced(evenload), evenload.view_of(HOT)),
    )
