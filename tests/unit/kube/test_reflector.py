"""The reflector against a scripted door: every fault in turn, on a clock that does not wait."""

import queue
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import prometheus_client
import pytest

from kube import door, errors, kinds, objects
from kube.cache import reflector, watch_status
from kube.http import client_metrics, undecodable
from tests import builders, clocks

LIMIT_SECONDS = 60
Nodes = reflector.Reflector[objects.Node]


def node(name: str, version: int, uid: str = "") -> objects.Node:
    return builders.node(name, metadata={"resourceVersion": str(version), "uid": uid or f"uid-{name}"})


def event(kind: door.EventType, name: str, version: int, uid: str = "") -> door.WatchEvent[Any]:
    found = None if kind == "BOOKMARK" else node(name, version, uid)
    return door.WatchEvent(kind, found, str(version))


class ScriptedWatch:
    """Gives events, raises errors, runs callables; then ends, or waits to be closed."""

    def __init__(self, steps: tuple[object, ...], *, stays: bool) -> None:
        self._steps = list(steps)
        self._stays = stays
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[door.WatchEvent[Any]]:
        return self

    def __next__(self) -> door.WatchEvent[Any]:
        while self._steps:
            step = self._steps.pop(0)
            if isinstance(step, BaseException):
                raise step
            if isinstance(step, door.WatchEvent):
                return step
            assert callable(step)
            step()
        if self._stays:
            self.closed.wait(LIMIT_SECONDS)
        raise StopIteration

    def close(self) -> None:
        self.closed.set()


class ScriptedDoor:
    """`script` holds what list and watch give, in order; after it, watches stay open. `asked` tells what was asked."""

    def __init__(self, *script: object) -> None:
        self.script = list(script)
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.exhausted = threading.Event()

    def list(self, kind: kinds.Kind[Any], **options: Any) -> door.Listing[Any]:
        self.asked.append(("list", options))
        found: door.Listing[Any] = self._next(door.Listing, door.Listing((), "1"))
        return found

    def watch(self, kind: kinds.Kind[Any], **options: Any) -> ScriptedWatch:
        self.asked.append(("watch", options))
        steps = self._next(tuple, None)
        if steps is None:
            self.exhausted.set()
        return ScriptedWatch(steps or (), stays=steps is None)

    def _next(self, expected: type, otherwise: Any) -> Any:
        if not self.script:
            return otherwise
        step = self.script.pop(0)
        if isinstance(step, BaseException):
            raise step
        assert isinstance(step, expected), f"the reflector asked for {expected}, the script has {step}"
        return step

    @property
    def verbs(self) -> Sequence[str]:
        return [verb for verb, _options in self.asked]


class Scene:
    """A reflector at work on a script."""

    def __init__(self, scripted: ScriptedDoor, clock: clocks.ManualClock, **options: Any) -> None:
        self.door = scripted
        self.clock = clock
        self.changes: queue.Queue[tuple[str | None, str | None]] = queue.Queue()
        options.setdefault("on_change", self._note)
        self.nodes: Nodes = reflector.Reflector(
            scripted,  # type: ignore[arg-type]
            kinds.NODES,
            clock=clock,
            rng=random.Random(1),
            **options,
        )
        self.stop = threading.Event()
        self.thread: threading.Thread | None = None

    def _note(self, old: objects.Node | None, new: objects.Node | None) -> None:
        told = tuple(None if one is None else f"{one.name}@{one.resource_version}" for one in (old, new))
        self.changes.put((told[0], told[1]))

    def play(self, *script: object) -> "Scene":
        """Run until the script is used up and its changes were dispatched."""
        self.door.script.extend(script)
        self.thread = self.nodes.start(self.stop)
        assert self.door.exhausted.wait(LIMIT_SECONDS), f"stuck after {self.door.verbs}"
        return self

    def next_changes(self, count: int) -> list[tuple[str | None, str | None]]:
        return [self.changes.get(timeout=LIMIT_SECONDS) for _ in range(count)]


@pytest.fixture
def scene() -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(*script: object, **options: Any) -> Scene:
        made.append(Scene(ScriptedDoor(*script), clocks.ManualClock(), **options))
        return made[-1]

    yield make
    for one in made:
        one.stop.set()
        if one.thread is not None:
            one.thread.join(LIMIT_SECONDS)
            assert not one.thread.is_alive()


def listing(version: int, *nodes: objects.Node) -> door.Listing[objects.Node]:
    return door.Listing(nodes, str(version))


