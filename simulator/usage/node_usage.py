"""The truth of a simulated cluster: what its nodes and pods really use, at every moment of the virtual time.

`world` says where pods run (`usage.pod_usage`, `ended`); `prometheus` looks at the book at every scrape and knows
nothing else. Use is constant between two events (a step of the scenario, a pod that comes or goes, a node that joins or
leaves), and each event first brings its node's integrals up to its own time: they are exact, also where pods come and
go inside a step. A node's use is its own and what its pods wish, divided by `contention.shares` where that is more than
it has.

What a pod uses during a step may be unknown (NaN in the scenario: a gap of a recorded past). Such a pod has no series
then, its node shows what is known of the others, and `unknown` counts it: reports of results say so.
"""

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from policy import metrics
from simulator import contention
from simulator.scenario import NEVER, Scenario
from simulator.usage.pod_usage import PodUsage
from simulator.usage.ring_table import RingTable

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# What is integrated, by row: both ratios, and the factors that pods' wishes were cut by.
CPU_RATIO, MEMORY_RATIO, CPU_FACTOR, MEMORY_FACTOR = range(4)
MOMENT_SECONDS = 0.001  # Prometheus knows no shorter one
LATEST_SECONDS = 1e12
KEPT_SECONDS = 25.0 * 3600.0 + 600.0  # a day's maxima, with something to spare


