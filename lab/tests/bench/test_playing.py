"""The back-filled past is what the load exporter would have shown and the rules would have recorded."""

import re

import pytest

from lab.bench import annotator, playing
from lab.cluster import exporter_load

NOW = 1_795_233_600.0
CLOCK = 2 * playing.DAY_SECONDS


def use(cast: playing.Cast, node: int, trace_seconds: float) -> float:
    """A node's CPU ratio by the exporter's own functions."""
    cpu = playing.SYSTEM.cpu_ratio
    for job, ordinal, on in cast.players:
        if on == node:
            profile = cast.profiles[job]
            used = exporter_load.usage(
                profile, cast.curves[job], exporter_load.replica(profile.seed, ordinal), trace_seconds
            )
            cpu += used.cpu_millicores / playing.NODE.cpu_millicores
    return min(1.0, cpu)


def recorded(text: str, series: str, instance: str) -> dict[float, float]:
    rows = re.findall(rf'^{series}{{instance="{instance}",job="load-exporter"}} (\S+) (\S+)$', text, re.MULTILINE)
    return {float(at): float(value) for value, at in rows}


def test_the_past_is_what_would_have_been_recorded() -> None:
    made = playing.cast(3, 4, 1, None)
    text = playing.history(made, CLOCK, NOW)
    averages = recorded(text, "evenload:cpu_avg_5m", "172.16.0.2:9100")
    hours = recorded(text, "evenload:cpu_max_1h", "172.16.0.2:9100")
    at = max(averages)
    assert NOW - 60 <= at < NOW
    grid = [at - NOW + CLOCK - back for back in range(0, 300, 30)]
    assert averages[at] == pytest.approx(sum(use(made, 1, moment) for moment in grid) / 10, abs=1e-4)
    assert min(averages) == pytest.approx(NOW - playing.HOUR_SECONDS, abs=60)
    assert min(hours) == pytest.approx(NOW - playing.DAY_SECONDS, abs=300)
    latest = max(hours)
    assert hours[latest] >= max(value for moment, value in averages.items() if moment <= latest) - 1e-4
    assert text.endswith("# EOF\n")


def test_nodes_are_about_half_full_and_replicas_of_a_job_are_told_apart() -> None:
    made = playing.cast(200, 4, 1, None)
    assert 0.4 < sum(use(made, node, CLOCK) for node in range(200)) / 200 < 0.7
    assert len({(player.job, player.ordinal) for player in made.players}) == 800


def test_counters_are_summed_over_results_and_read_by_label() -> None:
    text = """
evenload_annotator_syncs_total{result="whole"} 7.0
evenload_annotator_syncs_total{result="partial"} 1.0
evenload_annotator_node_patches_total{result="written"} 5.0
evenload_annotator_node_patches_total{result="failed"} 2.0
evenload_annotator_nodes{state="matched"} 3.0
evenload_annotator_nodes{state="unmatched"} 2.0
"""
    seen = annotator.parse_metrics(text, 1.0, 80.0)
    assert (seen.syncs, seen.patches, seen.matched, seen.memory_mebibytes) == (8, 5, 3, 80.0)
