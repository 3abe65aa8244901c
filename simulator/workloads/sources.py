"""Where the scenarios of a study come from: drawn for each seed, or made of a trace with the seed's requests.

`cli.simulate` and `demo` choose one; `runs` takes it to every process. (A recorded past is `runs.Fixed`.)
"""

import dataclasses
import functools
import pathlib

from simulator.scenario import Scenario
from simulator.workloads import generator, trace_files


@dataclasses.dataclass(frozen=True, slots=True)
class GeneratedScenarios:
    """A workload of this shape, drawn anew for each seed."""

    shape: generator.Shape

    def scenario(self, seed: int) -> Scenario:
        """The workload of a seed; ValueError for a shape that cannot be."""
        return generator.generate(seed, self.shape)


@dataclasses.dataclass(frozen=True, slots=True)
class TracedScenarios:
    """A trace file's load; who comes when and asks for how much, by `rule`, is the seed's."""

    path: pathlib.Path
    rule: str
    recipe: trace_files.Recipe

    def scenario(self, seed: int) -> Scenario:
        """The workload of a seed; series.TraceError for the file, ValueError for a recipe that it cannot serve."""
        return trace_files.scenario(_trace(self.path), self.rule, seed, self.recipe)


@functools.cache
def _trace(path: pathlib.Path) -> trace_files.Trace:
    """Read once in each process."""
    return trace_files.load(path)
