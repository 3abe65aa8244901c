"""A phase on a machine that stalls: everything arrives and settles, and a pod on its way is not called pending."""

import io
import pathlib
import types
from typing import Any

from rich import console

from lab.cluster.demo import arrival_plan, display, measuring, phases, watching
from simulator.commands import screen
from tests import builders, clocks

SETTLE_SECONDS = 12.0
PLAN = arrival_plan.plan(1, arrival_plan.Shape(nodes=3, span_seconds=8.0))


def phase(clock: clocks.ManualClock) -> Any:
    """A phase that has not begun; Any, because only its steps are asked."""
    shown = display.Display(screen.Screen(console.Console(file=io.StringIO()), None), {})
    settings = phases.Settings(PLAN, pathlib.Path("policy.yaml"), SETTLE_SECONDS, 6.0)
    return phases.Phase("plain", settings, shown, clock)


def watcher(*looks: list[Any]) -> Any:
    """Shows these pods, look by look, and the last ones from then on."""
    left = list(looks)

    def view(name: str, elapsed_seconds: float, total_seconds: float, _violations: object) -> watching.View:
        return watching.View(name, elapsed_seconds, total_seconds)

    return types.SimpleNamespace(pods=lambda: left.pop(0) if len(left) > 1 else left[0], view=view)


class Player:
    """Plays the plan; the machine stalls in its second step."""

    def __init__(self, clock: clocks.ManualClock, stall_seconds: float) -> None:
        self._clock, self._stall_seconds = clock, stall_seconds
        self.asked: list[float] = []

    def play(self, elapsed_seconds: float) -> int:
        """How many owners have arrived."""
        self.asked.append(elapsed_seconds)
        if len(self.asked) == 2:
            self._clock.advance(self._stall_seconds)
        return sum(len(one.owners) for one in PLAN.arrivals if one.at_seconds <= elapsed_seconds)


def played(stall_seconds: float) -> tuple[Player, float]:
    """The player after a phase, and how long the phase was."""
    clock = clocks.ManualClock()
    player, quiet = Player(clock, stall_seconds), types.SimpleNamespace(check=lambda: None, violations=())
    return player, phase(clock)._play(player, watcher([]), quiet, quiet, start_seconds=clock.now())


def test_a_phase_takes_as_long_as_planned() -> None:
    _, seconds = played(0.0)
    assert 20.0 <= seconds < 20.0 + 2 * phases.TICK_SECONDS


def test_a_stall_over_the_whole_time_leaves_no_batch_out_and_lets_the_last_settle() -> None:
    player, seconds = played(60.0)
    assert max(player.asked) >= PLAN.arrivals[-1].at_seconds
    assert seconds >= 60.0 + SETTLE_SECONDS


def test_a_pod_that_is_placed_a_moment_later_is_not_pending() -> None:
    on_its_way, placed = builders.pod("web-1", node=""), builders.pod("web-1", node="node-1")
    assert phase(clocks.ManualClock())._pending(watcher([on_its_way], [on_its_way], [placed])) == 0


def test_a_pod_without_a_node_for_a_minute_is_pending_and_one_made_since_is_not() -> None:
    stuck, new = builders.pod("web-1", node=""), builders.pod("web-2", node="")
    clock = clocks.ManualClock()
    begun = clock.monotonic()
    assert phase(clock)._pending(watcher([stuck], [stuck, new])) == 1
    assert clock.monotonic() - begun >= phases.PLACING_SECONDS


def test_the_annotators_figures_are_read_when_it_has_counted_what_is_bound() -> None:
    told = [f"evenload_total_schedule_count {count}\nevenload_schedule_results_left_out 1\n" for count in (0, 0, 1, 2)]
    annotator = types.SimpleNamespace(text=lambda path: told.pop(0))
    bound = [builders.pod("web-1", node="node-1"), builders.pod("web-2", node="node-1"), builders.pod("web-3")]
    assert measuring.placed(phase(clocks.ManualClock())._counted(watcher(bound), annotator)) == 2
