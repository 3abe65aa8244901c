"""The answers for people as JSON: GET /nodes, POST /explain and GET /decisions, in the order of their keys.

`verbs.explain` makes them, commands read them. A number that does not exist is None.
"""

import msgspec

from policy.contract import decision_page


class Rule(msgspec.Struct, frozen=True):
    """A filter rule as it stands for one node: its limit, what was compared with it, how old that is, the outcome.

    `value` is the `reading` and the `expected` load together, `own` marks a threshold of the node's own, `pool` one of
    its pool, `pod_class` one of the pod's class.
    """

    metric: str
    limit: float
    own: bool = False
    pool: bool = False
    pod_class: bool = False
    value: float | None = None
    reading: float | None = None
    expected: float | None = None
    age_seconds: float | None = None
    broken: bool = False


class Packing(msgspec.Struct, frozen=True):
    """The target that a node is filled up to, the load that its terms make, and the base of both."""

    target_ratio: float
    load_ratio: float
    base: float


class NodeRow(msgspec.Struct, frozen=True):
    """One node; what depends on the other nodes is None in a decision of the filter, which ranks none.

    `conditions` are those that keep kube-scheduler from placing pods there: NotReady, pressures, SchedulingDisabled.
    """

    name: str
    pool: str | None = None
    usable: bool = False
    state: str = ""
    reason: str | None = None
    age_seconds: float | None = None
    values: dict[str, float] = {}
    unusable: dict[str, str] = {}
    hot: dict[str, int] = {}
    relief_until: str | None = None
    thresholds_ignored: str | None = None
    conditions: tuple[str, ...] = ()
    expected: dict[str, float | None] = {}
    incoming: dict[str, float | None] = {}
    predicted: dict[str, float | None] = {}
    terms: dict[str, float | None] = {}
    packing: Packing | None = None
    own_base: float | None = None
    penalty: float = 0.0
    allowed: bool = True
    rejected: str | None = None
    rules: list[Rule] = []
    rules_off: list[str] = []
    pool_rules_off: list[str] = []
    base: float | None = None
    median_base: bool | None = None
    capped_base: bool | None = None
    raw_score: float | None = None
    score: int | None = None


class Heartbeat(msgspec.Struct, frozen=True):
    """The annotator's last heartbeat, as far as commands read it; `matches`: it vouches for the readings here."""

    age_seconds: float | None = None
    matches: bool = False
    problem: str | None = None


class View(msgspec.Struct, frozen=True):
    """The digest of everything that answers are made from: replicas with the same one see the same."""

    view: str | None = None


class Nodes(msgspec.Struct, frozen=True):
    """GET /nodes, as far as commands read it."""

    policy: str
    nodes: tuple[NodeRow, ...]
    at: str = ""
    heartbeat: Heartbeat = Heartbeat()
    view: View = View()


class Estimate(msgspec.Struct, frozen=True):
    """The load expected of the pod, by what each resource was estimated, and why its annotation is ignored."""

    cpu_millicores: float
    cpu_by: str
    memory_bytes: float
    memory_by: str
    ignored: str | None = None


class Explanation(msgspec.Struct, frozen=True):
    """POST /explain."""

    pod: dict[str, str]
    policy: str
    at: str
    shadow: bool = False
    pod_class: str | None = None
    exempt: str | None = None
    estimate: Estimate | None = None
    means: list[list[str]] = []
    degraded: tuple[str, ...] = ()
    nodes: list[NodeRow] = []


class RankedNode(msgspec.Struct, frozen=True):
    """A node with its score and the numbers it was rounded from."""

    node: str
    score: int
    base: float
    penalty: float


class DecisionFields(decision_page.DecisionKey, frozen=True):
    """One answer: for which pod, over how many nodes, who was best, why others were rejected, and under which policy.

    `exempt` is why the filter did not judge the pod by load, if so. `degraded` lists the causes that made it less than
    whole: a missing or stale reading, nodes unknown here, all rejected. `shadow`: the answer was that every node passes
    and scores the same. `pod_class` is the class of pods (policy, `podClasses`) that it was judged as.
    """

    candidates: int
    passed: int
    policy_hash: str
    exempt: str | None = None
    rejected: dict[str, int] = msgspec.field(default_factory=dict)
    degraded: tuple[str, ...] = ()
    best: tuple[RankedNode, ...] = ()
    assumed: str = ""
    shadow: bool = False
    pod_class: str | None = None


class PastDecision(DecisionFields, frozen=True):
    """One element of GET /decisions; the last four only in the newest of each verb, where nodes are asked for.

    `ties` is how many nodes share the best score. `bound_to` is the node on which the pod is now: "" for none yet, None
    where it has ended or is gone; `bound_to_best` is whether that node is one of them, None without scores. The
    descheduler, which stores it without nodes, adds the address of the `replica`.
    """

    at: str = ""
    ties: int = 0
    bound_to: str | msgspec.UnsetType | None = msgspec.UNSET
    bound_to_best: bool | None = None
    replica: str | msgspec.UnsetType = msgspec.UNSET
    nodes: list[NodeRow] | msgspec.UnsetType = msgspec.UNSET
    omitted: int | msgspec.UnsetType = msgspec.UNSET
    estimate: Estimate | msgspec.UnsetType = msgspec.UNSET
    means: list[list[str]] | msgspec.UnsetType = msgspec.UNSET

    @property
    def matters(self) -> bool:
        """Whether it rejected a node, lacked data, or was not followed: its pod, which the watch has, is on a node
        without the best score.
        """
        return self.bound_to is not None and (bool(self.rejected or self.degraded) or self.bound_to_best is False)
