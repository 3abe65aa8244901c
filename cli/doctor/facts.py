"""Everything that the checks are judged by, read once: plain values, each as gathered or with the reason why not.

`gathering` and `measuring` fill it in, the judges read it. A fact that could not be gathered is the
Finding to give instead (`findings`), so a judge begins by returning that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cli import plan
from cli.common import http_client
from cli.doctor.findings import Finding
from kube.access import Access
from kube.http.client import Client
from kube.objects import DisruptionBudget, Lease, Node, NodeMetrics, Pod, PriorityClass
from policy.contract.heartbeat import Heartbeat
from policy.metrics import Metric
from policy.schema.load_policy import LoadPolicy
from promql.http.options import Connection
from promql.queries.identity import SeriesLabels
from promql.readings import NodeValues
from runtime import clock, options


@dataclass(frozen=True, slots=True)
class Settings:
    """The references of all checks: the policy with its source and hash (None: none was given), and the options;
    `source` is where the load of nodes comes from.
    """

    policy: LoadPolicy
    policy_source: str
    policy_hash: str | None
    namespace: str = "evenload-system"
    node_label: str = "instance"
    expendable_below: int = -10
    source: str = options.PROMETHEUS


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """The clients, clock and options that facts are gathered with.

    `connect` gives a Client of the cluster, `impersonate=` one that asks as the user named. `prometheus` is the address
    given or "", services none to look for them in the cluster.
    """

    kube: Client
    connect: Callable[..., Client]
    clock: clock.Clock
    prometheus: str
    connection: Connection
    labels: SeriesLabels
    extenders: Sequence[http_client.Service]
    deschedulers: Sequence[http_client.Service]


class MetricsServerFacts(NamedTuple):
    """The nodes of metrics.k8s.io, and clauses on what the services may not do that they need without Prometheus."""

    items: tuple[NodeMetrics, ...]
    denied: tuple[str, ...] | Finding = ()


class MetricFacts(NamedTuple):
    """One metric of the policy asked for: the values per node, or the error, which may be that the answer was partial;
    costs where the server tells them.

    Of a built-in metric without values, `known_ratio` is the share of the nodes that had series one window ago.
    """

    metric: Metric
    values: NodeValues | None
    error: str = ""
    seconds: float | None = None
    samples: int | None = None
    known_ratio: float | None = None
    partial: bool = False


class Target(NamedTuple):
    """A scrape target: the text of its label, whether its last scrape went well, and its job."""

    label: str
    up: bool
    job: str = ""


class Origin(NamedTuple):
    """Whose series one option selects, and all labels under which they come, each set of labels once, without those
    that tell containers, pods, jobs and replicas of one Prometheus apart.
    """

    whose: str
    option: str
    labels: tuple[Mapping[str, str], ...]


class PodSeries(NamedTuple):
    """Prometheus' series of pods: how many pods have containers with series, how many have dead ones among those, and
    the targets (by the node label) whose series have pods and no container.
    """

    pods: int
    dead: int = 0
    without_containers: tuple[str, ...] = ()


class ClockFacts(NamedTuple):
    """Whose clock, how far it is ahead of ours in seconds (behind: negative), and how exactly that is known."""

    whose: str
    ahead_seconds: float
    within_seconds: float = 0.0


class Trial(NamedTuple):
    """A dry run of what the guard must refuse, whether it did (None: not tried), and the answer or why not."""

    what: str
    refused: bool | None
    answer: str = ""


class GuardFacts(NamedTuple):
    """The shortcomings of the policies of deploy/guard, by policy name, the dry runs, whether annotations that opt out
    are ignored anywhere, and the variables with their CEL.
    """

    lacking: Mapping[str, str]
    trials: tuple[Trial, ...]
    ignores_opt_out: bool = False
    variables: Mapping[str, str] = {}


class Replica(NamedTuple):
    """An extender as it answered. `asked` counts kube-scheduler's requests since `since_seconds` at least (Unix);
    `watch_ages` are the seconds for which each of its watches has heard nothing; `shadow`: it is in shadow mode.
    """

    name: str
    policy_hash: str
    heartbeat_matches: bool
    view_digest: str | None
    requests: float
    since_seconds: float
    last_decision_seconds: float | None = None
    watch_ages: Mapping[str, float] = {}
    shadow: bool = False


class LoadFacts(NamedTuple):
    """The load of nodes at its source; each part, or the Finding that says why it is missing."""

    prometheus: Finding
    metrics: tuple[MetricFacts, ...] | Finding
    targets: tuple[Target, ...] | Finding
    scrape_seconds: tuple[float, ...] | Finding
    origins: tuple[Origin, ...] | Finding
    pod_series: PodSeries | Finding
    prometheus_clock: ClockFacts | Finding
    metrics_server: MetricsServerFacts | Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The snapshot. Times are Unix seconds; `now_seconds` is this machine's clock corrected by the apiserver's.

    `differing` are nodes whose annotation is not what the heartbeat vouches for; `relief` is the name of a descheduler
    and its plan of this moment; `undecodable` names the objects that could not be decoded, "" for none.
    """

    settings: Settings
    now_seconds: float
    nodes: tuple[Node, ...] | Finding
    pods: tuple[Pod, ...] | Finding
    budgets: tuple[DisruptionBudget, ...] | Finding
    priority_classes: tuple[PriorityClass, ...] | Finding
    heartbeat: Heartbeat | Finding
    differing: tuple[str, ...] | Finding
    annotator_lease: Lease | Finding
    own_rights: Mapping[Access, bool] | Finding
    account_rights: Mapping[str, Mapping[Access, bool]] | Finding
    guard: GuardFacts | Finding
    apiserver_clock: ClockFacts | Finding
    node_leases: Mapping[str, float] | Finding
    load: LoadFacts
    replicas: tuple[Replica | Finding, ...] | Finding
    relief: tuple[str, plan.Plan] | Finding
    undecodable: str = ""
