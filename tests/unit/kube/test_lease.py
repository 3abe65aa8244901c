"""Candidates on one Lease in memory, each with a clock of its own that the test moves."""

import logging
import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from kube import errors, kinds, lease, objects
from tests import builders, clocks
from tests.e2e import waiting

NAME, NAMESPACE = "evenload-test", "evenload-system"


class LeaseDoor:
    """One Lease with the apiserver's optimistic concurrency; `broken` verbs fail, `before_write` intervenes."""

    def __init__(self) -> None:
        self.body: dict[str, Any] | None = None
        self.version = 0
        self.broken: set[str] = set()
        self.before_write: Callable[[], None] | None = None
        self.before_create: Callable[[], None] | None = None

    def get(self, kind: kinds.Kind[Any], name: str, *, namespace: str = "") -> objects.Lease:
        self._check("get")
        assert (kind, name, namespace) == (kinds.LEASES, NAME, NAMESPACE)
        if self.body is None:
            raise errors.NotFound("get", status=404, reason="NotFound", message="")
        metadata = {**self.body["metadata"], "resourceVersion": str(self.version)}
        return builders.read({**self.body, "metadata": metadata}, objects.Lease)

    def create(self, kind: kinds.Kind[Any], body: Mapping[str, object], *, namespace: str = "") -> None:
        self._check("create")
        if self.before_create is not None:
            intervene, self.before_create = self.before_create, None
            intervene()
        if self.body is not None:
            raise errors.Conflict("create", status=409, reason="AlreadyExists", message="")
        self._write(body)

    def replace(self, kind: kinds.Kind[Any], name: str, body: Mapping[str, Any], *, namespace: str = "") -> None:
        self._check("replace")
        if self.before_write is not None:
            intervene, self.before_write = self.before_write, None
            intervene()
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise errors.Conflict("replace", status=409, reason="Conflict", message="")
        self._write(body)

    def _check(self, verb: str) -> None:
        if verb in self.broken:
            raise errors.Unreachable(f"{verb}: no answer")

    def _write(self, body: Mapping[str, object]) -> None:
        self.body, self.version = dict(body), self.version + 1

    def remove(self) -> None:
        """Deletes the Lease, as an administrator may."""
        self.body = None

    def spoil(self, field: str, value: object) -> None:
        assert self.body is not None
        self._write({**self.body, "spec": {**self.spec, field: value}})

    @property
    def spec(self) -> dict[str, Any]:
        assert self.body is not None
        found: dict[str, Any] = self.body["spec"]
        return found


class Candidate:
    """An Election with its own clock."""

    def __init__(self, door: LeaseDoor, identity: str, **options: Any) -> None:
        self.clock = clocks.ManualClock()
        self.election = lease.Election(
            door,  # type: ignore[arg-type]
            namespace=NAMESPACE,
            name=NAME,
            identity=identity,
            rng=random.Random(1),
            **{"clock": self.clock, **options},
        )

    def attempt(self) -> bool:
        self.election.attempt()
        return self.election.is_leader()

    def waits(self, seconds: float) -> None:
        """Gets the Lease after this time, and not before."""
        self.clock.advance(seconds - 0.1)
        assert not self.attempt()
        self.clock.advance(0.2)
        assert self.attempt()


def logged(caplog: pytest.LogCaptureFixture, identity: str) -> list[str]:
    """When a candidate said that it leads, and that it does no longer."""
    lines = [line for line in caplog.messages if f"'identity': '{identity}'" in line]
    return ["stopped" if "no longer leading" in line else "started" for line in lines if "leading" in line]


@pytest.fixture
def door(caplog: pytest.LogCaptureFixture) -> LeaseDoor:
    caplog.set_level(logging.INFO)
    return LeaseDoor()


def leading(door: LeaseDoor) -> Candidate:
    """The first candidate, which has the Lease."""
    one = Candidate(door, "one")
    assert one.attempt()
    return one


def test_the_first_creates_the_lease_and_leads(door: LeaseDoor, caplog: pytest.LogCaptureFixture) -> None:
    one = Candidate(door, "one")
    assert not one.election.is_leader()
    assert one.attempt()
    assert logged(caplog, "one") == ["started"]
    assert door.spec == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-21T04:00:00.000000Z",
        "renewTime": "2026-11-21T04:00:00.000000Z",
        "leaseTransitions": 0,
    }


