"""The console's doors to a simulated day: the same services, which a simulator feeds (`evenload console --demo`)."""

import collections.abc
import contextlib
import dataclasses
from typing import Final

from cli import effectiveness_figures as figures
from cli import story
from cli.console import live
from console.sources import Doors, Json, SourceError
from kube import kinds
from policy.schema import load_policy
from simulator import world
from simulator.commands import playground
from simulator.workloads import generator
from simulator.world import live as days
from simulator.world.services import Surroundings

HOUR_SECONDS: Final = 3600.0
POOL_LABEL: Final = "pool"


@dataclasses.dataclass(frozen=True, slots=True)
class SimulatedReplica:
    """A service of the day."""

    day: days.LiveDay
    service: str

    @property
    def name(self) -> str:
        """As a pod of its Deployment would be called."""
        return f"evenload-{self.service}-0"

    def get(self, path: str, **query: str) -> bytes:
        """The body of an answer."""
        status, body = self.day.get(self.service, path, query)
        if status != 200:
            raise SourceError(f"{self.name}{path} answers {status}: {body[:200].decode(errors='replace')}")
        return body


@contextlib.contextmanager
def opened(*, seed: int, nodes: int, quick_hours: float, pause_seconds: float) -> collections.abc.Iterator[Doors]:
    """A generated day, of which the first hours are over at once."""
    source = generator.GeneratedScenarios(dataclasses.replace(generator.DEMO, nodes=nodes, pods=round(22.5 * nodes)))
    scenario = source.scenario(seed)
    conditions = world.Setup(load_policy.defaults(), seed=seed, variant="evenload", policy_hash="simulated")
    quick_until_seconds = scenario.start_seconds + quick_hours * HOUR_SECONDS
    with days.opened(scenario, conditions, quick_until_seconds=quick_until_seconds, pause_seconds=pause_seconds) as day:
        yield doors(day, f"a simulated day of {nodes} nodes (seed {seed})")


def doors(day: days.LiveDay, title: str) -> Doors:
    """Everything that the console asks, of the day."""
    return Doors(
        title=title,
        now=day.clock.now,
        extenders=lambda: (SimulatedReplica(day, "extender"),),
        deschedulers=lambda: (SimulatedReplica(day, "descheduler"),),
        pods=lambda node: day.read(lambda around: live.pods_of(around.kube, around.prometheus, "", node)),
        pools=lambda: {
            one.name: one.labels[POOL_LABEL]
            for one in day.read(lambda around: around.kube.list(kinds.NODES).items)
            if POOL_LABEL in one.labels
        },
        effectiveness=lambda span_seconds: effectiveness(day.moments, span_seconds),
        story=lambda begin, end: day.read(lambda around: story.document(sources(day, around), begin, end)),
        check=live.check,
        what_if=playground.replaying(None),
        note="A simulated cluster: the services are the real ones, the nodes and pods are not. Five minutes pass in a "
        "moment.",
    )


def sources(day: days.LiveDay, around: Surroundings) -> story.Sources:
    """The sources of the day's story."""
    return story.Sources(
        lambda: SimulatedReplica(day, "descheduler"),
        lambda: around.kube.list(kinds.NODES).items,
        lambda: around.prometheus,
    )


def effectiveness(moments: collections.abc.Sequence[days.Moment], span_seconds: float) -> Json:
    """The figures of the span and of each hour in it, as Prometheus would give them."""
    if not moments:
        raise SourceError("the day has just begun")
    begin_seconds = moments[-1].at_seconds - span_seconds
    within = [one for one in moments if one.at_seconds >= begin_seconds]
    whole = figures.of(_increase(within[0].sums, within[-1].sums))._asdict()
    hours = []
    for before, after in _hours(within):
        hours.append({"at_seconds": after.at_seconds, **figures.of(_increase(before.sums, after.sums))._asdict()})
    covered_seconds = within[-1].at_seconds - within[0].at_seconds
    return {"figures": whole, "covered_seconds": covered_seconds, "moments": hours}


def _hours(
    moments: collections.abc.Sequence[days.Moment],
) -> collections.abc.Iterator[tuple[days.Moment, days.Moment]]:
    begin = moments[0]
    for one in moments:
        if one.at_seconds - begin.at_seconds >= HOUR_SECONDS:
            yield begin, one
            begin = one


def _increase(before: days.Sums, after: days.Sums) -> days.Sums:
    return {part: value - before[part] for part, value in after.items()}
