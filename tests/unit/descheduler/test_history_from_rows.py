"""A history made of rows of the ledger: each of its fields, by rows that differ in one column."""

import pytest

from descheduler.ledger import history_from_rows
from descheduler.ledger.rows import Row
from descheduler.snapshot.eviction_history import EvictedPod, Failures, FlowHistory, History, PendingReplacement, PodUse
from tests.unit.descheduler.scenes import NOW

HOUR = 3600.0
DAY = 24 * HOUR
ROW = Row(
    id=1, run="run-1", at_seconds=NOW - 60, mode="Enforce", policy_hash="hash", namespace="default", pod="web-0",
    pod_uid="uid-web-0", owner_uid="uid-rs", workload="Deployment/web", workload_uid="uid-web", node="hot",
    metric="memory_avg_5m", value_ratio=0.9, threshold_ratio=0.8, target_ratio=0.7, before_ratio=0.9,
    projected_ratio=0.75, cpu_millicores=500.0, memory_bytes=4e9, destination="cool", result="evicted",
    intended_at_seconds=NOW - 60, http_status=201, message="", decided_at_seconds=NOW - 59, gone_at_seconds=NOW - 50,
    landed_pod="uid-web-9", landed_node="cool", landed_at_seconds=NOW - 49, ready_at_seconds=NOW - 40,
    load_5m_ratio=None, load_30m_ratio=None, returned=None,
)  # fmt: skip


def history(*rows: Row, resets: dict[str, float] | None = None) -> History:
    """Of rows that count everywhere, oldest first; pods that came back count for six hours."""
    return history_from_rows.history(rows, rows, resets or {}, now_seconds=NOW, window_seconds=6 * HOUR)


def aged(age_seconds: float, **columns: object) -> Row:
    """The row of an eviction that was intended so long ago."""
    return ROW._replace(intended_at_seconds=NOW - age_seconds, **columns)  # type: ignore[arg-type]


def test_the_last_hour_is_counted_in_all_by_node_and_by_metric() -> None:
    found = history(
        aged(HOUR),
        aged(HOUR - 1, node="other"),
        aged(30, metric="cpu_avg_5m"),
        aged(20),
        aged(10, result="refused"),
        aged(9, result="observed"),
        *(aged(8, result=result) for result in ("failed", "gone", "replaced", "not_done")),
    )
    assert found.in_last_hour == 4
    assert found.last_hour_by_node == {"other": 1, "hot": 3}


def test_the_last_time_of_a_node_and_of_a_workload_is_that_of_the_newest_row() -> None:
    found = history(aged(300), aged(200, node="other"), aged(100, workload_uid="uid-api"))
    assert found.last_by_node == {"hot": NOW - 100, "other": NOW - 200}
    assert found.last_by_workload == {"uid-web": NOW - 200, "uid-api": NOW - 100}


def test_pods_that_came_back_count_in_their_window() -> None:
    rows = (aged(6 * HOUR, returned=1), aged(6 * HOUR - 1, returned=1), aged(50, returned=0), aged(40, returned=1))
    assert history(*rows).returned == {"uid-web": 2}
    assert history(aged(50, returned=1, result="dry_run")).returned == {}


@pytest.mark.parametrize(
    ("result", "ready", "in_flight", "undecided"),
    [
        ("evicted", None, True, False),
        ("evicted", NOW - 1, False, False),
        ("evicted_unconfirmed", None, True, False),
        ("intended", None, True, True),
        ("unknown", None, True, True),
        ("in_progress", None, True, True),
        ("dry_run", None, False, False),
        ("refused", None, False, False),
    ],
)
def test_a_workload_is_in_flight_until_a_replacement_is_ready(
    result: str, ready: float | None, *, in_flight: bool, undecided: bool
) -> None:
    found = history(aged(60, result=result, ready_at_seconds=ready))
    assert found.in_flight == (frozenset({"uid-web"}) if in_flight else frozenset())
    assert found.undecided == (frozenset({"uid-web"}) if undecided else frozenset())


