"""Every scheduling result is judged exactly once, also across starts, changes of leader and times without data."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotator.placements import effectiveness, hot_counts
from annotator.placements.pod_index import PodUsage
from kube.pods.compact import Pod
from policy.rules.hotspots import Binding
from runtime import clock
from tests import builders

NOW = clock.from_rfc3339(builders.SCHEDULED)
NODES = {"cool": 0.2, "hot": 0.8}


def levels(at_seconds: float) -> effectiveness.Levels:
    found = effectiveness.levels(at_seconds, NODES, NODES)
    assert found is not None
    return found


def scheduled(name: str, at_seconds: float, node: str = "cool") -> Pod:
    return builders.lean_pod(name, node=node, scheduled_at=clock.to_rfc3339(at_seconds))


def placement(pod: Pod) -> Binding:
    placed = hot_counts.binding(pod)
    assert placed is not None
    return placed


def begun(*pods: Pod, since_seconds: float = NOW, now_seconds: float = NOW) -> effectiveness.Results:
    made = effectiveness.Results()
    made.begin(lambda: pods, since_seconds=since_seconds, now_seconds=now_seconds)
    return made


def led(*pods: Pod) -> effectiveness.Results:
    """Those of a leader that judged these pods when they were placed."""
    made = begun()
    for pod in pods:
        made.add(placement(pod), levels(pod.scheduled_at_seconds or 0.0))
    return made


def counts(results: effectiveness.Results) -> tuple[int, int]:
    """How many were judged and how many left out."""
    return results.tally.total_schedule_count, results.tally.schedule_results_left_out


def test_what_waited_too_long_for_levels_is_left_out_and_never_forgotten() -> None:
    made = begun(scheduled("p", NOW))
    made.settle(None, now_seconds=NOW + effectiveness.LATE_SECONDS)
    assert counts(made) == (0, 0)
    made.settle(levels(NOW + 40), now_seconds=NOW + 40)
    assert counts(made) == (0, 1)


def test_who_loses_the_lease_and_leads_again_counts_once_what_it_judged_since_its_last_renewal() -> None:
    judged, missed = scheduled("judged", NOW + 1), scheduled("missed", NOW + 20)
    made = led(judged)
    made.end()
    made.begin(lambda: (judged, missed), since_seconds=NOW, now_seconds=NOW + 25)
    made.settle(levels(NOW + 26), now_seconds=NOW + 26)
    assert counts(made) == (2, 0)


def test_what_was_placed_in_a_long_time_without_an_annotator_is_not_its_business() -> None:
    made = begun(scheduled("long-ago", NOW - 7200), scheduled("lately", NOW - 1800), since_seconds=NOW - 86400)
    made.settle(levels(NOW), now_seconds=NOW)
    assert counts(made) == (0, 1)


def test_a_follower_judges_nothing_and_hands_nothing_on() -> None:
    made = effectiveness.Results()
    made.add(placement(scheduled("p", NOW)), levels(NOW))
    made.settle(levels(NOW), now_seconds=NOW)
    assert counts(made) == (0, 0)
    made.begin(tuple, since_seconds=NOW, now_seconds=NOW)
    made.add(placement(scheduled("q", NOW)), None)
    made.end()
    made.settle(levels(NOW), now_seconds=NOW)
    assert counts(made) == (0, 0)


@given(
    times=st.lists(st.integers(0, 100), max_size=30),
    handover=st.integers(0, 100),
    gap_seconds=st.integers(0, 30),
    read_every=st.integers(1, 60),
)
def test_two_leaders_after_each_other_count_every_placement_once(
    times: list[int], handover: int, gap_seconds: int, read_every: int
) -> None:
    """The first dies at `handover`, its last renewal; the second leads `gap_seconds` later, reads now and then."""
    pods = {f"p{number}": scheduled(f"p{number}", NOW + at) for number, at in enumerate(sorted(times))}
    first, second = begun(), effectiveness.Results()
    for at in range(200):
        leader = first if at < handover else second if at >= handover + gap_seconds else None
        there = [pod for pod in pods.values() if (pod.scheduled_at_seconds or 0.0) <= NOW + at]
        if leader is second:
            second.begin(lambda there=there: there, since_seconds=NOW + handover, now_seconds=NOW + at)  # type: ignore[misc]
        for pod in there:
            if leader is not None and pod.scheduled_at_seconds == NOW + at:
                leader.add(placement(pod), levels(NOW + at) if at % read_every == 0 else None)
        if leader is not None:
            leader.settle(levels(NOW + at) if at % read_every == 0 else None, now_seconds=NOW + at)
    waited = [pod for pod in pods.values() if (pod.scheduled_at_seconds or 0.0) < NOW + handover]
    assert sum(counts(second)) == len(pods) - len(waited)
    assert sum(counts(first)) <= len(waited)


def look(at_seconds: float, pods: Iterable[Pod], millicores: float, size_bytes: float) -> effectiveness.Look:
    """Both nodes as ever; each pod uses so much."""
    known = {pod.uid: pod for pod in pods}
    cores, sizes = {pod.key: millicores / 1000 for pod in pods}, {pod.key: size_bytes for pod in pods}
    nodes = {name: builders.node(name, cpu="10", memory="10Gi") for name in NODES}
    return effectiveness.Look(levels(at_seconds), PodUsage(cores, sizes, 300.0), known, nodes)


def followed(
    pod: Pod, looks: Iterable[effectiveness.Look], *, looks_per_hour: float = 2.0
) -> effectiveness.LookbackTally:
    made = led(pod)
    for one in looks:
        made.look_back(one, now_seconds=one.levels.at_seconds, looks_per_hour=looks_per_hour)
        assert made.stayed == (0, 0.0, 0), "the hour is not over"
    made.look_back(None, now_seconds=NOW + 3600, looks_per_hour=looks_per_hour)
    return made.stayed


@pytest.mark.parametrize(
    ("millicores", "size_bytes", "stayed"),
    [
        pytest.param(2000.0, 2 * 2.0**30, 0.0, id="over both medians without it"),
        pytest.param(4000.0, 2 * 2.0**30, 0.5, id="without its CPU under the median of it"),
        pytest.param(4000.0, 4 * 2.0**30, 1.0, id="without it under both"),
    ],
)
def test_a_node_is_looked_at_without_the_pod(millicores: float, size_bytes: float, stayed: float) -> None:
    pod = scheduled("p", NOW, node="hot")
    looks = [look(NOW + after, [pod], millicores, size_bytes) for after in (600, 1200)]
    assert followed(pod, looks) == (1, stayed, 0)


def test_a_pod_that_is_gone_uses_nothing() -> None:
    assert followed(scheduled("p", NOW, node="hot"), [look(NOW + 600, [], 0, 0)]) == (1, 0.0, 0)


def test_an_hour_that_was_hardly_seen_says_nothing() -> None:
    pod = scheduled("p", NOW)
    assert followed(pod, []) == (0, 0.0, 1)
    assert followed(pod, [look(NOW + 600, [pod], 1.0, 1.0)], looks_per_hour=60) == (0, 0.0, 1)
    unmeasured = look(NOW + 600, [pod], 1.0, 1.0)._replace(usage=PodUsage({}, {}, 300.0))
    assert followed(pod, [unmeasured]) == (0, 0.0, 1)


def test_only_so_many_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effectiveness, "MOST", 1)
    made = led(*(scheduled(name, NOW) for name in ("a", "b", "c")))
    assert made.stayed == (0, 0.0, 2)
    assert counts(made) == (3, 0)


def test_hours_that_are_over_add_up() -> None:
    first, second = scheduled("a", NOW), scheduled("b", NOW + 600)
    made = led(first, second)
    made.look_back(look(NOW + 900, [first, second], 1.0, 1.0), now_seconds=NOW + 900, looks_per_hour=2.0)
    for after_seconds in (3600, 4200):
        made.look_back(None, now_seconds=NOW + after_seconds, looks_per_hour=2.0)
    assert made.stayed == (2, 2.0, 0)


def test_who_led_before_does_not_follow_its_placements_any_more() -> None:
    made = led(scheduled("p", NOW))
    made.end()
    made.look_back(None, now_seconds=NOW + 3600, looks_per_hour=2.0)
    assert made.stayed == (0, 0.0, 0)


def test_what_was_judged_longer_ago_than_a_leader_acts_is_not_remembered() -> None:
    old, new = scheduled("old", NOW), scheduled("new", NOW + effectiveness.REMEMBERED_SECONDS + 1)
    made = led(old, new)
    made.end()
    made.begin(lambda: (old, new), since_seconds=NOW, now_seconds=NOW + 62)
    made.settle(levels(NOW + 20), now_seconds=NOW + 62)
    assert counts(made) == (3, 0)