def test_a_renewal_keeps_the_time_of_acquisition(door: LeaseDoor, caplog: pytest.LogCaptureFixture) -> None:
    one = leading(door)
    one.clock.advance(8)
    assert one.attempt()
    assert door.spec["acquireTime"][:19] == "2026-11-21T04:00:00"
    assert door.spec["renewTime"][:19] == "2026-11-21T04:00:08"
    assert logged(caplog, "one") == ["started"]


def test_a_follower_waits_the_whole_duration_by_its_own_clock(door: LeaseDoor) -> None:
    _, two = leading(door), Candidate(door, "two")
    two.clock.jump(86400)
    assert not two.attempt()
    assert two.election.holder == "one"
    two.waits(15)
    assert (door.spec["holderIdentity"], door.spec["leaseTransitions"]) == ("two", 1)


def test_who_takes_over_knows_until_when_there_was_a_leader(door: LeaseDoor) -> None:
    one, two = leading(door), Candidate(door, "two")
    assert one.election.led_until_seconds is None, "nobody led before"
    one.clock.advance(2)
    one.attempt()
    assert one.election.led_until_seconds is None, "a renewal is no take-over"
    last_renewal = one.clock.now()
    two.attempt()
    two.clock.advance(16)
    assert two.attempt()
    assert two.election.led_until_seconds == last_renewal
    again = Candidate(door, "two")
    assert again.attempt()
    assert again.election.led_until_seconds == two.clock.now(), "an earlier life of its own"


def test_a_leader_stops_calling_itself_one_before_others_may_take_over(
    door: LeaseDoor, caplog: pytest.LogCaptureFixture
) -> None:
    one = leading(door)
    door.broken.update({"get", "replace"})
    one.clock.advance(9.9)
    assert one.attempt()
    one.clock.advance(0.2)
    assert not one.election.is_leader()
    one.attempt()
    assert logged(caplog, "one") == ["started", "stopped"]


def test_setting_the_machines_clock_back_does_not_prolong_a_lease(door: LeaseDoor) -> None:
    one = leading(door)
    one.clock.jump(-3600)
    one.clock.advance(11)
    assert not one.election.is_leader()


@pytest.mark.parametrize("time", [*builders.IMPOSSIBLE_TIMES, "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z"])
@pytest.mark.parametrize("field", ["renewTime", "acquireTime"])
def test_a_holder_renews_through_an_impossible_time(door: LeaseDoor, field: str, time: str) -> None:
    """Whoever may write the Lease can store such a time."""
    one, two = leading(door), Candidate(door, "two")
    door.spoil(field, time)
    assert not two.attempt()
    one.clock.advance(8)
    assert one.attempt()
    assert (door.spec["renewTime"][:19], door.spec["leaseTransitions"]) == ("2026-11-21T04:00:08", 0)


def test_a_lease_whose_holder_cannot_be_read_is_held(door: LeaseDoor) -> None:
    _, two = leading(door), Candidate(door, "two")
    door.spoil("holderIdentity", 7)
    assert not two.attempt()
    two.clock.advance(15.1)
    assert two.attempt()


def test_of_two_who_take_a_free_lease_at_once_one_gets_a_conflict(door: LeaseDoor) -> None:
    one, two = leading(door), Candidate(door, "two")
    stop = threading.Event()
    stop.set()
    one.election.run(stop)
    door.before_write = lambda: two.election.attempt()
    assert not one.attempt()
    assert two.election.is_leader()


