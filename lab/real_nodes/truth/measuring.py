"""The run: nodes with Evenload, workloads at rest, then a step on two nodes under each of the two policies."""

import functools
import json
import time
from collections.abc import Sequence
from typing import NamedTuple

from lab.cluster import cache, errors
from lab.real_nodes import waiting
from lab.real_nodes.truth import recorder, scenes
from lab.tests.real_nodes import installation
from lab.tests.real_nodes.nodes import Document

SHARES = 32 * 1024  # of a node's processor; other programs of the machine have 1024
GUARD = "validatingadmissionpolicy/evenload-guard-evictions"
NODES = ("rn1", "rn2", "rn3")
SETTLE_SECONDS = 20.0  # cAdvisor looks at a container every 10 to 15 s
AFTER_SECONDS = 45.0  # from the last replacement on
EVICTIONS = {scenes.SHORTEST: 3, scenes.SHIPPED: 1}  # of a node, after which it is under the lower line
LIMIT_SECONDS = {scenes.SHORTEST: 300.0, scenes.SHIPPED: 720.0}
OLD_SECONDS = 310.0  # the shipped policy and guard leave pods alone until they are 5 minutes old


class Scene(NamedTuple):
    """A case, and when it began to be at rest, got its step, and ended, by this machine's clock."""

    case: scenes.Case
    rest_at_seconds: float
    step_at_seconds: float
    end_at_seconds: float


class Run(NamedTuple):
    """The records of all cases, with the rows of the ledger."""

    record: recorder.Record
    scenes: Sequence[Scene]
    evictions: Sequence[Document]


def measured(name: str, cases: Sequence[scenes.Case]) -> Run:
    """Starts nodes, plays the cases, ends the nodes. Errors: ClusterError, AssertionError of a command."""
    with installation.installed(name, len(NODES)) as site:
        recording = recorder.Recorder(site.nodes, NODES)
        with recording.recording() as record:
            player = _Player(site, recording)
            player.arrange()
            results: list[Scene] = []
            for part in dict.fromkeys(case.part for case in cases):
                results += player.play(part, [case for case in cases if case.part == part])
            rows = json.loads(site.run("evenload evictions -o json 2> err.txt"))["evictions"]
        return Run(record, results, rows)


class _Player:
    def __init__(self, site: installation.Installation, recording: recorder.Recorder) -> None:
        self._site, self._recording = site, recording
        self._policy = site.policy()
        self._began_seconds = 0.0

    def arrange(self) -> None:
        """Gives the nodes their processors, and puts the pods on the nodes, one node after the other."""
        nodes, counts = self._site.nodes, dict.fromkeys(scenes.WORKLOADS, 0)
        for path in nodes.starter.cgroups():
            if (shares := path / "cpu.shares").exists():
                shares.write_text(str(SHARES), encoding="utf-8")
        nodes.apply(*map(scenes.pod, scenes.STANDING))
        for name in ("rn1", "rn2"):
            nodes.kubectl("cordon", *(each for each in NODES if each != name))
            for workload in scenes.WORKLOADS:
                if name in workload.nodes:
                    counts[workload] += workload.nodes.count(name)
                    nodes.apply(scenes.deployment(workload, counts[workload]))
            for workload in scenes.WORKLOADS:
                what = f"deployment/{workload.name}"
                if counts[workload]:
                    nodes.kubectl("rollout", "status", what, "--timeout=120s")
            nodes.kubectl("uncordon", *(each for each in NODES if each != name))
        self._began_seconds = time.time()

    def play(self, part: str, cases: Sequence[scenes.Case]) -> list[Scene]:
        """Plays a part: its policy, rest, a step on each node, relief; then takes the steps away."""
        self._set_policy(part)
        old_seconds = 60.0 + SETTLE_SECONDS if part == scenes.SHORTEST else OLD_SECONDS
        waiting.until(lambda: time.time() > self._began_seconds + old_seconds, "pods to be old", 600)
        cache.say(f"{part}: steps on {', '.join(case.node for case in cases)}")
        steps_seconds = time.time()
        self._site.nodes.apply(*(scenes.pod(case.step) for case in cases))
        for case in cases:
            try:
                waiting.until(functools.partial(self._relieved, case, steps_seconds), f"{case}", LIMIT_SECONDS[part])
            except errors.ComponentError as error:
                cache.say(f"its figures are missing: {error}")
        end_seconds = time.time() + AFTER_SECONDS
        waiting.until(lambda: time.time() > end_seconds, "the end of the part", 120)
        self._site.nodes.kubectl("delete", "pod", "--wait=false", *(case.step.name for case in cases))
        own = [each.name for each in scenes.WORKLOADS if each.part == part]
        self._site.nodes.kubectl("delete", "deployment", *own)
        return [Scene(case, self._began_seconds + SETTLE_SECONDS, steps_seconds, end_seconds) for case in cases]

    def _set_policy(self, part: str) -> None:
        """Brings the policy of a part into force, and the least age of pods into the guard."""
        short = part == scenes.SHORTEST
        policy = (scenes.shortest_policy if short else scenes.shipped_policy)(self._policy)
        self._site.set_policy(policy)  # which applies the shipped guard
        names = [each["name"] for each in self._site.nodes.get(GUARD)["spec"]["variables"]]
        path = f"/spec/variables/{names.index('minPodAge')}/expression"
        age = f'duration("{policy["descheduler"]["protect"]["minPodAge"]}")'
        patch = json.dumps([{"op": "replace", "path": path, "value": age}])
        self._site.nodes.kubectl("patch", GUARD, "--type=json", f"--patch={patch}")

    def _relieved(self, case: scenes.Case, since_seconds: float) -> bool:
        """True once as many pods left the node as it takes, and their replacements are Ready."""
        pods = self._recording.pods()
        gone = [pod for pod in pods if pod.node == case.node and pod.leaving_at_seconds > since_seconds and pod.owner]
        fresh = [pod for pod in pods if pod.created_at_seconds > since_seconds and pod.ready_at_seconds and pod.owner]
        owners = {pod.owner for pod in gone}
        wanted = EVICTIONS[case.part]
        return len(gone) >= wanted and sum(pod.owner in owners for pod in fresh) >= wanted
