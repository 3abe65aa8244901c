"""Expected load of recent pods: the estimate, its decay, and its share of a node."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.state import compiled_policy
from policy import metrics
from policy.contract import owner_usage
from policy.rules import expected_load
from policy.rules.expected_load import Load
from policy.schema import load_policy

IN_FORCE = load_policy.defaults().metrics_in_force
GIB = float(2**30)


def expected(*pods: tuple[float, Load], node: Load, in_force: Sequence[metrics.Metric] = IN_FORCE) -> list[float]:
    """Expected load of pods, each with its age, on one node."""
    ages, loads = np.array([age for age, _ in pods]), np.array([load for _, load in pods]).reshape(len(pods), 2)
    rows = np.zeros(len(pods), np.intp)
    (ratios,) = expected_load.expected(rows, ages, loads, np.array([node]), in_force=in_force).tolist()
    return [float(ratio) for ratio in ratios]


def incoming(load: Load, nodes: list[list[float]], policy: load_policy.LoadPolicy) -> list[list[float]]:
    """The rise of each metric on nodes of these sizes, as the extender adds it for `incomingPod: true`."""
    sizes = np.array(nodes)
    per_allocatable = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    rises: list[list[float]] = compiled_policy.compiled(policy, "").incoming(load, per_allocatable).tolist()
    return rises


@pytest.mark.parametrize(
    ("request_", "load"),
    [
        pytest.param(Load(1000, GIB), Load(700, 0.7 * GIB), id="a share of what is requested"),
        pytest.param(Load(0, 0), Load(250, 200 * 2**20), id="the default where nothing is requested"),
        pytest.param(Load(1000, 0), Load(700, 200 * 2**20), id="each resource by itself"),
        pytest.param(Load(1, 1), Load(0.7, 0.7), id="also of the smallest request"),
    ],
)
def test_a_pod_is_expected_to_use_a_share_of_its_request(request_: Load, load: Load) -> None:
    assert expected_load.estimate(request_, load_policy.defaults().recent_pods).load == load


WORDS = "annotation"
FLOOR = "50% of the request, over an annotation of less"
MEAN = "owner's mean over 3 replicas"


@pytest.mark.parametrize(
    ("text", "cpu", "measured", "estimated", "by"),
    [
        pytest.param("cpu=2", 100, None, 2000, WORDS, id="more than the request"),
        pytest.param("cpu=60m", 100, None, 60, WORDS, id="less than the share of the request"),
        pytest.param("cpu=1m", 100, None, 50, FLOOR, id="never less than half of the request"),
        pytest.param("cpu=1m", 0, None, 1, WORDS, id="without a request in the place of the default"),
        pytest.param("cpu=1m", 100, 90, 90, MEAN, id="never less than what is measured"),
        pytest.param("cpu=2", 100, 90, 2000, WORDS, id="more than what is measured"),
        pytest.param("cpu=1m", 100, 10, 50, "50% of the request, over an owner's mean of less over 3 replicas", id="b"),
        pytest.param("memory=1Gi", 100, None, 70, "request ratio", id="each resource by itself"),
        pytest.param("cpu=8", 100, None, 8000, WORDS, id="as much as the largest node has"),
    ],
)
def test_a_pod_may_say_what_it_will_use(
    text: str, cpu: float, measured: float | None, estimated: float, by: str
) -> None:
    mean, size = owner_usage.Mean(measured, None, 3), Load(8000, 32 * GIB)
    recent_pods = load_policy.defaults().recent_pods
    found = expected_load.estimate(Load(cpu, GIB), recent_pods, mean, text, largest_node=lambda: size)
    assert (found.load.cpu_millicores, found.words(found.cpu_by), found.ignored) == (estimated, by, "")


@pytest.mark.parametrize(
    "text",
    [
        *("cpu", "cpu=", "cpu=x", "cpu=-1", "cpu=0", "cpu=1,cpu=2", "cpu=1,", "gpu=1", "cpu=1e9", "cpu=NaN", "{}", ","),
        *("cpu=1=2", "cpu=1;memory=1Gi", "memory=500m", " ", "cpu=9", "memory=33Gi", "cpu=1,memory=999Ti"),
        *("cpu=" + "9" * 20, "cpu=1" + " " * 59, "cpu=1," + "x" * 100_000, "cpu=\ud800"),
    ],
)
def test_an_unusable_estimate_of_a_pod_is_ignored_with_its_reason(text: str) -> None:
    recent_pods, size = load_policy.defaults().recent_pods, Load(8000, 32 * GIB)
    plain = expected_load.estimate(Load(100, GIB), recent_pods)
    found = expected_load.estimate(Load(100, GIB), recent_pods, None, text, largest_node=lambda: size)
    assert found._replace(ignored="") == plain
    reason = "amounts over 0 such as cpu=500m,memory=1Gi, of at most 63 characters, expected, got "
    assert found.ignored == "more than any node has" or found.ignored.startswith(reason)
    assert len(found.ignored) < 200


@pytest.mark.parametrize(
    ("age_seconds", "share"), [(0.0, 1.0), (75.0, 0.75), (150.0, 0.5), (300.0, 0.0), (1e9, 0.0), (-60.0, 1.0)]
)
def test_expected_load_fades_as_the_window_fills(age_seconds: float, share: float) -> None:
    ratios = expected((age_seconds, Load(2000, GIB)), node=Load(4000, 4 * GIB))
    assert ratios == [share / 2] * 3 + [share / 4] * 3


def test_the_contribution_is_a_share_of_what_the_node_offers() -> None:
    ratios = expected((150.0, Load(1000, 4 * GIB)), (0.0, Load(500, 0)), node=Load(8000, 32 * GIB))
    assert ratios == pytest.approx([(500 + 500) / 8000] * 3 + [2 / 32] * 3)


def test_a_node_without_recent_pods_expects_nothing() -> None:
    assert expected(node=Load(8000, 32 * GIB)) == [0.0] * 6


def test_a_node_that_offers_nothing_expects_nothing() -> None:
    assert expected((0.0, Load(1, 1)), node=Load(0, 0)) == [0.0] * 6


def test_each_metric_fades_by_the_averaging_window_behind_it() -> None:
    override = {"name": "cpu_avg_5m", "resource": "cpu", "statistic": "avg", "window": "20s"}
    in_force = load_policy.LoadPolicy.of({"metrics": [override]}).metrics_in_force
    ratios = expected((30.0, Load(1000, GIB)), node=Load(1000, GIB), in_force=in_force)
    assert ratios == pytest.approx([0.0, 0.0, 0.0, 0.9, 0.9, 0.9])


def test_the_incoming_pod_weighs_by_each_nodes_size() -> None:
    nodes: list[list[float]] = [[8000, 32 * GIB], [4000, 64 * GIB], [1, 1], [0, 0]]
    assert incoming(Load(1000, 4 * GIB), nodes, load_policy.defaults()) == [
        [0.125] * 3 + [0.125] * 3,
        [0.25] * 3 + [0.0625] * 3,
        [1000.0] * 3 + [4 * GIB] * 3,
        [0.0] * 6,
    ]


def test_no_pod_is_expected_to_use_a_resource_of_the_policys_own() -> None:
    extra = [("disk_avg_5m", "disk", "disk_busy"), ("cpu_avg_1h", "cpu", "cpu_busy")]
    entries = [
        {"name": name, "resource": resource, "statistic": "avg", "window": name[-2:], "query": query}
        for name, resource, query in extra
    ]
    policy = load_policy.LoadPolicy.of({"metrics": entries})
    pod, node = Load(1000, GIB), Load(4000, 2 * GIB)
    shares = [0.25] * 3 + [0.5] * 3 + [0.0, 0.25]
    assert expected((0.0, pod), node=node, in_force=policy.metrics_in_force) == shares
    assert incoming(pod, [list(node)], policy) == [shares]


@given(
    pods=st.lists(
        st.tuples(st.integers(0, 2), st.floats(-100, 1000), st.floats(0, 1e6), st.floats(0, 1e12)), max_size=10
    )
)
def test_all_nodes_at_once_give_what_each_node_gives_alone(pods: list[tuple[int, float, float, float]]) -> None:
    allocatable = np.array([[8000, 32 * GIB], [4000, 16 * GIB], [0, GIB]])
    node = np.array([pod[0] for pod in pods], dtype=np.intp)
    age = np.array([pod[1] for pod in pods], dtype=np.float64)
    load = np.array([pod[2:] for pod in pods], dtype=np.float64).reshape(len(pods), 2)
    together = expected_load.expected(node, age, load, allocatable, in_force=IN_FORCE)
    for row in range(3):
        mine = [(pod[1], Load(pod[2], pod[3])) for pod in pods if pod[0] == row]
        assert together[row].tolist() == pytest.approx(expected(*mine, node=Load(*allocatable[row].tolist())))
    assert np.isfinite(together).all()
    assert (together >= 0).all()