def test_list_then_watch_gives_a_picture_and_changes_in_order(scene: Callable[..., Scene]) -> None:
    played = scene(
        listing(5, node("a", 3), node("b", 4)),
        (event("MODIFIED", "a", 6), event("DELETED", "b", 7), event("ADDED", "c", 8)),
    ).play()
    assert played.next_changes(5) == [
        (None, "a@3"), (None, "b@4"), ("a@3", "a@6"), ("b@4", None), (None, "c@8"),
    ]  # fmt: skip
    assert {key: one.resource_version for key, one in played.nodes.snapshot().items()} == {"a": "6", "c": "8"}


def test_the_watch_goes_on_from_the_list_and_from_bookmarks(scene: Callable[..., Scene]) -> None:
    played = scene(listing(5), (event("BOOKMARK", "", 40),), ()).play()
    versions = [options["resource_version"] for verb, options in played.door.asked if verb == "watch"]
    assert versions == ["5", "40", "40"]
    assert played.nodes.lists == 1


def test_pages_selectors_and_spread_time_outs_are_asked_for(scene: Callable[..., Scene]) -> None:
    played = scene(namespace="shop", label_selector="a=b", field_selector="c=d")
    lived = (lambda: played.clock.advance(45),)
    played.play(listing(5), lived, lived)
    selection = {"namespace": "shop", "label_selector": "a=b", "field_selector": "c=d"}
    assert played.door.asked[0] == ("list", {"limit": 500, "from_cache": False, **selection})
    timeouts = [options["timeout_seconds"] for verb, options in played.door.asked if verb == "watch"]
    assert all(40 <= one <= 50 for one in timeouts)
    assert len(set(timeouts)) == 3


def test_only_the_first_list_may_come_from_the_cache_and_after_a_failure_in_pages(scene: Callable[..., Scene]) -> None:
    broken, gone = errors.Unreachable("no"), errors.Gone("GET", status=410, reason="Expired", message="")
    played = scene(broken, broken, broken, listing(5), gone, listing(6), cached_start=True).play()
    asked = [options["from_cache"] for verb, options in played.door.asked if verb == "list"]
    assert asked == [True, False, True, False, False]
    assert scene(listing(5), cached_start=True).play().door.asked[0][1]["from_cache"]


def test_synced_means_listed_and_handled(scene: Callable[..., Scene]) -> None:
    reached, release = threading.Event(), threading.Event()

    def handle(_old: objects.Node | None, _new: objects.Node | None) -> None:
        reached.set()
        release.wait(LIMIT_SECONDS)

    played = scene(listing(5, node("a", 3)), on_change=handle)
    assert not played.nodes.synced.is_set()
    played.thread = played.nodes.start(played.stop)
    assert reached.wait(LIMIT_SECONDS)
    assert not played.nodes.synced.is_set()
    release.set()
    assert played.nodes.synced.wait(LIMIT_SECONDS)


def test_without_a_handler_synced_follows_the_list(scene: Callable[..., Scene]) -> None:
    played = scene(listing(5, node("a", 3)), on_change=None).play()
    assert played.nodes.synced.is_set()
    assert set(played.nodes.snapshot()) == {"a"}


def test_duplicate_and_late_events_change_nothing(scene: Callable[..., Scene]) -> None:
    played = scene(
        listing(9, node("a", 8)),
        (
            event("ADDED", "a", 8),
            event("MODIFIED", "a", 7),
            event("DELETED", "a", 6, "uid-older"),
            event("ADDED", "z", 12),
        ),
    ).play()
    assert played.next_changes(2) == [(None, "a@8"), (None, "z@12")]


def test_a_namesake_of_another_uid_is_a_deletion_and_an_addition(scene: Callable[..., Scene]) -> None:
    played = scene(listing(9, node("a", 8)), (event("ADDED", "a", 10, "uid-new"),)).play()
    assert played.next_changes(3) == [(None, "a@8"), ("a@8", None), (None, "a@10")]


@pytest.mark.parametrize(
    "error",
    [
        errors.Gone("watch", status=410, reason="Expired", message=""),
        errors.ServerError("watch", status=504, reason="Timeout", message="too large resource version"),
        errors.Undecodable("watch: garbage"),
    ],
    ids=["too old a version", "an error of the server", "garbage"],
)
def test_a_relist_finds_what_was_missed_also_deletions(scene: Callable[..., Scene], error: errors.KubeError) -> None:
    played = scene(listing(5, node("a", 3), node("b", 4)), (error,), listing(20, node("a", 3), node("c", 15))).play()
    assert played.next_changes(4) == [(None, "a@3"), (None, "b@4"), ("b@4", None), (None, "c@15")]
    assert played.door.verbs == ["list", "watch", "list", "watch"]
    assert len(played.clock.waits) == 1


