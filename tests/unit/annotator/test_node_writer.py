"""The writer between cycle and door: the fence, the pace, what a 429 does, the bytes, the dry run."""

import threading

import prometheus_client
import pytest

from annotator import metrics
from annotator.publish import node_writer
from kube import errors, kinds
from kube.door import WriteRequest
from tests import clocks, fake_kube_writes


def too_many(wish: float | None) -> errors.TooManyRequests:
    return errors.TooManyRequests(
        "PATCH n", status=429, reason="TooManyRequests", message="later", retry_after_seconds=wish
    )


class Door(fake_kube_writes.FakeKubeWrites):
    """Refuses the next writes with the errors given, and remembers when each was sent and whether it was dry."""

    def __init__(self, clock: clocks.ManualClock) -> None:
        super().__init__()
        self._clock = clock
        self.refusals: list[errors.KubeError] = []
        self.sent: list[tuple[str, float, bool]] = []

    def write(self, request: WriteRequest) -> None:
        self.sent.append((request.name, self._clock.monotonic(), request.dry_run))
        if self.refusals:
            raise self.refusals.pop(0)


class Bench:
    def __init__(self, *, dry_run: bool = False) -> None:
        self.clock = clocks.ManualClock()
        self.stop = threading.Event()
        self.leading = True
        self.door = Door(self.clock)
        self.registry = prometheus_client.CollectorRegistry()
        telemetry = metrics.Telemetry(self.registry, self.clock.now)
        self.writer = node_writer.Writer(
            self.door, telemetry, clock=self.clock, stop=self.stop, leads=lambda: self.leading, dry_run=dry_run
        )

    def patch(self, name: str = "node-1") -> None:
        self.writer.merge_patch(kinds.NODES, name, {"metadata": {"annotations": {"a": "b"}}})


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_writes_begin_evenly_spaced(bench: Bench) -> None:
    for index in range(400):
        bench.patch(f"node-{index}")
    began, ended = bench.door.sent[0][1], bench.door.sent[-1][1]
    assert ended - began == pytest.approx(399 / node_writer.WRITES_PER_SECOND)


def test_a_replica_that_lost_its_lease_sends_nothing_more(bench: Bench) -> None:
    bench.patch()
    bench.leading = False
    with pytest.raises(node_writer.NotAllowedError, match="Node node-1 not written"):
        bench.patch()
    assert len(bench.door.sent) == 1


def test_a_replica_that_stops_sends_nothing_more_and_does_not_wait(bench: Bench) -> None:
    bench.stop.set()
    with pytest.raises(node_writer.NotAllowedError):
        bench.patch()
    assert (bench.door.sent, bench.clock.waits) == ([], [])


def test_leadership_is_asked_after_the_wait_for_ones_turn(bench: Bench) -> None:
    bench.door.refusals = [too_many(5)]

    def lose(_: float) -> None:
        bench.leading = False

    bench.clock.on_wait = lose
    with pytest.raises(node_writer.NotAllowedError):
        bench.patch()
    assert len(bench.door.sent) == 1


@pytest.mark.parametrize(("wish", "held_seconds"), [(3.0, 3.0), (None, node_writer.DEFAULT_HOLD_SECONDS)])
def test_a_429_holds_all_writes_and_the_refused_one_is_sent_again(
    bench: Bench, wish: float | None, held_seconds: float
) -> None:
    bench.door.refusals = [too_many(wish)]
    bench.patch("node-1")
    (_, first, _), (_, second, _) = bench.door.sent
    assert second - first == pytest.approx(held_seconds)


@pytest.mark.parametrize(
    ("refusal", "attempts"),
    [
        pytest.param(too_many(1), node_writer.ATTEMPTS, id="a lasting 429"),
        pytest.param(too_many(60), 1, id="a wish longer than a sync may wait"),
        pytest.param(errors.Unreachable("cut off: whether it took place is unknown"), 1, id="any other refusal"),
    ],
)
def test_a_refusal_is_passed_on_after_so_many_attempts(bench: Bench, refusal: errors.KubeError, attempts: int) -> None:
    bench.door.refusals = [refusal] * 9
    with pytest.raises(type(refusal)):
        bench.patch()
    assert len(bench.door.sent) == attempts


def test_the_bytes_of_every_attempt_are_counted_by_kind(bench: Bench) -> None:
    bench.door.refusals = [too_many(1)]
    bench.patch()
    size_bytes = len('{"metadata":{"annotations":{"a":"b"}}}')
    assert bench.registry.get_sample_value("evenload_annotator_sent_bytes_total", {"kind": "nodes"}) == 2 * size_bytes


def test_a_service_keeps_no_list_of_its_writes(bench: Bench) -> None:
    bench.patch()
    assert bench.writer.done == []


def test_a_dry_run_asks_the_apiserver_for_every_write_and_notes_what_it_said() -> None:
    bench = Bench(dry_run=True)
    bench.door.refusals = [errors.Forbidden("PATCH n", status=403, reason="Forbidden", message="no")]
    with pytest.raises(errors.Forbidden):
        bench.patch("node-1")
    bench.patch("node-2")
    assert [dry for _, _, dry in bench.door.sent] == [True, True]
    assert [(write.kind, write.name, type(write.error).__name__) for write in bench.writer.done] == [
        ("Node", "node-1", "Forbidden"),
        ("Node", "node-2", "NoneType"),
    ]
