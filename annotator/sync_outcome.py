"""Outcome of one sync: for the exit code, /readyz?verbose and /configz, and as lines for stdout of `--once`.

`annotator.node_sync` makes one at the end of every sync; it holds plain facts and the sentences made of them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from annotator.collect.collector import LoadError
from annotator.publish import write_plan
from annotator.publish.node_writer import Write, Writer
from kube import errors as kube_errors
from promql import errors

OUTPUTS: Final = ("text", "json")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one sync: `errors` has one entry per failed metric, `heartbeat_error` is why there was no
    heartbeat, `usage_problem` why the use of owners was not published.
    """

    nodes: int
    without_values: tuple[str, ...]
    errors: tuple[LoadError, ...]
    answered: int
    patches: Mapping[str, int]
    patch_error: kube_errors.KubeError | None = None
    heartbeat_error: kube_errors.KubeError | None = None
    usage_problem: str = ""
    unmatched: str = ""  # why nodes have no values, or those before, see annotator.diagnostics.matching

    @property
    def read_nothing(self) -> bool:
        """No query succeeded: nothing was written, the cluster keeps ageing what it has."""
        return self.answered == 0

    @property
    def partly_answered(self) -> bool:
        """Some query was answered, if only in part: the source is within reach."""
        return self.answered > 0 or any(isinstance(error, errors.Partial) for error in self.errors)

    @property
    def whole(self) -> bool:
        """Every query was answered in full, with values of every node, and every write went through."""
        unwritten = self.patches.get(write_plan.FAILED, 0) + self.patches.get(write_plan.SKIPPED, 0)
        missing = len(self.errors) + len(self.without_values) + unwritten
        return missing == 0 and self.heartbeat_error is None and not self.usage_problem and not self.unmatched

    def problems(self) -> list[str]:
        """Returns the reasons why this sync was incomplete, each once."""
        problems = [str(self.errors[0])] if self.errors else []
        if len(self.errors) > 1:
            problems.append(
                f"{len(self.errors)} of {len(self.errors) + self.answered} queries failed, the first as above"
            )
        if self.unmatched:
            problems.append(self.unmatched)
        if self.patch_error is not None:
            problems.append(f"node annotations not written: {self.patch_error}")
        if self.heartbeat_error is not None:
            problems.append(f"heartbeat not written: {self.heartbeat_error}")
        if self.usage_problem:
            problems.append(f"owners' usage not published: {self.usage_problem}")
        return problems

    def as_json(self) -> dict[str, object]:
        """The outcome for /configz."""
        return {
            "nodes": self.nodes,
            "withoutValues": list(self.without_values),
            "queriesAnswered": self.answered,
            "patches": dict(self.patches),
            "problems": self.problems(),
        }


def lines(outcome: Outcome, writer: Writer, output: str) -> list[str]:
    """Every write of a dry run, and with "json" the outcome, too. A real sync in "text" is silent."""
    writes = sorted(writer.done, key=lambda write: (write.kind != "Node", write.name))
    if output == "json":
        queries = [one._asdict() | {"error": None if one.error is None else str(one.error)} for one in writes]
        listed: dict[str, object] = {"writes": queries} if writer.dry_run else {}
        return [json.dumps({"dryRun": writer.dry_run, **listed, **outcome.as_json()}, indent=2)]
    return [_line(write) for write in writes]


def _line(write: Write) -> str:
    text = f"DRY RUN {write.kind} {write.name} {json.dumps(write.body, separators=(',', ':'))}"
    return text if write.error is None else f"{text} would fail: {write.error}"