@pytest.mark.parametrize(
    "error",
    [errors.Unreachable("watch: broke off"), errors.TooManyRequests("watch", status=429, reason="", message="")],
    ids=["a broken connection", "too many requests"],
)
def test_a_lost_watch_goes_on_where_it_was(scene: Callable[..., Scene], error: errors.KubeError) -> None:
    played = scene(listing(5), (event("ADDED", "a", 9), error)).play()
    assert played.door.verbs == ["list", "watch", "watch"]
    assert played.door.asked[-1][1]["resource_version"] == "9"


@pytest.mark.parametrize(("wish_seconds", "wait_seconds"), [(25, 25), (3600, 30), (float("9" * 20), 30)])
def test_retry_after_is_honoured_up_to_the_longest_back_off(
    scene: Callable[..., Scene], wish_seconds: float, wait_seconds: float
) -> None:
    busy = errors.TooManyRequests("list", status=429, reason="", message="", retry_after_seconds=wish_seconds)
    played = scene(busy, listing(5)).play()
    assert played.clock.waits == [wait_seconds]


def test_an_error_of_no_door_is_in_the_watches_line_and_the_next_turn_lists(scene: Callable[..., Scene]) -> None:
    played = scene()
    lines: list[str] = []
    status = watch_status.Watches({"nodes": played.nodes})
    played.clock.on_wait = lambda _seconds: lines.extend(check.detail() for check in status.checks() if check.detail)
    broken = (event("ADDED", "a", 9), RecursionError("too deep"))
    played.play(listing(5), broken, listing(9, node("a", 9)))
    assert lines == ["heard 30 s ago; RecursionError: too deep"]
    assert played.door.verbs == ["list", "watch", "list", "watch"]


def test_a_reader_that_dies_reads_again() -> None:
    scripted, clock = ScriptedDoor(errors.Unreachable("refused"), errors.Unreachable("refused")), clocks.BreakingClock()
    played = Scene(scripted, clock)
    played.thread = played.nodes.start(played.stop)
    try:
        assert clock.threads_again(1) == {"read-nodes"}
    finally:
        played.stop.set()
        played.thread.join(LIMIT_SECONDS)


def test_an_apiserver_that_is_gone_is_asked_ever_less_and_the_picture_stays(scene: Callable[..., Scene]) -> None:
    played = scene(listing(5, node("a", 3)), *[errors.Unreachable("refused")] * 12).play()
    waits = played.clock.waits
    assert len(waits) == 12
    for number, wait in enumerate(waits, start=1):
        assert 0.8 <= wait <= min(30.0, 0.8 * 2**number)
    assert max(waits) > 5
    assert set(played.nodes.snapshot()) == {"a"}


def test_watches_that_end_at_once_are_not_hammered(scene: Callable[..., Scene]) -> None:
    played = scene(listing(5), *[()] * 8).play()
    assert len(played.clock.waits) == 8
    assert sum(played.clock.waits) > 8 * 0.8


def test_a_watch_that_lived_resets_the_back_off(scene: Callable[..., Scene]) -> None:
    played = scene()
    lived = (lambda: played.clock.advance(300),)
    played.play(listing(5), *[errors.Unreachable("refused")] * 6, lived, errors.Unreachable("refused"))
    assert len(played.clock.waits) == 7
    assert played.clock.waits[-1] <= 1.6


def test_trouble_is_told_until_contact_is_back(scene: Callable[..., Scene]) -> None:
    told: list[str | None] = []
    played = scene(errors.Forbidden("list", status=403, reason="Forbidden", message="no nodes for you"), listing(5))
    played.clock.on_wait = lambda _seconds: told.append(played.nodes.problem)
    assert played.nodes.age_seconds() == float("inf")
    played.play()
    assert told == ["list: 403 Forbidden: no nodes for you"]
    assert played.nodes.problem is None
    played.clock.advance(7)
    assert played.nodes.age_seconds() == 7
    played.clock.advance(1)
    assert played.nodes.age_seconds() == 8


def test_a_watch_after_a_failure_is_short_so_that_its_end_soon_says_whether_contact_is_back(
    scene: Callable[..., Scene],
) -> None:
    played = scene()
    lived = (lambda: played.clock.advance(15),)
    played.play(listing(5), (errors.Unreachable("watch: broke off"),), lived)
    timeouts = [options["timeout_seconds"] for verb, options in played.door.asked if verb == "watch"]
    assert [12 <= one <= 18 for one in timeouts] == [False, True, False]