def test_replacements_are_awaited_for_a_day_where_there_is_a_workload() -> None:
    rows = (
        aged(DAY, ready_at_seconds=None),
        aged(DAY - 1, ready_at_seconds=None),
        aged(30, ready_at_seconds=None, workload=""),
        aged(20),
        aged(10, result="unknown", ready_at_seconds=None, landed_pod=None),
    )
    landed = PendingReplacement("default", "Deployment/web", "uid-web", NOW - DAY + 1)
    used = PodUse(500.0, 4e9, "memory_avg_5m", ROW.before_ratio - ROW.projected_ratio)
    assert history(*rows).awaited == (landed, landed._replace(at_seconds=NOW - 10, destination="cool", used=used))


def test_what_a_pod_used_is_known_by_the_replacement_that_landed() -> None:
    found = history(aged(60), aged(50, landed_pod=None))
    (landed,) = found.landed.items()
    assert landed[0] == "uid-web-9"
    assert landed[1][:3] == (500.0, 4e9, "memory_avg_5m")
    assert landed[1].share_ratio == pytest.approx(0.15)


def test_evictions_of_the_last_day_are_looked_back_at() -> None:
    found = history(aged(DAY), aged(DAY - 1, load_5m_ratio=0.8)).relieved
    assert [(one.run, one.before_ratio, one.gone_at_seconds) for one in found["hot"]] == [("run-1", 0.9, NOW - 50)]
    assert found["hot"][0].share_ratio == pytest.approx(0.15)
    assert found["hot"][0].looks == ((ROW.at_seconds + 300, 0.8), (ROW.at_seconds + 1800, None))


@pytest.mark.parametrize(("row", "gone_at_seconds"), [(aged(60), NOW - 50), (aged(60, gone_at_seconds=None), NOW - 60)])
def test_a_pod_has_gone_when_it_was_seen_to_go_or_was_asked_for(row: Row, gone_at_seconds: float) -> None:
    (departed,) = history(row).departed
    used = PodUse(500.0, 4e9, "memory_avg_5m", row.before_ratio - row.projected_ratio)
    assert departed == EvictedPod("hot", "uid-web-0", gone_at_seconds, used)


def test_failures_count_since_the_last_eviction_and_since_a_reset() -> None:
    results = {90: "failed", 80: "evicted", 70: "failed", 65: "gone", 60: "refused"}
    rows = [aged(age_seconds, result=result) for age_seconds, result in results.items()]
    assert history(*rows).failures == {"uid-web": Failures(2, NOW - 60)}
    assert history(*rows, resets={"uid-web": NOW - 70}).failures == {"uid-web": Failures(1, NOW - 60)}
    assert history(*rows, resets={"": NOW - 60}).failures == {}
    assert history(*rows, resets={"uid-api": NOW}).failures == {"uid-web": Failures(2, NOW - 60)}
    assert history(*rows, aged(50, result="dry_run")).failures == {}


def test_evictions_in_vain_count_by_pod_since_a_reset() -> None:
    rows = (
        aged(90, result="gone"),
        aged(80, result="replaced"),
        aged(70, result="failed", pod_uid="uid-web-1"),
        aged(65, result="refused", pod_uid="uid-web-1"),
        aged(60),
    )
    assert history(*rows).in_vain == {"uid-web-0": Failures(2, NOW - 80), "uid-web-1": Failures(2, NOW - 65)}
    assert history(*rows, resets={"uid-web": NOW - 80}).in_vain == {"uid-web-1": Failures(2, NOW - 65)}


def test_a_flow_rule_knows_when_it_admitted_and_who_waits_for_a_replacement() -> None:
    rows = (aged(90, flow="rule"), aged(80, flow="rule", ready_at_seconds=None, workload_uid="uid-api"), aged(70))
    assert history(*rows).flow == {"rule": FlowHistory((NOW - 90, NOW - 80), frozenset({"uid-api"}))}