@dataclasses.dataclass(frozen=True, slots=True)
class Scraping:
    """When Prometheus looks: every `every_seconds`, `offset_seconds` after the multiples of it.

    The offset keeps scrapes away from the moments at which everything happens, as in life.
    """

    every_seconds: float = 30.0
    offset_seconds: float = 15.0

    def last(self, at_seconds: float) -> int:
        """The number of the last scrape at or before a time; Prometheus' clock counts milliseconds."""
        return round((at_seconds - self.offset_seconds) * 1000) // round(self.every_seconds * 1000)

    def last_of(self, at_seconds: Floats) -> Numbers:
        """`last` of several times."""
        millis = np.rint((at_seconds - self.offset_seconds) * 1000).astype(np.int64)
        return np.asarray(millis // round(self.every_seconds * 1000))

    def last_before(self, at_seconds: Floats) -> Numbers:
        """The last scrape before each time, also before one that never comes or never was."""
        return self.last_of(np.clip(at_seconds, 0.0, LATEST_SECONDS) - MOMENT_SECONDS)

    def seconds(self, number: int) -> float:
        """When a scrape is."""
        return number * self.every_seconds + self.offset_seconds

    def seconds_of(self, numbers: Numbers) -> Floats:
        """`seconds` of several."""
        return np.asarray(numbers * self.every_seconds + self.offset_seconds)


class UsageBook:
    """Real use over time. One thread; times never go back."""

    def __init__(
        self, scenario: Scenario, *, scraping: Scraping | None = None, kept_seconds: float = KEPT_SECONDS
    ) -> None:
        self.scenario = scenario
        self.scraping = scraping or Scraping()
        self.machines = _Machines(scenario)
        self.pods = PodUsage(scenario)
        count = len(scenario.machines)
        first = self.scraping.last(scenario.start_seconds)
        rows = round(kept_seconds / self.scraping.every_seconds)
        # Integrals of what are counters in life, sums over the scrapes of what are gauges.
        self.scraped = RingTable((4, count), begin=first, capacity=rows)
        self.scraped.append(np.zeros((1, 4, count)))  # before the first scrape nothing was
        self.factor_seconds = np.zeros((scenario.steps + 1, count))  # integral of the CPU factor where a step begins
        self._ratios = np.full((2, scenario.steps, count), np.nan, np.float32)
        self._values = np.zeros((4, count))
        self._totals = np.zeros((4, count))
        self._begun_totals = np.zeros((4, count))  # where the step in force began
        self._settled_seconds = np.full(count, scenario.start_seconds)
        self._wanted = np.zeros((2, count))
        self._there = np.zeros(count, bool)
        self._step = -1
        self._breaks = self.machines.breaks()
        self._next_break = 0
        self._due_seconds = -math.inf  # nothing happens before it: no scrape, no break
        self.now_seconds = scenario.start_seconds  # how far the book is written
        self._unknown_pods: set[int] = set()
        self._unknown_steps = 0
        self.advance(scenario.start_seconds)

    @property
    def unknown(self) -> tuple[int, int]:
        """How many pods' use was not known at some time so far, and at how many steps of pods."""
        return len(self._unknown_pods), self._unknown_steps

    def node_scrapes(self) -> tuple[Numbers, Numbers]:
        """The first and the last scrape that finds each node."""
        first = self.scraping.last_before(self.machines.joins_seconds) + 1
        return np.maximum(first, self.scraped.begin + 1), self.scraping.last_before(self.machines.leaves_seconds)

    def node_ratio(self, resource: str) -> npt.NDArray[np.float32]:
        """Mean use of every node during every step, as ratios of its capacity, [steps, nodes].

        NaN for steps that are not over, and where the node was not there; of a step in part, the mean of that part.
        """
        return np.asarray(self._ratios[metrics.RESOURCES.index(resource)])

    def placed(self, pod_key: str, replica_index: int, node: str, at_seconds: float) -> None:
        """A pod ("namespace/name") begins to run and fills a replica; ValueError where that cannot be."""
        number = self.machines.number(node)
        self.advance(at_seconds)
        self._settle(number, at_seconds)
        factor_seconds = float(self._totals[CPU_FACTOR, number])
        place = self.pods.begin(pod_key, replica_index, number, at_seconds, factor_seconds=factor_seconds)
        if not self._change(place, 1.0):
            self._note_unknown(np.array([place]))

    def ended(self, pod_key: str, at_seconds: float) -> None:
        """A pod uses nothing any more; ValueError for one that does not run."""
        self.advance(at_seconds)
        place = self.pods.finish(pod_key, at_seconds)
        self._settle(int(self.pods.node[place]), at_seconds)
        self._change(place, -1.0)

    def advance(self, to_seconds: float) -> None:
        """Let time pass: steps end, nodes join and leave, scrapes are taken. ValueError for a time that is over."""
        if to_seconds < self.now_seconds:
            raise ValueError(f"the book is at {self.now_seconds:.3f}, but was asked to go to {to_seconds:.3f}")
        self.now_seconds = to_seconds
        if to_seconds < self._due_seconds:  # most calls: pods come and go between two scrapes
            return
        while self._breaks[self._next_break] <= to_seconds:
            at_seconds = self._breaks[self._next_break]
            self._next_break += 1
            self._scrape(
                self.scraping.last(at_seconds - MOMENT_SECONDS)
            )  # a scrape at this very time sees what follows
            self._totals += self._values * (at_seconds - self._settled_seconds)
            self._settled_seconds[:] = at_seconds
            self._cross(at_seconds)
        self._scrape(self.scraping.last(to_seconds))
        scrape_seconds = self.scraping.seconds(self.scraped.end) - MOMENT_SECONDS  # early: a scrape's time is rounded
        self._due_seconds = min(scrape_seconds, self._breaks[self._next_break])

    def _settle(self, node: int, at_seconds: float) -> None:
        """Bring one node's integrals up to an event of its own."""
        self._totals[:, node] += self._values[:, node] * (at_seconds - self._settled_seconds[node])
        self._settled_seconds[node] = at_seconds

    def _change(self, place: int, sign: float) -> bool:
        """Add a pod's wish to its node's, or take it away; whether all of it is known."""
        node, wish = int(self.pods.node[place]), self.pods.wish(place, self._step)
        for resource, amount in enumerate(wish):
            if not math.isnan(amount):
                self._wanted[resource, node] += sign * amount
        self._measure_one(node)
        return not math.isnan(sum(wish))

    def _cross(self, at_seconds: float) -> None:
        """A step ends, the next begins, nodes join or leave."""
        step = int(np.searchsorted(self.machines.step_seconds, at_seconds, side="right")) - 1
        begins = step > self._step
        if begins:
            if self._step >= 0:
                self._close()
            self._begun_totals = self._totals.copy()
            self.factor_seconds[step] = self._totals[CPU_FACTOR]
            self._step = step
        self._there = self.machines.there_at(at_seconds)
        unknown = self._add_up()
        if begins:
            self._note_unknown(unknown)

    def _close(self) -> None:
        """The step is over: its means."""
        there_seconds = self.machines.there_seconds(self._step)
        sums = (self._totals - self._begun_totals)[: MEMORY_RATIO + 1]
        np.divide(sums, there_seconds, out=self._ratios[:, self._step], where=there_seconds > 0)

    def _add_up(self) -> Numbers:
        """Computes the use of every node from now on; returns the places of pods whose demand is not known."""
        running = self.pods.running()
        nodes = self.pods.node[running]
        unknown = np.zeros(len(running), bool)
        for resource, wishes in enumerate(self.pods.wishes(running, self._step)):
            gaps = np.isnan(wishes)
            unknown |= gaps
            known = np.where(gaps, 0.0, wishes)
            self._wanted[resource] = np.bincount(nodes, known, len(self.scenario.machines))
        machines = self.machines
        used, factors = contention.shares(machines.usable, machines.system, self._wanted)
        self._values[:CPU_FACTOR] = used / machines.capacity * self._there
        self._values[CPU_FACTOR:] = factors * self._there
        return running[unknown]

    def _note_unknown(self, places: Numbers) -> None:
        self._unknown_pods.update(places.tolist())
        self._unknown_steps += len(places)

    def _measure_one(self, node: int) -> None:
        """Computes the use of one node from now on."""
        if self._there[node]:
            columns = (each[:, node] for each in (self.machines.usable, self.machines.system, self._wanted))
            used, factors = contention.shares(*columns)
            self._values[:, node] = (*(used / self.machines.capacity[:, node]), *factors)

    def _scrape(self, last: int) -> None:
        """Take the scrapes that were not taken yet, up to this one."""
        if last < self.scraped.end:
            return
        at_seconds = self.scraping.seconds_of(np.arange(self.scraped.end, last + 1))
        rows = np.empty((len(at_seconds), *self._values.shape))
        since = at_seconds[:, None, None] - self._settled_seconds
        counters, gauges = slice(None, None, 2), slice(1, None, 2)
        rows[:, counters] = self._totals[counters] + self._values[counters] * since
        before = self.scraped[self.scraped.end - 1][gauges]
        rows[:, gauges] = before + self._values[gauges] * np.arange(1, len(rows) + 1)[:, None, None]
        self.scraped.append(rows)


class _Machines:
    """The nodes as arrays, in the scenario's order."""

    def __init__(self, scenario: Scenario) -> None:
        every = scenario.machines
        self._numbers = {one.name: number for number, one in enumerate(every)}
        if len(self._numbers) < len(every):
            raise ValueError(f"scenario {scenario.name} names a machine twice; expected each name once")
        self.capacity = np.array([(one.capacity.cpu_millicores, one.capacity.memory_bytes) for one in every]).T
        shares = np.array([(one.system.cpu_ratio, one.system.memory_ratio) for one in every]).T
        self.system = shares * self.capacity
        self.usable = self.capacity * np.array([[1.0], [contention.MEMORY_CEILING_RATIO]])
        self.joins_seconds = np.array([one.joins_seconds for one in every])
        self.leaves_seconds = np.array([one.leaves_seconds for one in every])
        self.step_seconds = scenario.start_seconds + np.arange(scenario.steps + 1) * scenario.step_seconds

    def number(self, node: str) -> int:
        """A node's place in the arrays; ValueError for a name that the scenario does not have."""
        if node not in self._numbers:
            raise ValueError(f"node {node!r} is none of the scenario's {len(self._numbers)} machines")
        return self._numbers[node]

    def there_at(self, at_seconds: float) -> Flags:
        """Returns the flags of the nodes that exist from a time on."""
        return (self.joins_seconds <= at_seconds) & (at_seconds < self.leaves_seconds)

    def there_seconds(self, step: int) -> Floats:
        """For how long each was there during a step."""
        begin, end = self.step_seconds[step], self.step_seconds[step + 1]
        there = np.minimum(self.leaves_seconds, end) - np.maximum(self.joins_seconds, begin)
        return np.asarray(np.maximum(there, 0.0))

    def breaks(self) -> list[float]:
        """The times at which all nodes' use may change: steps begin, nodes join or leave; then never again."""
        steps, others = self.step_seconds, np.concatenate((self.joins_seconds, self.leaves_seconds))
        inside = others[(others > steps[0]) & (others < steps[-1])]
        return [*np.unique(np.concatenate((steps, inside))).tolist(), NEVER]
