"""How many placeholders there are to be: by proportion, by the clock, within bounds."""

import math

import hypothesis
from hypothesis import strategies as st

from cli.placeholder import sizing
from runtime import clock

NO_NODES = sizing.Nodes(0, 0.0)
BERLIN = "Europe/Berlin"


def at(text: str) -> float:
    """Unix seconds."""
    return clock.from_rfc3339(text)


def replicas(options: sizing.Sizing, when: str, nodes: sizing.Nodes = NO_NODES) -> int:
    """The number at a moment."""
    return sizing.planned(options, nodes, at(when)).replicas


def week() -> sizing.Sizing:
    """Ten by day, two at night, none at the weekend, in Berlin."""
    during = tuple(map(sizing.parse_span, ("20:00-07:00=2", "Fri 20:00-Mon 07:00=0")))
    return sizing.Sizing(replicas=10, during=during, time_zone=BERLIN)


def test_the_clock_decides_in_the_time_zone_of_the_schedule() -> None:
    assert replicas(week(), "2026-11-19T18:59:59Z") == 10  # Thursday, 19:59 there
    assert replicas(week(), "2026-11-19T19:00:00Z") == 2
    assert replicas(week(), "2026-07-16T18:00:00Z") == 2  # in summer an hour earlier
    assert replicas(week(), "2026-11-20T06:00:00Z") == 10


def test_of_several_spans_that_hold_the_last_one_counts() -> None:
    assert replicas(week(), "2026-11-20T19:00:00Z") == 0  # Friday night is night, too
    assert replicas(week(), "2026-11-23T05:59:00Z") == 0
    assert replicas(week(), "2026-11-23T06:00:00Z") == 10


def test_without_a_time_zone_it_is_utc_and_the_reason_says_so() -> None:
    given = sizing.Sizing(replicas=10, during=(sizing.parse_span("20:00-07:00=20%"),))
    assert sizing.planned(given, NO_NODES, at("2026-11-19T20:00:00Z")) == (2, "20:00-07:00=20% UTC; 10 ordinarily")


@hypothesis.given(
    nodes=st.integers(0, 5000),
    millicores=st.floats(0, 1e9),
    per_node=st.none() | st.integers(1, 1000),
    per_core=st.none() | st.integers(1, 1000),
    least=st.none() | st.integers(0, 50),
    most=st.integers(50, 100),
    share=st.integers(0, 1000),
)
def test_in_proportion_there_is_room_for_every_begun_part_within_the_bounds(
    nodes: int, millicores: float, per_node: int | None, per_core: int | None, least: int | None, most: int, share: int
) -> None:
    hypothesis.assume(per_node or per_core)
    given = sizing.Sizing(nodes_per_replica=per_node, cores_per_replica=per_core, min_replicas=least, max_replicas=most)
    found = sizing.ordinary(given, sizing.Nodes(nodes, millicores)).replicas
    wanted = max(math.ceil(nodes / (per_node or math.inf)), math.ceil(millicores / 1000 / (per_core or math.inf)))
    assert found == max(least or 0, min(wanted, most))
    always = sizing.Sizing(nodes_per_replica=1, max_replicas=most, during=(sizing.parse_span(f"00:00-24:00={share}%"),))
    assert sizing.planned(always, sizing.Nodes(nodes, 0.0), 0.0).replicas <= most


def test_what_is_written_into_the_job_is_what_was_given() -> None:
    given = sizing.Sizing(
        nodes_per_replica=4, max_replicas=50, time_zone=BERLIN, during=(sizing.parse_span("20:00-07:00=20%"),)
    )
    assert given.arguments() == [
        "--nodes-per-replica=4",
        "--max-replicas=50",
        "--time-zone=Europe/Berlin",
        "--during=20:00-07:00=20%",
    ]
