"""A question put to the simulator and its answers: which policies, on what, with which seeds, and what came of it.

`runs` makes the outcomes, `report` and `table` show them; `evenload simulate`, `demo` and `whatif` put one together.
"""

import dataclasses
from collections.abc import Mapping
from typing import Final

from policy.schema.load_policy import LoadPolicy
from simulator.results import comparison
from simulator.results.outcome import Outcome


@dataclasses.dataclass(frozen=True, slots=True)
class Variant:
    """One thing to try: a policy with the file it came from (`text`, and its hash as the services show it), or None for
    kube-scheduler alone.
    """

    name: str
    policy: LoadPolicy | None = None
    source: str = ""
    content_hash: str = ""
    text: str = ""


PLAIN: Final = Variant("plain")


@dataclasses.dataclass(frozen=True, slots=True)
class Study:
    """Variants on one scenario, or one drawn for each seed. `facts` repeat it: option -> value; `outcomes` has, by
    the variant's name, one for each seed in their order. The first variant is what the others are judged against.
    """

    title: str
    facts: Mapping[str, object]
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    outcomes: Mapping[str, tuple[Outcome, ...]]

    @property
    def comparison(self) -> comparison.Comparison:
        """Every figure of every variant side by side."""
        results = {
            variant.name: [outcome.figures for outcome in self.outcomes[variant.name]] for variant in self.variants
        }
        return comparison.of(results, self.seeds)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Returns the assumptions of all runs, each sentence once, in the order in which they came."""
        sentences = (
            sentence for outcomes in self.outcomes.values() for one in outcomes for sentence in one.assumptions
        )
        return tuple(dict.fromkeys(sentences))

    def findings(self) -> tuple[str, ...]:
        """Returns the findings that a reader must see: broken budgets, and more pods without a node than the first
        variant left.
        """
        return tuple(
            sentence
            for variant in self.variants
            for number, outcome in enumerate(self.outcomes[variant.name])
            for sentence in _findings(outcome, self.outcomes[self.variants[0].name][number])
        )


def _findings(outcome: Outcome, beside: Outcome) -> list[str]:
    where = f"{outcome.variant}, seed {outcome.seed}"
    findings = [f"{where}: PDB violated: {words}" for words in outcome.violations]
    left, others = len(outcome.unplaced), len(beside.unplaced)
    if left > others:
        findings.append(
            f"{where}: {left} pods never found a node, {others} in {beside.variant}: {_some(outcome.unplaced)}"
        )
    return findings


def _some(names: tuple[str, ...], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
