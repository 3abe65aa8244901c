"""`python -m lab.campaigns.hour`: start a control plane and services, play workloads, sample, print what happened.

Services have the rights, options and intervals that they ship with; windows are the real five minutes. kube-scheduler
asks the extender in shadow mode first, which passes all, and then the one that decides. Ends with 1 where something
that must never happen did.
"""

import collections
import contextlib
import functools
import json
import pathlib
import random
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import click
import yaml

from kube import errors, kinds
from lab.bench import contestants
from lab.campaigns.hour import judging, kubelets, workloads
from lab.campaigns.hour.workloads import Workload
from lab.cluster import cache, extender_stanza
from lab.cluster.demo import permissions
from tests.contract import metrics_server_site
from tests.e2e import bodies, services, stack

SAMPLE_SECONDS: Final = 15.0
WARM_SECONDS: Final = 120.0  # until the first windows are filled; then the descheduler begins
CHURN_SAMPLES, HEAT_SAMPLES, BURST_SAMPLES = 2, 32, 40  # every 30 s, 8 minutes, 10 minutes
IDLE_CPU_RATIO, IDLE_MEMORY_RATIO, HEATED_RATIO = 0.05, 0.1, 0.5
VERDICTS: Final = "evenload_extender_shadow_placements_total{"


class Hour:
    """The stack, two extenders, and the workloads as they stand."""

    def __init__(self, running: stack.Stack, rng: random.Random, site: metrics_server_site.Site | None = None) -> None:
        self.stack, self.rng = running, rng
        self.standing: dict[str, Workload] = {}
        self.heated = ""
        self.evened = False  # whether the pods of disk-hot may go to all nodes of their group
        self.site = site
        self.annotator = self._service("annotator", running.policy, *self._source("annotator"))
        self.extender = self._service("extender", running.policy)
        shadow = running.directory / "shadow"
        shadow.mkdir()
        self.shadow = self._service("extender", written(shadow / "policy.yaml", workloads.SHADOW_POLICY), at=shadow)
        more = ("--ledger", str(running.ledger), *self._source("descheduler"))
        self.descheduler = self._service("descheduler", running.policy, *more)

    def _source(self, name: str) -> list[str]:
        """The options by which a service finds the load: of Prometheus, or of metrics-server where that runs."""
        if self.site is not None:
            return metrics_server_site.added_arguments(name)
        return ["--prometheus", self.stack.cluster.prometheus_url]

    def load(self, node: str, cpu_ratio: float) -> None:
        """Sets the load of a node beside that of its pods."""
        if self.site is None:
            self.stack.set_load(node, cpu_ratio=cpu_ratio, memory_ratio=IDLE_MEMORY_RATIO, hidden=False)
        else:
            self.site.kubelets[node].load(cpu_ratio, IDLE_MEMORY_RATIO)

    def _service(self, name: str, policy: pathlib.Path, *more: str, at: pathlib.Path | None = None) -> services.Service:
        kubeconfig = permissions.kubeconfig(self.stack.cluster, name)
        options = ["--policy", str(policy), "--kubeconfig", str(kubeconfig), "--namespace", stack.SYSTEM_NAMESPACE]
        return services.Service(name, [*options, *more], at or self.stack.directory)

    @property
    def services(self) -> dict[str, services.Service]:
        """All four by what the tables call them."""
        return {
            "annotator": self.annotator,
            "extender": self.extender,
            "extender in shadow": self.shadow,
            "descheduler": self.descheduler,
        }

    def begin(self) -> None:
        """Labels the nodes, starts what places pods, and creates the workloads with the budgets of production."""
        door = self.stack.door
        for name, group in workloads.names().items():
            self._label(name, {workloads.GROUP: group})
            self.load(name, IDLE_CPU_RATIO)
        self._label(self._nodes("disks")[0], {workloads.FIRST_DISK: "yes"})
        door.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": workloads.CLASS}, "value": 9500})
        self.stack.start(self.annotator, self.extender, self.shadow)
        stanzas = [extender_stanza.at(one.url) for one in (self.shadow, self.extender)]
        self.stack.cluster.start_scheduler(extenders=stanzas)
        for workload in workloads.standing(self.rng):
            self.create(workload)
            if workload.production:
                budget = bodies.budget(workload.name, workloads.AVAILABLE)
                door.create(kinds.BUDGETS, budget, namespace=stack.NAMESPACE)

    def create(self, workload: Workload) -> None:
        """Creates a Deployment."""
        made = workloads.body(workload, self.rng.randrange(1000))
        self.stack.door.create(kinds.DEPLOYMENTS, made, namespace=stack.NAMESPACE)
        self.standing[workload.name] = workload

    def delete(self, name: str) -> None:
        """Deletes a Deployment and, by the garbage collector, its pods."""
        self.stack.door.delete(kinds.DEPLOYMENTS, name, namespace=stack.NAMESPACE)
        del self.standing[name]

    def play(self, number: int) -> None:
        """Scales, creates and deletes Deployments and heats a node, by the number of the sample."""
        if not self.evened:
            self._even_disks()
        if number % CHURN_SAMPLES == 0:
            name = self.rng.choice([one for one in self.standing if one.startswith(("batch-", "packed-"))])
            replicas = self.rng.randint(3, 10)
            body = {"spec": {"replicas": replicas}}
            self.stack.door.merge_patch(kinds.DEPLOYMENTS, name, body, namespace=stack.NAMESPACE)
        if number % HEAT_SAMPLES == HEAT_SAMPLES // 2:
            self._heat(self.rng.choice(self._nodes("main")))
        if number % BURST_SAMPLES == BURST_SAMPLES // 2:
            self.create(Workload(f"burst-{number}", "main", 12, 150, workloads.GIB / 2))
        for name in [one for one in self.standing if one == f"burst-{number - BURST_SAMPLES // 2 - 10}"]:
            self.delete(name)

    def _even_disks(self) -> None:
        """Lets the pods of disk-hot go to all nodes of their group once they stand on the first."""
        replicas = self.standing["disk-hot"].replicas
        if sum(bool(pod.node_name) for pod in self.stack.pods("disk-hot-")) == replicas:
            for name in self._nodes("disks"):
                self._label(name, {workloads.FIRST_DISK: "yes"})
            self.evened = True

    def _heat(self, node: str) -> None:
        if self.heated:
            self.load(self.heated, IDLE_CPU_RATIO)
        self.load(node, HEATED_RATIO)
        self.heated = node

    def _nodes(self, group: str) -> list[str]:
        return [name for name, of in workloads.names().items() if of == group]

    def _label(self, node: str, labels: dict[str, str]) -> None:
        self.stack.door.merge_patch(kinds.NODES, node, {"metadata": {"labels": labels}})


