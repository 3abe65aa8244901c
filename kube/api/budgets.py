"""PodDisruptionBudget: what protects the pods of a service from leaving all at once.

Decoded by `kube.http.client`; the descheduler reserves `disruptions_allowed` in its plan. Read through `kube.objects`.
"""

import msgspec

from kube.api import salvage
from kube.api.metadata import Moment, Object, seconds
from kube.api.selectors import LabelSelector

IntOrPercent = int | str


class BudgetSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """spec of a PodDisruptionBudget; the policy is "", IfHealthyBudget or AlwaysAllow: whether pods that are not Ready
    may go regardless.
    """

    selector: LabelSelector | None = None
    min_available: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None
    unhealthy_pod_eviction_policy: str = ""


class BudgetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """status of a PodDisruptionBudget."""

    disruptions_allowed: int = 0
    expected_pods: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    observed_generation: int = 0
    disrupted_pods: dict[str, Moment] | None = None


class DisruptionBudget(Object, frozen=True, kw_only=True):
    """A PodDisruptionBudget.

    A selector of None selects nothing, an empty one every pod of the namespace (policy/v1). `undecodable` is why it
    could not be decoded whole: which pods it protects is not certain.
    """

    counts_in_part = True
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()
    undecodable: str = msgspec.field(name=salvage.MARK, default="")

    @property
    def is_current(self) -> bool:
        """Whether the status speaks of the budget as it is; while it does not, the apiserver refuses evictions."""
        return self.status.observed_generation >= self.metadata.generation

    @property
    def disrupted_pods(self) -> dict[str, float]:
        """Names of pods whose eviction was accepted and not yet seen by the controller, with Unix seconds."""
        return {name: seconds(moment) or 0.0 for name, moment in (self.status.disrupted_pods or {}).items()}