def test_a_watch_that_is_accepted_and_brings_nothing_is_no_contact(scene: Callable[..., Scene]) -> None:
    """As behind a proxy that buffers what it streams."""
    played = scene()

    def silent() -> None:
        played.clock.advance(20)
        raise errors.Unreachable("watch: timed out")

    played.play(listing(5), *[(silent,)] * 5)
    assert played.nodes.problem == "watch: timed out"
    assert played.nodes.age_seconds() >= 100
    assert played.door.verbs == ["list", *["watch"] * 6]


@pytest.mark.parametrize("brings", ["an event", "a bookmark", "its end"])
def test_contact_is_back_with_whatever_a_watch_brings(scene: Callable[..., Scene], brings: str) -> None:
    played = scene()
    steps: dict[str, tuple[object, ...]] = {
        "an event": (event("ADDED", "a", 9),),
        "a bookmark": (event("BOOKMARK", "", 9),),
        "its end": (lambda: played.clock.advance(15),),
    }
    lost = (lambda: played.clock.advance(55), errors.Unreachable("watch: timed out"))
    played.play(listing(5), lost, steps[brings])
    played.clock.advance(3)
    assert (played.nodes.problem, played.nodes.lists) == (None, 2 if brings == "its end" else 1)
    assert played.nodes.age_seconds() < 20


def test_the_watches_of_a_process_tell_what_they_heard_and_when(scene: Callable[..., Scene]) -> None:
    lost, unlisted = scene(), scene()
    lost.play(listing(5), (errors.Unreachable("watch: timed out"),))
    lost.clock.advance(watch_status.STALE_SECONDS - lost.nodes.age_seconds())
    found = watch_status.Watches({"nodes": lost.nodes, "pods": unlisted.nodes})
    assert [(check.name, check.probe(), check.detail and check.detail()) for check in found.checks()] == [
        ("nodes watch", None, "heard 90 s ago; watch: timed out"),
        ("pods watch", None, "nothing heard yet"),
    ]
    assert not found.is_stale("nodes")
    lost.clock.advance(0.1)
    assert found.is_stale("nodes")
    assert not found.is_stale("pods")
    registry = prometheus_client.CollectorRegistry()
    registry.register(client_metrics.DoorCollector(undecodable.UndecodableObjects(lost.clock), found))
    ages = [registry.get_sample_value("evenload_kube_watch_age_seconds", {"watch": name}) for name in ("nodes", "pods")]
    assert ages == [pytest.approx(90.1), float("inf")]
    problems = [registry.get_sample_value("evenload_kube_watch_problem", {"watch": one}) for one in ("nodes", "pods")]
    assert problems == [1, 0]


def test_a_handler_that_raises_misses_only_its_own_change(scene: Callable[..., Scene]) -> None:
    seen: queue.Queue[str] = queue.Queue()

    def handle(_old: objects.Node | None, new: objects.Node | None) -> None:
        assert new is not None
        if new.name == "a":
            raise ZeroDivisionError
        seen.put(new.name)

    played = scene(listing(5, node("a", 3), node("b", 4)), (event("ADDED", "c", 6),), on_change=handle)
    played.play()
    assert [seen.get(timeout=LIMIT_SECONDS) for _ in range(2)] == ["b", "c"]
    assert played.nodes.synced.wait(LIMIT_SECONDS)


def test_a_bug_in_reading_is_survived_with_a_relist(scene: Callable[..., Scene]) -> None:
    played = scene(listing(5), (RuntimeError("a bug"),)).play()
    assert played.clock.waits == [30.0]


def test_a_slow_handler_slows_the_reader_instead_of_filling_the_memory(scene: Callable[..., Scene]) -> None:
    release, handled = threading.Event(), queue.Queue[str]()

    def handle(_old: objects.Node | None, new: objects.Node | None) -> None:
        release.wait(LIMIT_SECONDS)
        assert new is not None
        handled.put(new.name)

    many = tuple(event("ADDED", f"n{number}", 10 + number) for number in range(20))
    played = scene(listing(5), many, on_change=handle)
    played.thread = played.nodes.start(played.stop)
    assert not played.door.exhausted.wait(0.3)
    assert len(played.nodes.snapshot()) < 20
    release.set()
    assert [handled.get(timeout=LIMIT_SECONDS) for _ in range(20)] == [f"n{number}" for number in range(20)]


