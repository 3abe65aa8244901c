"""One life of a small cluster told twice: to lab/cluster/'s load exporter, page by page, and to the simulator's book.

`test_prometheus_past` back-fills the pages into a real Prometheus and asks it what it asks the simulated one. Pods come
and go inside steps and inside windows, one node wants more than it has, two nodes are young.
"""

import collections.abc
from typing import NamedTuple

import numpy as np

from lab.cluster import exporter_fleet, exporter_load, exporter_text
from promql import door
from promql.queries import node_queries, pod_queries
from simulator import contention, scenario
from simulator.usage import node_usage

STEP_SECONDS = 300.0
LIFE_SECONDS = 26 * 3600.0
SCRAPING = node_usage.Scraping(60.0, 15.0)
NODE = contention.Load(4000.0, 16e9)
SYSTEM = contention.SystemLoad()
WANTED = ("node_cpu_seconds_total", "node_memory_MemAvailable", "node_memory_MemTotal", "container_")


class Pod(NamedTuple):
    """A pod: where, how many seconds before the end it begins and ends, and what it means to use."""

    name: str
    node: str
    begins_before: float
    ends_before: float
    profile: exporter_load.Profile


JOINED = {"old": LIFE_SECONDS, "full": LIFE_SECONDS, "young": 5 * 3600.0 + 77.0, "newborn": 100.0}
PODS = (
    Pod("steady", "old", LIFE_SECONDS, -1.0, exporter_load.Profile(700.0, 2e9, "google", 1)),
    Pod("gone", "old", 20 * 3600.0 + 123.0, 2000.0, exporter_load.Profile(900.0, 5e9, "google", 2)),
    Pod("late", "old", 400.0, -1.0, exporter_load.Profile(800.0, 3e9, "google", 3)),
    Pod("latest", "old", 93.0, -1.0, exporter_load.Profile(500.0, 1e9, "google", 4)),
    Pod("greedy", "full", LIFE_SECONDS, -1.0, exporter_load.Profile(2600.0, 9e9, "google", 5)),
    Pod("greedier", "full", 7 * 3600.0 + 10.0, -1.0, exporter_load.Profile(1900.0, 7e9, "google", 6)),
    Pod("moved", "young", 5 * 3600.0, -1.0, exporter_load.Profile(1200.0, 4e9, "google", 7)),
)


AVERAGING_SECONDS = 300.0
EXPRESSIONS = (
    *(
        node_queries.expression(node_queries.Window(resource, statistic, seconds, AVERAGING_SECONDS))
        for resource in ("cpu", "memory")
        for statistic, seconds in (
            ("avg", AVERAGING_SECONDS),
            ("max", 3600.0),
            ("max", 86400.0),
            ("avg", 3600.0),
            ("p95", 3600.0),
            ("p5", 86400.0),
        )
    ),
    *(source.data_time(resource) for source in (node_queries, pod_queries) for resource in ("cpu", "memory")),
    *(queried(seconds) for queried in (pod_queries.cpu_cores, pod_queries.memory_bytes) for seconds in (300.0, 3600.0)),
    node_queries.scrapes("cpu", AVERAGING_SECONDS),
    node_queries.known_share(3600.0),
)


class Happening(NamedTuple):
    """Something at a time; `pod` begins or ends, else a node joins."""

    at_seconds: float
    node: str
    pod: Pod | None = None
    ends: bool = False


def happenings(end_seconds: float) -> list[Happening]:
    """Everything in order of time; nodes before the pods of the same time."""
    nodes = [Happening(end_seconds - before, node) for node, before in JOINED.items()]
    begin = [Happening(end_seconds - pod.begins_before, pod.node, pod) for pod in PODS]
    end = [Happening(end_seconds - pod.ends_before, pod.node, pod, True) for pod in PODS if pod.ends_before >= 0]
    return sorted([*nodes, *begin, *end], key=lambda one: one.at_seconds)