def written(path: pathlib.Path, document: dict[str, Any]) -> pathlib.Path:
    """Writes a policy; its path."""
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return path


class Observer:
    """Samples the apiserver, and notes by class where pods were bound."""

    def __init__(self, hour: Hour) -> None:
        self._hour, self._known = hour, set[str]()
        self._began = time.monotonic()
        self.samples: list[judging.Sample] = []
        self.bound: collections.Counter[str] = collections.Counter()

    def look(self) -> judging.Sample:
        """Takes one sample."""
        standing, groups = self._hour.stack, workloads.names()
        readings, pods = standing.readings(), standing.pods()
        counts = collections.Counter(pod.node_name for pod in pods)
        now_seconds = time.time()
        pending = [p for p in pods if not p.node_name and now_seconds - p.created_at_seconds > judging.PENDING_SECONDS]
        for pod in pods:
            if pod.node_name and pod.uid not in self._known:
                self._known.add(pod.uid)
                cpu_ratio = readings.get(pod.node_name, {}).get("cpu_avg_5m", 0.0)
                kind = workloads.CLASS if pod.name.startswith("web-") else "other"
                where = f"over {judging.CLOSED_RATIO:.0%}" if cpu_ratio > judging.CLOSED_RATIO else "under it"
                self.bound[f"{kind} pods bound to nodes of {groups[pod.node_name]} {where}"] += 1
        nodes = {
            name: judging.NodeSample(
                group, values.get("cpu_avg_5m"), values.get("disk_avg_5m") if group == "disks" else None, counts[name]
            )
            for name, group in groups.items()
            for values in [readings.get(name, {})]
        }
        minute = (time.monotonic() - self._began) / 60
        ready = collections.Counter(pod.name.rsplit("-", 2)[0] for pod in pods if pod.ready)
        budgets = {name: ready[name] for name, one in self._hour.standing.items() if one.production}
        sample = judging.Sample(minute, SAMPLE_SECONDS / 60, nodes, len(pending), budgets)
        self.samples.append(sample)
        return sample


def eviction_rows(hour: Hour) -> list[dict[str, Any]]:
    """The rows of GET /evictions."""
    answer = hour.descheduler.json("/evictions?limit=500")
    assert isinstance(answer, dict)
    found: list[dict[str, Any]] = answer["evictions"]
    return found


