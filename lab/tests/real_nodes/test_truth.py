"""The figures of a run on real nodes, from a record of which the answers are known."""

import pathlib

import pytest

from lab.real_nodes.truth import figures, picture, recorder, scenes, tables
from lab.real_nodes.truth.measuring import Run, Scene
from lab.tests.real_nodes.nodes import Document

CASE = scenes.CASES[0]  # memory of rn2, a window of a minute
POINT = int(figures.BYTES_PER_POINT)
STEP, EVICTED, GONE, END = 200.0, 262.0, 265.0, 400.0
BEGAN = STEP + 3
LEAVING = recorder.Pod("u1", "small-1", "rn2", "small", 1.0, 2.0, EVICTED + 0.4)
REPLACEMENT = recorder.Pod("u2", "small-2", "rn3", "small", EVICTED + 1, EVICTED + 9)
STEP_POD = recorder.Pod("s", CASE.step.name, "rn2", "", STEP + 1, STEP + 4)


def points(at_seconds: float) -> float:
    """The node's memory: at rest 60, after the step 85, after the eviction 75."""
    return 60 + 25 * (at_seconds >= BEGAN) - 10 * (at_seconds > GONE)


def sample(second: int) -> recorder.Sample:
    uses = {"rn2": recorder.Use(0.2 * second, points(second) * POINT)}
    if second <= GONE:
        uses["u1"] = recorder.Use(0.05 * second, 9 * POINT)
    if second >= BEGAN:
        uses["s"] = recorder.Use(0.0, 25 * POINT)
    return recorder.Sample(float(second), uses)


def reading(at_seconds: float, value: float, source: str = "60", subject: str = "rn2") -> recorder.Reading:
    return recorder.Reading(at_seconds, source, subject, "memory", value)


def run(*readings: recorder.Reading) -> Run:
    record = recorder.Record(
        [sample(second) for second in range(410)],
        [*readings],
        {pod.uid: pod for pod in (LEAVING, REPLACEMENT, STEP_POD)},
    )
    row: Document = {
        "pod_uid": "u1",
        "result": "evicted",
        "cpu_millicores": 50.0,
        "memory_bytes": 9 * POINT,
        "intended_at": "1970-01-01T00:04:22Z",
    }
    return Run(record, [Scene(CASE, 20.0, STEP, END)], [row])


def test_a_pod_that_ends_between_two_lists_leaves_by_the_second() -> None:
    item = {
        "metadata": {"name": "small-1", "uid": "u1", "ownerReferences": [{"name": "small-5dc4"}]},
        "spec": {"nodeName": "rn2"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    there = recorder.followed({}, [item], 10.0)
    assert there == {"u1": recorder.Pod("u1", "small-1", "rn2", "small", 10.0, 10.0)}
    ended = recorder.followed(there, [], 11.0)
    assert ended == {"u1": there["u1"]._replace(leaving_at_seconds=11.0)}
    assert recorder.followed(ended, [], 12.0) == ended


def test_a_mean_covers_its_span_or_is_absent() -> None:
    history = figures.History(run().record.samples, "rn2")
    assert history.mean("memory", 100, 160) == pytest.approx(60)
    assert history.mean("memory", BEGAN - 30, BEGAN + 30) == pytest.approx(72.5)
    assert history.mean("cpu", 100.5, 160.2) == pytest.approx(20)
    assert history.mean("memory", 380, 440) is None
    assert figures.History(run().record.samples, "u1").mean("memory", 250, 300) is None
    assert figures.History([], "rn2").mean("cpu", 0, 1) is None


def test_errors_are_against_the_window_and_by_phase() -> None:
    rest, step, after = reading(150, 0.61), reading(BEGAN + 30, 0.725), reading(GONE + 30, 0.70)
    other = (reading(150, 0.9, "300"), reading(60, 0.9), reading(150, 0.9, subject="rn1"))
    scene_run = run(rest, step, after, *other)
    errors = figures.errors_of(scene_run, scene_run.scenes[0], "60", of_pods=False)
    assert list(errors) == ["at rest", "after the step", "after evictions"]
    assert errors["at rest"] == pytest.approx((1.0, 1.0), abs=0.01)
    assert errors["after the step"].worst < 0.5
    assert errors["after evictions"].mean == pytest.approx(80 - 70, abs=0.5)
    of_pods = run(reading(150, 8 * POINT, subject="u1"))
    assert figures.errors_of(of_pods, of_pods.scenes[0], "60", of_pods=True)["at rest"].mean == pytest.approx(1.0)


def test_relief_is_compared_with_the_node() -> None:
    scene_run = run()
    (relief,) = figures.reliefs(scene_run, scene_run.scenes[0])
    assert (relief.pod, round(relief.predicted, 2), round(relief.measured, 2)) == ("small-1", 9, 10)


def test_delays_count_from_the_load_that_began() -> None:
    scene_run = run(
        reading(BEGAN + 40, 0.79), reading(BEGAN + 50, 0.81), reading(BEGAN + 57, 0.82, "annotation avg_1m")
    )
    assert list(figures.delays_seconds(scene_run, scene_run.scenes[0]).values()) == pytest.approx(
        [49, 50, 57, 59, EVICTED + 0.4 - BEGAN, GONE - BEGAN, EVICTED + 9 - BEGAN], abs=1.1
    )
    missing = run()._replace(evictions=[])
    delays = figures.delays_seconds(missing, missing.scenes[0])
    assert (delays["the query's answer is"], delays["the descheduler decides"]) == (None, None)


def test_tables_have_a_row_for_each_figure() -> None:
    text = "\n".join(tables.all_of(run(reading(150, 0.61))))
    assert "| node, memory, 1 min | 1.0, 1.0 | - | - | - |" in text
    assert "| memory, shortest | 1 | 9.0 | 1.0, 1.0 |" in text
    assert "| the query's answer is | - |" in text
    assert {line.count("|") for line in text.splitlines()} == {3, 5, 6}


def test_the_picture_has_nodes_steps_and_evictions(tmp_path: pathlib.Path) -> None:
    drawing = picture.drawn(run())
    memory, cpu = drawing.axes
    assert [line.get_label() for line in memory.lines[:3]] == ["rn1", "rn2", "rn3"]
    assert [text.get_text() for text in memory.texts] == ["load on rn2, shortest", "small"]
    assert not cpu.texts  # the case is about memory
    picture.save(drawing, tmp_path / "real-nodes.png")
    assert (tmp_path / "real-nodes.png").read_bytes().startswith(b"\x89PNG")


def test_workloads_fit_their_nodes() -> None:
    """At rest each node is under the lines at which its case begins, and over them with the step."""
    for case in scenes.CASES:
        every = (*scenes.WORKLOADS, *scenes.STANDING)
        pods = [each for each in every if case.part in (scenes.SHORTEST, each.part)]
        used = sum(
            each.nodes.count(case.node) * (each.millicores / 10 if case.resource == "cpu" else each.mebibytes / 20.48)
            for each in pods
        )
        step = case.step.millicores / 10 if case.resource == "cpu" else case.step.mebibytes / 20.48
        assert used + 4 < 100 * case.line_ratio < used + 20 + step, case
