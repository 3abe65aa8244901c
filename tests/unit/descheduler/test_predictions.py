"""What an eviction is expected to leave on its node, as far as windows can show it by then, and how wrong it was."""

from typing import Any

import pytest

from descheduler.ledger import prediction_errors
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Query, Row
from descheduler.planning import departed_load
from descheduler.planning.departed_load import LOOK_BACKS
from policy.schema.load_policy import LoadPolicy
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW
from tests.unit.descheduler.test_ledger import record

HOUR_AVERAGE = {"name": "cpu_avg_1h", "resource": "cpu", "statistic": "avg", "window": "1h"}
POLICY = LoadPolicy.of({"metrics": [HOUR_AVERAGE]})


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        pytest.param("cpu_avg_5m", (0.6, 0.6), id="five minutes later a five-minute average has forgotten the pod"),
        pytest.param("cpu_avg_1h", (0.6 + 0.3 * 55 / 60, 0.75), id="an hour's average forgets it in an hour"),
        pytest.param("cpu_max_1h", (None, None), id="an hour's maximum shows nothing of it within half an hour"),
    ],
)
def test_the_expected_load_is_what_the_window_can_show(
    metric: str, expected: tuple[float | None, float | None]
) -> None:
    assert departed_load.expected(POLICY, metric, value_ratio=0.9, projected_ratio=0.6) == pytest.approx(expected)


def test_no_node_is_expected_under_nothing() -> None:
    found = departed_load.expected(POLICY, "cpu_avg_5m", value_ratio=0.1, projected_ratio=-0.05)
    assert found == (0.0, 0.0)


def test_every_eviction_of_a_plan_carries_its_prediction() -> None:
    scene = scenes.hot_and_cool()
    (chosen,) = scene.plan().evictions
    without_it = pytest.approx((0.9 - 4 / 32, 0.9 - 4 / 32))
    assert (chosen.expected_5m_ratio, chosen.expected_30m_ratio) == without_it


@pytest.fixture
def row(ledger: Ledger) -> Row:
    """An eviction of 4 of 32 GiB from the node hot, at 90 % of its memory (memory_avg_5m)."""
    record(ledger, "evicted")
    return ledger.rows(Query())[0]


def other(row: Row, **fields: Any) -> Row:
    """A second eviction of a pod of 2 GiB, decided later; from the same node unless said otherwise."""
    return row._replace(**{"id": row.id + 1, "memory_bytes": row.memory_bytes / 2, **fields})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"gone_at_seconds": NOW + 150}, -1 / 32, id="gone for half the window"),
        pytest.param({"gone_at_seconds": NOW}, -2 / 32, id="gone for the whole window"),
        pytest.param({"gone_at_seconds": NOW + 400}, 0, id="gone later"),
        pytest.param({"gone_at_seconds": None}, 0, id="not known to be gone"),
        pytest.param({"gone_at_seconds": NOW, "id": 0}, 0, id="decided before: the prediction has it already"),
        pytest.param({"gone_at_seconds": NOW, "result": "refused"}, 0, id="refused"),
        pytest.param({"gone_at_seconds": NOW, "node": "other"}, 0, id="from another node"),
    ],
)
def test_what_left_by_later_evictions_is_counted_out(row: Row, fields: dict[str, Any], expected: float) -> None:
    found = prediction_errors.moved_ratio(row, [row, other(row, **fields)], scenes.policy(), NOW + 300)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("landed_at_seconds", "expected"),
    [
        pytest.param(NOW + 150, 1 / 32, id="for half the window"),
        pytest.param(NOW - 150, 1 / 32, id="half of it was in the reading already"),
        pytest.param(NOW - 300, 0, id="all of it was"),
        pytest.param(NOW + 400, 0, id="later"),
        pytest.param(None, 0, id="not known when"),
    ],
)
def test_what_arrived_by_other_evictions_is_counted_out(
    row: Row, landed_at_seconds: float | None, expected: float
) -> None:
    arrived = other(row, node="other", landed_node="hot", landed_at_seconds=landed_at_seconds)
    assert prediction_errors.moved_ratio(row, [arrived], scenes.policy(), NOW + 300) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("metric", "column", "own", "others", "expected"),
    [
        pytest.param("cpu_avg_5m", "cpu_millicores", 500.0, 125.0, 1 / 32, id="of CPU where the line was one of CPU"),
        pytest.param("cpu_avg_5m", "cpu_millicores", 1.0, 1.0, 4 / 32, id="of the least that a pod uses"),
        pytest.param("memory_avg_5m", "memory_bytes", 0.0, 1e9, 0, id="not known by a pod that used nothing"),
    ],
)
def test_the_share_of_another_pod_is_scaled_from_the_rows_own(
    row: Row, metric: str, column: str, own: float, others: float, expected: float
) -> None:
    judged = other(row, id=row.id, metric=metric, **{column: own})
    later = other(judged, gone_at_seconds=NOW, **{column: others})
    found = prediction_errors.moved_ratio(judged, [later], scenes.policy(), NOW + 300)
    assert found == pytest.approx(-expected)


def test_the_moves_of_all_other_evictions_add_up(row: Row) -> None:
    left = other(row, gone_at_seconds=NOW)
    arrived = other(row, id=row.id + 2, node="other", landed_node="hot", landed_at_seconds=NOW)
    others = [
        left,
        arrived,
        left._replace(id=row.id + 3),
        arrived._replace(id=row.id + 4, memory_bytes=row.memory_bytes),
    ]
    moved_ratio = prediction_errors.moved_ratio(row, others, scenes.policy(), NOW + 300)
    assert moved_ratio == pytest.approx((-2 + 2 - 2 + 4) / 32)


def test_the_return_of_the_pod_itself_is_an_error_of_the_plan(row: Row) -> None:
    back = row._replace(landed_node="hot", landed_at_seconds=NOW + 1, returned=1)
    assert prediction_errors.moved_ratio(back, [back], scenes.policy(), NOW + 300) == 0


def test_the_error_is_measured_minus_expected_with_the_moves_counted_out(row: Row) -> None:
    judged = row._replace(expected_5m_ratio=0.72, moved_5m_ratio=-0.02, load_5m_ratio=0.71)
    assert prediction_errors.error_ratio(judged, "5m") == pytest.approx(0.01)


@pytest.mark.parametrize("missing", ["expected_5m_ratio", "moved_5m_ratio", "load_5m_ratio"])
def test_an_error_needs_all_its_figures(row: Row, missing: str) -> None:
    judged = row._replace(expected_5m_ratio=0.72, moved_5m_ratio=0.0, load_5m_ratio=0.71)
    nothing: dict[str, Any] = {missing: None}
    assert prediction_errors.error_ratio(judged._replace(**nothing), "5m") is None


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        pytest.param([0.8] * 6, True, id="at the line"),
        pytest.param([0.7, 0.7, 0.81, None, None, None], False, id="over it once, whatever is missing"),
        pytest.param([0.7, 0.7, None, 0.7, 0.7, 0.7], None, id="one is missing"),
    ],
)
def test_whether_the_node_stayed_under_its_line(row: Row, loads: list[float | None], expected: bool | None) -> None:
    columns: dict[str, Any] = dict(zip(LOOK_BACKS, loads, strict=True))
    assert prediction_errors.stayed_under_line(row._replace(**columns)) is expected
