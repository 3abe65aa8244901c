"""Under what a scenario happens: the policy, the seed, which services run, and what is broken when.

`world.run` takes a `Setup`. The policy that the services get is the one under test with the changes that a run in
steps needs, and without lines of what is not played; each is a sentence among an outcome's assumptions (`notes`).
"""

import dataclasses
import math
from collections.abc import Callable, Container, Mapping
from typing import Final, NamedTuple

from policy.explain import wording
from policy.schema import load_policy, node_pools, units
from policy.schema.descheduler_section import Band
from policy.schema.load_policy import LoadPolicy
from runtime.clock import Clock
from simulator.apiserver import ApiServer
from simulator.controllers.owners import Owners
from simulator.prometheus import expressions
from simulator.results import study
from simulator.scenario import Scenario
from simulator.scheduling.extenders import ExtenderPort
from simulator.usage.node_usage import UsageBook

EXTENDER_WEIGHT: Final = 2  # as deploy/scheduler/extender-stanza.yaml has it
STALE_PERIODS: Final = 2.5  # the fewest after which what one sync held is good until the next, see collecting
START_SECONDS: Final = 3.0  # from binding to Ready: images are there, readiness is quick
GRACE_SECONDS: Final = 5.0  # what most containers take to end; the pod's own grace at most


class SimulatedServices(NamedTuple):
    """The services of a run, for a peer that stands in place of the extender, before the first step."""

    scenario: Scenario
    api: ApiServer
    book: UsageBook
    clock: Clock
    owners: Owners


@dataclasses.dataclass(frozen=True, slots=True)
class Setup:
    """One run. `policy` None is plain kube-scheduler: the annotator runs by the defaults, to measure only.

    `variant` names the run in its outcome. With `enforce` the descheduler evicts even if the policy's mode is Observe
    or DryRun: a simulation is asked what would happen. At most `explained` placements are explained in the outcome.
    `peer` makes an extender that kube-scheduler asks instead of Evenload's. `all_doors` lets everything go the whole
    way, through JSON, patches and watches, and the descheduler run when there is nothing to do: the outcome is the
    same, after three times as long.
    """

    policy: LoadPolicy | None
    seed: int = 0
    variant: str = ""
    policy_hash: str = "simulated"
    enforce: bool = True
    extender: bool = True
    descheduler: bool = True
    extender_weight: int = EXTENDER_WEIGHT
    explained: int = 24
    peer: Callable[[SimulatedServices], ExtenderPort] | None = None
    all_doors: bool = False

    @property
    def name(self) -> str:
        """How the outcome calls the run."""
        return self.variant or (study.PLAIN.name if self.policy is None else "evenload")


def in_force(setup: Setup, step_seconds: float) -> LoadPolicy:
    """The policy that the services get: periods no shorter than a step, an extender that enforces, and a descheduler
    that does where that is asked for.
    """
    policy = setup.policy or load_policy.defaults()
    sync, descheduler = policy.sync, policy.descheduler
    period_seconds = max(sync.period_seconds, step_seconds)
    stretched = sync.model_copy(
        update={
            "period_seconds": period_seconds,
            "stale_after_seconds": max(sync.stale_after_seconds, STALE_PERIODS * period_seconds),
        }
    )
    silent = expressions.unknown(policy)
    changes: dict[str, object] = {
        "interval_seconds": max(descheduler.interval_seconds, step_seconds),
        "thresholds": _answered(descheduler.thresholds, silent),
    }
    if setup.enforce:
        changes["mode"] = "Enforce"
    updated: dict[str, object] = {
        "sync": stretched,
        "descheduler": descheduler.model_copy(update=changes),
        "pools": tuple(_in_force_on(pool, setup, silent) for pool in policy.pools),
    }
    if policy.extender.mode != "Enforce":  # a run shows what the policy would do
        updated["extender"] = load_policy.Extender()
    return policy.model_copy(update=updated)


def _in_force_on(pool: node_pools.Pool, setup: Setup, silent: Container[str]) -> node_pools.Pool:
    """The pool without lines of metrics that have no readings, and with the policy's mode where that is enforced."""
    changes: dict[str, object] = {"thresholds": _answered(pool.descheduler.thresholds, silent)}
    if setup.enforce:
        changes["mode"] = None
    return pool.model_copy(update={"descheduler": pool.descheduler.model_copy(update=changes)})


def _answered(bands: Mapping[str, Band], silent: Container[str]) -> dict[str, Band]:
    """The lines of metrics that have readings: a line of another would hold every pod where it is."""
    return {name: band for name, band in bands.items() if name not in silent}


def notes(setup: Setup, step_seconds: float, span_seconds: float = math.inf) -> tuple[str, ...]:
    """Returns the changes that `in_force` made, and other notes for the reader of the outcome of a span."""
    policy, actual = setup.policy or load_policy.defaults(), in_force(setup, step_seconds)
    sentences = []
    if actual.sync != policy.sync:
        sentences.append(
            f"Time goes in steps of {units.duration_text(step_seconds)}: the annotator reads every "
            f"{units.duration_text(actual.sync.period_seconds)} and a reading is stale after "
            f"{units.duration_text(actual.sync.stale_after_seconds)}."
        )
    if setup.policy is not None and actual.descheduler.interval_seconds != policy.descheduler.interval_seconds:
        sentences.append(f"The descheduler runs every {units.duration_text(actual.descheduler.interval_seconds)}.")
    if setup.policy is not None:
        sentences += unanswered(setup.policy)
        thin = (one for one in policy.metrics_in_force if one.window_seconds > span_seconds)
        sentences += (f"Thin data in {one.name}: {wording.share(span_seconds, one.window_seconds)}." for one in thin)
    if setup.policy is not None and actual.descheduler.mode != policy.descheduler.mode:
        sentences.append(
            f"The policy's descheduler.mode is {policy.descheduler.mode}; the run is as if it were Enforce."
        )
    for before, after in zip(policy.pools, actual.pools, strict=True):
        if before.descheduler.mode not in (after.descheduler.mode, "Enforce"):
            mode = before.descheduler.mode
            sentences.append(
                f"The mode of the policy's pool {before.name} is {mode}; the run is as if it were Enforce."
            )
    if actual.extender.mode != policy.extender.mode:
        sentences.append(f"The policy's extender.mode is {policy.extender.mode}; the run is as if it were Enforce.")
    return tuple(sentences)


def unanswered(policy: LoadPolicy) -> tuple[str, ...]:
    """A sentence about the policy's metrics that have no readings in a simulation, if there are any."""
    names = ", ".join(expressions.unknown(policy))
    what = "is not known to the simulation (a statistic or a resource of the policy's own)"
    return (f"What the queries of {names} would give {what}: they have no readings and no lines.",) * bool(names)
