import threading

import pytest

from runtime import health
from tests import clocks

GOOD = health.Check("cache", lambda: None)
BAD = health.Check("policy", lambda: "policy.yaml:3: unknown key")


@pytest.mark.parametrize(
    ("checks", "verbose", "exclude", "status", "body"),
    [
        ([GOOD], False, [], 200, "ok\n"),
        ([], True, [], 200, "check passed\n"),
        ([GOOD], True, [], 200, "[+]cache ok\ncheck passed\n"),
        ([GOOD, BAD], False, [], 503, "[+]cache ok\n[-]policy failed: policy.yaml:3: unknown key\ncheck failed\n"),
        ([GOOD, BAD], True, ["policy"], 200, "[+]cache ok\n[+]policy excluded: ok\ncheck passed\n"),
    ],
    ids=["brief when well", "no checks", "verbose", "a failure is always listed", "an excluded check cannot fail"],
)
def test_checks_render_as_kubernetes_does(
    checks: list[health.Check], verbose: bool, exclude: list[str], status: int, body: str
) -> None:
    assert health.render(checks, verbose=verbose, exclude=exclude) == (status, body)


def test_a_detail_stands_beside_an_ok() -> None:
    check = health.Check("policy", lambda: None, lambda: "9c1e; newer file refused")
    assert health.render([check], verbose=True)[1].startswith("[+]policy ok: 9c1e; newer file refused\n")


def test_a_detail_is_not_made_for_a_brief_answer() -> None:
    made: list[str] = []

    def digest() -> str:
        made.append("digest")
        return "digest"

    check = health.Check("view", lambda: None, digest)
    assert health.render([check], verbose=False) == (200, "ok\n")
    assert health.render([check, BAD], verbose=False)[1].startswith("[+]view ok\n")
    assert made == [], "whoever waits for readiness asks often"
    health.render([check], verbose=True)
    assert made == ["digest"]


def test_a_loop_that_has_not_begun_is_not_late() -> None:
    assert health.Heartbeat().age_seconds(1e9) == 0.0


def test_a_heartbeat_fails_its_check_only_when_older_than_the_limit() -> None:
    clock, heartbeat = clocks.ManualClock(), health.Heartbeat()
    check = heartbeat.check("loop", clock, limit_seconds=lambda: 30)
    heartbeat.beat(clock.monotonic())
    clock.advance(30)
    assert check.probe() is None
    clock.advance(1)
    assert check.probe() == "no cycle finished for 31 s (limit 30 s)"


def test_setting_the_machines_clock_does_not_age_a_heartbeat() -> None:
    clock, heartbeat = clocks.ManualClock(), health.Heartbeat()
    heartbeat.beat(clock.monotonic())
    clock.jump(86400)
    assert heartbeat.check("loop", clock, limit_seconds=lambda: 30).probe() is None


def test_an_event_check_waits_for_its_event() -> None:
    synced = threading.Event()
    check = health.event_check("nodes", synced, "nodes not listed yet")
    assert check.probe() == "nodes not listed yet"
    synced.set()
    assert check.probe() is None