def test_a_deleted_lease_is_created_again_at_once_by_its_holder_alone(
    door: LeaseDoor, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = leading(door), Candidate(door, "two")
    two.attempt()
    door.remove()
    assert not two.attempt(), "the holder leads until it looks at the Lease again"
    assert door.body is None
    assert one.attempt()
    assert not two.attempt()
    assert door.spec["holderIdentity"] == "one"
    assert logged(caplog, "one") == ["started"]


def test_a_deleted_lease_whose_holder_is_gone_is_created_after_its_whole_duration(door: LeaseDoor) -> None:
    _, two = leading(door), Candidate(door, "two")
    two.attempt()
    door.remove()
    two.clock.advance(60)
    assert not two.attempt(), "it counts from when the Lease is first seen to be gone"
    two.clock.advance(14.9)
    assert not two.attempt()
    two.clock.advance(0.2)
    assert not two.attempt(), "a Lease that is created again gives leadership with its first renewal"
    assert door.spec["holderIdentity"] == "two"
    assert two.attempt()


def test_creating_a_deleted_lease_again_does_not_prolong_a_leadership(door: LeaseDoor) -> None:
    one = leading(door)
    one.clock.advance(9)
    door.remove()
    assert one.attempt()
    one.clock.advance(1.1)
    assert not one.election.is_leader(), "others count from when they saw the Lease to be gone"
    assert one.attempt(), "the renewal that follows does"


def test_a_lease_that_another_created_at_the_same_moment_is_waited_for_when_it_is_deleted(door: LeaseDoor) -> None:
    one, two = Candidate(door, "one"), Candidate(door, "two")
    door.before_create = lambda: two.election.attempt()
    assert not one.attempt()
    assert two.election.is_leader()
    door.remove()
    assert not one.attempt()


def test_a_new_look_at_the_lease_tells_what_the_last_renewal_does_not_know(door: LeaseDoor) -> None:
    one = leading(door)
    assert one.election.holds()
    door.spoil("holderIdentity", "another")
    assert (one.election.is_leader(), one.election.holds()) == (True, False)
    door.remove()
    assert not one.election.holds()
    door.broken.add("get")
    assert not one.election.holds()


def test_a_lease_that_is_ours_and_has_run_out_is_not_held(door: LeaseDoor) -> None:
    one = leading(door)
    one.clock.advance(10.1)
    assert not one.election.holds()


def test_a_lease_taken_by_another_ends_leadership_at_once(door: LeaseDoor, caplog: pytest.LogCaptureFixture) -> None:
    one, two = leading(door), Candidate(door, "two")
    two.attempt()
    two.clock.advance(16)
    two.attempt()
    assert not one.attempt()
    assert logged(caplog, "one") == ["started", "stopped"]


def test_a_stop_releases_so_that_the_next_need_not_wait(door: LeaseDoor, caplog: pytest.LogCaptureFixture) -> None:
    one, two = Candidate(door, "one"), Candidate(door, "two")
    stop = threading.Event()
    one.clock.on_wait = lambda _seconds: stop.set() if len(one.clock.waits) == 3 else None
    one.election.run(stop)
    assert all(2.0 <= pause <= 2.4 for pause in one.clock.waits)
    assert (door.spec["holderIdentity"], one.election.is_leader()) == ("", False)
    assert logged(caplog, "one") == ["started", "stopped"]
    assert two.attempt()


def test_a_follower_that_stops_leaves_the_lease_alone(door: LeaseDoor) -> None:
    _, two = leading(door), Candidate(door, "two")
    stop = threading.Event()
    two.clock.on_wait = lambda _seconds: stop.set()
    two.election.run(stop)
    assert door.spec["holderIdentity"] == "one"


def test_a_release_that_fails_does_not_fail_the_stop(door: LeaseDoor) -> None:
    one = leading(door)
    door.broken.update({"get", "replace"})
    stop = threading.Event()
    stop.set()
    one.election.run(stop)
    assert not one.election.is_leader()


def test_the_lease_is_given_back_only_when_the_work_has_ended(door: LeaseDoor) -> None:
    one, leads = Candidate(door, "one"), threading.Event()
    one.clock.on_wait = lambda _seconds: leads.set()
    with lease.campaigning(one.election):
        assert leads.wait(waiting.LIMIT_SECONDS)
        assert door.spec["holderIdentity"] == "one"
    assert (door.spec["holderIdentity"], one.election.is_leader()) == ("", False)


def test_an_apiserver_that_does_not_answer_does_not_hold_the_end_up(
    door: LeaseDoor, caplog: pytest.LogCaptureFixture
) -> None:
    one, asked, answers = Candidate(door, "one"), threading.Event(), threading.Event()

    def never() -> None:
        asked.set()
        answers.wait()

    one.attempt()
    door.before_write = never
    with lease.campaigning(one.election, patience_seconds=0.0):
        assert asked.wait(waiting.LIMIT_SECONDS)
    assert "lease not given back in time" in caplog.text
    answers.set()
    waiting.eventually(lambda: not door.spec["holderIdentity"], waiting.LIMIT_SECONDS, "the Lease after all")


def test_the_times_allow_no_two_leaders() -> None:
    longest_retry_seconds = lease.RETRY_SECONDS * (1 + lease.RETRY_JITTER_RATIO)
    assert lease.LEASE_SECONDS > lease.RENEW_SECONDS > longest_retry_seconds > 0


STEPS = strategies.lists(
    strategies.tuples(
        strategies.integers(0, 2),  # who tries
        strategies.floats(0, 20),  # after how long
        strategies.sampled_from([frozenset(), frozenset({"get"}), frozenset({"replace"}), frozenset({"create"})]),
    ),
    max_size=60,
)


Steps = list[tuple[int, float, frozenset[str]]]


def assert_one_leader(door: LeaseDoor, candidates: list[Candidate], steps: Steps) -> None:
    for who, seconds, broken in steps:
        for candidate in candidates:
            candidate.clock.advance(seconds)
        door.broken = set(broken)
        candidates[who].election.attempt()
        assert sum(candidate.election.is_leader() for candidate in candidates) <= 1


@hypothesis.given(steps=STEPS)
def test_there_are_never_two_leaders_whoever_tries_when_and_whatever_fails(steps: Steps) -> None:
    door = LeaseDoor()
    assert_one_leader(door, [Candidate(door, f"candidate-{number}") for number in range(3)], steps)


@pytest.mark.parametrize("seed", range(8))
def test_a_lease_that_is_deleted_again_and_again_has_one_leader_at_a_time(seed: int) -> None:
    """Two candidates as `run` has them, and 60 deletions at any moments of 240 s."""
    door, rng = LeaseDoor(), random.Random(seed)
    one, two = candidates = Candidate(door, "one"), Candidate(door, "two")
    for candidate in candidates:
        candidate.attempt()
    looks = dict.fromkeys(candidates, 0.0)
    deletions = sorted(rng.uniform(0, 240) for _ in range(60))
    now_seconds = 0.0
    while now_seconds < 240:
        for candidate in candidates:
            looks[candidate] = looks[candidate] if looks[candidate] > now_seconds else now_seconds + rng.uniform(2, 2.4)
        next_seconds = min(*looks.values(), *deletions[:1])
        for candidate in candidates:
            candidate.clock.advance(next_seconds - now_seconds)
        now_seconds = next_seconds
        if deletions and deletions[0] == now_seconds:
            door.remove()
            deletions.pop(0)
        for candidate in candidates:
            if looks[candidate] == now_seconds:
                candidate.attempt()
        assert not (one.election.is_leader() and two.election.is_leader())


def test_an_error_nobody_expected_does_not_end_the_campaign(door: LeaseDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    one, stop, led = Candidate(door, "one"), threading.Event(), []

    def broken(_kind: object, _body: object, **_: object) -> None:
        monkeypatch.undo()
        raise RuntimeError("a bug in a library")

    def waited(_seconds: float) -> None:
        led.append(one.election.is_leader())
        if len(led) == 2:
            stop.set()

    monkeypatch.setattr(door, "create", broken)
    one.clock.on_wait = waited
    one.election.run(stop)
    assert led == [False, True]


@pytest.mark.parametrize(
    ("duration_seconds", "limit_seconds"),
    [(2**31 - 1, 150), (60, 60), (1, 15), (-5, 15)],
    ids=["68 years", "longer than ours", "shorter than ours", "less than nothing"],
)
def test_a_lease_counts_for_its_duration_within_bounds(
    door: LeaseDoor, duration_seconds: int, limit_seconds: float
) -> None:
    _, two = leading(door), Candidate(door, "two")
    door.spoil("leaseDurationSeconds", duration_seconds)
    assert not two.attempt()
    two.waits(limit_seconds)


def test_the_count_of_transitions_ends_at_what_the_api_takes(door: LeaseDoor) -> None:
    _, two = leading(door), Candidate(door, "two")
    door.spoil("leaseTransitions", 2**31 - 1)
    two.attempt()
    two.clock.advance(16)
    assert two.attempt()
    assert door.spec["leaseTransitions"] == 2**31 - 1


def test_two_processes_have_two_names() -> None:
    names = {lease.identity(random.Random(seed)) for seed in range(100)}
    assert len(names) == 100
    assert len({name.rpartition("_")[0] for name in names}) == 1


def test_a_campaign_that_dies_is_begun_again(door: LeaseDoor) -> None:
    clock = clocks.BreakingClock()
    election = Candidate(door, "one", clock=clock).election
    with lease.campaigning(election):
        assert clock.threads_again(1) == {"election"}
        assert election.is_leader()