def pages(end_seconds: float) -> str:
    """OpenMetrics text of every scrape of the load exporter until the end."""
    start_seconds = end_seconds - LIFE_SECONDS
    fleet = exporter_fleet.Fleet(exporter_load.Clock(start_seconds), exporter_load.curves())
    coming = happenings(end_seconds)
    lines: list[str] = []
    for number in range(SCRAPING.last(start_seconds) + 1, SCRAPING.last(end_seconds) + 1):
        at_seconds = SCRAPING.seconds(number)
        while coming and coming[0].at_seconds <= at_seconds:
            _tell(fleet, coming.pop(0))
        fleet.advance(at_seconds)
        page = exporter_text.render(fleet, exporter_text.Page(max_cpus=1))
        lines += [f"{line} {at_seconds:.3f}" for line in page.splitlines() if line.startswith(WANTED)]
    return "\n".join([*lines, "# EOF\n"])


def _tell(fleet: exporter_fleet.Fleet, what: Happening) -> None:
    if what.pod is None:
        fleet.set_node(exporter_fleet.NodeFacts(what.node, what.node, NODE, SYSTEM), what.at_seconds)
    elif what.ends:
        fleet.remove_pod(f"default/{what.pod.name}", what.at_seconds)
    else:
        container = (("main", "registry.k8s.io/pause:3.10"),)
        name, profile = what.pod.name, what.pod.profile
        facts = exporter_fleet.PodFacts("default", name, f"uid-{name}", name, what.node, profile, container)
        fleet.place(facts, what.at_seconds)


def book(end_seconds: float) -> node_usage.UsageBook:
    """The same life as a book, written until the end."""
    made = _scenario(end_seconds)
    written = node_usage.UsageBook(made, scraping=SCRAPING, kept_seconds=LIFE_SECONDS)
    places = {pod.name: place for place, pod in enumerate(PODS)}
    for what in happenings(end_seconds):
        if what.pod is not None and what.ends:
            written.ended(f"default/{what.pod.name}", what.at_seconds)
        elif what.pod is not None:
            written.placed(f"default/{what.pod.name}", places[what.pod.name], what.node, what.at_seconds)
    written.advance(end_seconds)
    return written


def _scenario(end_seconds: float) -> scenario.Scenario:
    start_seconds, steps = end_seconds - LIFE_SECONDS, int(LIFE_SECONDS / STEP_SECONDS)
    wishes = [wish for pod in PODS for wish in _wishes(pod, steps)]
    return scenario.Scenario(
        name="one life told twice",
        start_seconds=start_seconds,
        step_seconds=STEP_SECONDS,
        steps=steps,
        machines=tuple(
            scenario.Machine(node, NODE, system=SYSTEM, joins_seconds=end_seconds - before)
            for node, before in JOINED.items()
        ),
        owners=(scenario.Owner("default", "owner", contention.Load(100.0, 1e9)),),
        replicas=tuple(
            scenario.Replica(0, place, start_seconds, end_seconds, place * steps) for place, _ in enumerate(PODS)
        ),
        usage=scenario.Usage(
            np.array([wish.cpu_millicores for wish in wishes], np.float32),
            np.array([wish.memory_bytes for wish in wishes], np.float32),
        ),
    )


def _wishes(pod: Pod, steps: int) -> collections.abc.Iterator[contention.Load]:
    """What the exporter lets it want, step by step."""
    curve, which = exporter_load.curves()(pod.profile), exporter_load.replica(pod.profile.seed, 0)
    return (exporter_load.usage(pod.profile, curve, which, (step + 0.5) * STEP_SECONDS) for step in range(steps))


def values(answer: door.Answer) -> dict[str, float]:
    """By node or pod; series of the exporter name a port, and no job where nobody scraped them."""
    found: dict[str, float] = {}
    for labels, value, _ in answer.samples:
        name = labels.get("pod") or labels.get("instance", "all together").removesuffix(
            f":{exporter_text.Page().node_port}"
        )
        assert name not in found, f"{name} twice in {answer}"
        found[name] = value
    return found