@pytest.mark.parametrize("stays", ["open watch", "slow handler"])
def test_a_stop_ends_all_threads_soon(scene: Callable[..., Scene], stays: str) -> None:
    release = threading.Event()
    handler = None if stays == "open watch" else lambda _old, _new: release.wait(LIMIT_SECONDS)
    many = tuple(event("ADDED", f"n{number}", 10 + number) for number in range(2000))
    played = scene(listing(5), *([] if handler is None else [many]), on_change=handler)
    played.thread = played.nodes.start(played.stop)
    assert played.nodes.synced.wait(LIMIT_SECONDS) if handler is None else not played.door.exhausted.wait(0.1)
    played.stop.set()
    played.thread.join(LIMIT_SECONDS / 2)
    release.set()
    assert not played.thread.is_alive()


def test_a_snapshot_never_changes_and_is_made_once_per_change(scene: Callable[..., Scene]) -> None:
    played = scene(listing(5, node("a", 3)), (event("ADDED", "b", 6),)).play()
    first = played.nodes.snapshot()
    assert played.nodes.snapshot() is first
    assert set(first) == {"a", "b"}
    with pytest.raises(TypeError):
        first["c"] = node("c", 1)  # type: ignore[index]


def caught_up(*script: object, **options: Any) -> Scene:
    """A scene in which nobody runs the reflector."""
    return Scene(ScriptedDoor(*script), clocks.ManualClock(), **options)


REFUSALS = [
    pytest.param(errors.Unreachable("cut off"), id="cut off"),
    pytest.param(errors.ServerError("GET", status=504, reason="Timeout", message="too slow"), id="too slow"),
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_an_answer_too_long_for_the_apiserver_is_asked_for_in_pages(
    scene: Callable[..., Scene], refusal: Exception
) -> None:
    here = scene(refusal, listing(1, node("a", 1)), cached_start=True)
    here.nodes.list_once()
    assert list(here.nodes.snapshot()) == ["a"]
    assert here.nodes.synced.is_set()
    (_, whole), (_, pages) = here.door.asked
    assert (whole["limit"], whole["from_cache"]) == (0, False)
    assert pages["limit"] == reflector.PAGE_ITEMS


def test_a_single_list_that_is_refused_raises(scene: Callable[..., Scene]) -> None:
    here = scene(errors.Forbidden("GET", status=403, reason="Forbidden", message="no"))
    with pytest.raises(errors.Forbidden):
        here.nodes.list_once()
    assert here.door.verbs == ["list"]


def test_catching_up_lists_once_and_then_watches_on_from_where_it_was_on_the_callers_thread() -> None:
    threads: list[threading.Thread] = []

    def note(_old: object, _new: object) -> None:
        threads.append(threading.current_thread())

    caught = caught_up(
        listing(5, node("a", 3)), (event("MODIFIED", "a", 6), event("BOOKMARK", "", 9)), (), on_change=note
    )
    caught.nodes.catch_up()
    assert (caught.nodes.synced.is_set(), caught.nodes.snapshot()["a"].resource_version) == (True, "6")
    caught.nodes.catch_up()
    assert caught.door.verbs == ["list", "watch", "watch"]
    assert caught.door.asked[-1][1]["resource_version"] == "9"
    assert threads == [threading.current_thread()] * 2
    assert caught.clock.waits == []


def test_catching_up_lists_again_in_the_same_turn_when_the_version_is_gone() -> None:
    gone = errors.Gone("watch", status=410, reason="Expired", message="too old")
    caught = caught_up(listing(5, node("a", 3)), (gone,), listing(8, node("b", 7)), ())
    caught.nodes.catch_up()
    assert (list(caught.nodes.snapshot()), caught.nodes.problem) == (["b"], None)
    assert caught.next_changes(3) == [(None, "a@3"), ("a@3", None), (None, "b@7")]


def test_what_fails_while_catching_up_is_named_and_the_next_turn_goes_on() -> None:
    lost = errors.Unreachable("refused")
    caught = caught_up(listing(5, node("a", 3)), (event("MODIFIED", "a", 6), lost), (event("MODIFIED", "a", 7),))
    caught.nodes.catch_up()
    assert "refused" in str(caught.nodes.problem)
    caught.nodes.catch_up()
    assert (caught.nodes.problem, caught.door.verbs) == (None, ["list", "watch", "watch"])
    assert caught.door.asked[-1][1]["resource_version"] == "6"