@contextlib.contextmanager
def started(seed: int, *, metrics_server: bool) -> Iterator[Hour]:
    """The control plane with nodes, workloads and all services but the descheduler."""
    nodes = len(workloads.names())
    with contextlib.ExitStack() as undo:
        if metrics_server:
            write = functools.partial(written, document=workloads.POLICY_WITHOUT_PROMETHEUS)
            running, site = undo.enter_context(kubelets.started(nodes, write))
        else:
            write = functools.partial(written, document=workloads.POLICY)
            running, site = undo.enter_context(stack.started(nodes, write)), None
        hour = Hour(running, random.Random(seed), site)
        for one in hour.services.values():
            undo.callback(one.kill)
        hour.begin()
        yield hour


@click.command()
@click.option("--minutes", default=60.0, show_default=True, help="How long, after the first two.")
@click.option("--seed", default=1, show_default=True, help="Of the workloads.")
@click.option("--metrics-server", is_flag=True, help="Instead of Prometheus, and without the disk.")
@click.option("--samples", type=click.Path(path_type=pathlib.Path), help="Write all samples and rows there, as JSON.")
def main(minutes: float, seed: int, metrics_server: bool, samples: pathlib.Path | None) -> None:
    """Play an hour and print its tables; ends with 1 where something that must never happen did."""
    with started(seed, metrics_server=metrics_server) as hour:
        observer = Observer(hour)
        time.sleep(WARM_SECONDS)
        hour.descheduler.start()
        before = {name: contestants.pss_mebibytes(one.pid) for name, one in hour.services.items()}
        _play(hour, observer, minutes)
        rows = eviction_rows(hour)
        after = {name: contestants.pss_mebibytes(one.pid) for name, one in hour.services.items()}
        verdicts = [line for line in hour.shadow.text("/metrics").splitlines() if line.startswith(VERDICTS)]
        codes = {name: one.stop() for name, one in hour.services.items()}
        logs = {name: one.log() for name, one in hour.services.items()}
    if samples is not None:
        samples.write_text(json.dumps({"samples": observer.samples, "evictions": rows}, default=str), encoding="utf-8")
    _tell(observer, rows)
    click.echo("\n".join(f"{name}: {before[name]:.0f} MiB, {after[name]:.0f} MiB at the end" for name in before))
    click.echo("\n".join(verdicts))
    wrong = _wrong(observer, rows, codes, logs)
    click.echo("\n".join(wrong) or "nothing that must never happen did")
    sys.exit(1 if wrong else 0)


def _play(hour: Hour, observer: Observer, minutes: float) -> None:
    end, number = time.monotonic() + 60 * minutes, 0
    while time.monotonic() < end:
        due = time.monotonic() + SAMPLE_SECONDS
        with contextlib.suppress(errors.NotFound):  # a Deployment that went meanwhile
            hour.play(number)
        sample = observer.look()
        if number % 4 == 0:
            loads = " ".join(f"{node.cpu_ratio or 0:.2f}" for node in sample.nodes.values())
            cache.say(f"minute {sample.minute:.0f}: {loads}, {sample.pending} pending, {len(eviction_rows(hour))} rows")
        number += 1
        time.sleep(max(0.0, due - time.monotonic()))


def _tell(observer: Observer, rows: list[dict[str, Any]]) -> None:
    for quarter, several in judging.by_quarter(observer.samples).items():
        for group in workloads.GROUPS:
            figures = ", ".join(f"{name} {value:.2f}" for name, value in judging.of_group(several, group).items())
            click.echo(f"quarter {quarter + 1}, {group}: {figures}")
    for counter in (judging.evictions(rows), observer.bound):
        click.echo("\n".join(f"{name}: {count}" for name, count in sorted(counter.items())))


def _wrong(observer: Observer, rows: list[dict[str, Any]], codes: dict[str, int], logs: dict[str, str]) -> list[str]:
    """The failures of the run: Pending pods, broken budgets, second evictions, exit codes, tracebacks."""
    pending = [f"{one.pending} pods pending at minute {one.minute:.1f}" for one in observer.samples if one.pending]
    return [
        *pending,
        *judging.under_budget(observer.samples, workloads.AVAILABLE),
        *(f"pod {uid} was evicted twice" for uid in judging.twice(rows)),
        *(f"{name} ended with {code} at SIGTERM" for name, code in codes.items() if code != 0),
        *(f"{name} logged a traceback" for name, log in logs.items() if "Traceback" in log),
    ]


if __name__ == "__main__":
    main()
