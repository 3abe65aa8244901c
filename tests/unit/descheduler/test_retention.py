"""How long rows stay, and how long Enforce observes after a corrupt ledger was set aside."""

from typing import Any

import pytest

from descheduler.ledger import retention
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Query
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW
from tests.unit.descheduler.test_ledger import DAY, record

HOUR = 3600.0
SHORT: dict[str, dict[str, Any]] = {
    "cooldown": {"returned": {"window": "1m"}, "ineffective": {"max": "1m"}},
    "breaker": {"max": "1m"},
}


@pytest.mark.parametrize(
    ("days", "descheduler", "stays_seconds"),
    [
        pytest.param(retention.KEPT_DAYS, {}, 90 * DAY, id="90 days"),
        pytest.param(3, {}, 3 * DAY, id="as long as the option says"),
        pytest.param(1, {}, 2 * DAY, id="a day longer than returns count"),
        pytest.param(2, {"cooldown": {"workload": "72h"}}, 4 * DAY, id="a day longer than a cool-down"),
    ],
)
def test_a_row_stays_for_the_retention_and_for_what_the_policy_counts_by(
    ledger: Ledger, caplog: pytest.LogCaptureFixture, days: int, descheduler: dict[str, Any], stays_seconds: float
) -> None:
    caplog.set_level("INFO")
    policy, pruning = scenes.policy(**descheduler), retention.Pruning(ledger, days)
    record(ledger, "evicted", at_seconds=NOW - stays_seconds)
    pruning.prune(policy, now_seconds=NOW - HOUR)
    assert not caplog.records
    record(ledger, "evicted", at_seconds=NOW - stays_seconds - 1)
    pruning.prune(policy, now_seconds=NOW)
    assert [NOW - row.at_seconds for row in ledger.rows(Query())] == [stays_seconds]
    (line,) = (record.getMessage() for record in caplog.records)
    assert "'old evictions deleted from the ledger'" in line
    assert "'rows': 1" in line


@pytest.mark.parametrize(
    ("later_seconds", "pruned"),
    [
        pytest.param(0, False, id="in the same moment"),
        pytest.param(HOUR - 1, False, id="a second before the hour is over"),
        pytest.param(HOUR, True, id="after an hour"),
        pytest.param(-1, True, id="after the clock was set back"),
    ],
)
def test_rows_go_once_an_hour(ledger: Ledger, later_seconds: float, *, pruned: bool) -> None:
    policy, pruning = scenes.policy(), retention.Pruning(ledger)
    pruning.prune(policy, now_seconds=NOW)
    record(ledger, "evicted", at_seconds=NOW - 100 * DAY)
    pruning.prune(policy, now_seconds=NOW + later_seconds)
    assert [NOW - row.at_seconds for row in ledger.rows(Query())] == ([] if pruned else [100 * DAY])


@pytest.mark.parametrize(
    ("descheduler", "seconds"),
    [
        pytest.param({}, DAY, id="a day of returns"),
        pytest.param(SHORT, HOUR, id="at least the hour of the cap"),
        *(
            pytest.param({**SHORT, "cooldown": {**SHORT["cooldown"], **cooldown}}, 2 * HOUR, id=f"cooldown: {cooldown}")
            for cooldown in (
                {"workload": "2h"},
                {"node": "2h"},
                {"returned": {"window": "2h"}},
                {"ineffective": {"max": "2h"}},
            )
        ),
        pytest.param({**SHORT, "breaker": {"max": "2h"}}, 2 * HOUR, id="the longest back-off of the breaker"),
    ],
)
def test_a_run_looks_back_as_far_as_the_longest_it_counts_by(descheduler: dict[str, Any], seconds: float) -> None:
    assert retention.looks_back_seconds(scenes.policy(**descheduler)) == seconds


@pytest.mark.parametrize(
    ("cooldown", "until", "rest_seconds"),
    [
        pytest.param({}, "2026-11-21T05:00:00Z", HOUR, id="the hour of the cap"),
        pytest.param({"workload": "2h"}, "2026-11-21T06:00:00Z", 2 * HOUR, id="a workload's cool-down"),
        pytest.param({"node": "3h"}, "2026-11-21T07:00:00Z", 3 * HOUR, id="a node's"),
    ],
)
def test_enforce_observes_until_what_a_new_ledger_does_not_know_has_run_out(
    ledger: Ledger, cooldown: dict[str, str], until: str, rest_seconds: float
) -> None:
    policy = scenes.policy(cooldown=cooldown)
    assert retention.why_observe(ledger, policy, now_seconds=NOW) == ""
    ledger.set_aside("malformed", NOW)
    why = "the ledger was corrupt and was set aside, so earlier evictions are not known; Enforce goes on at " + until
    assert retention.why_observe(ledger, policy, now_seconds=NOW + rest_seconds - 1) == why
    assert retention.why_observe(ledger, policy, now_seconds=NOW + rest_seconds) == ""
