"""`evenload whatif` and `tune` from a file of a past to their answers; what cannot be is refused in a sentence."""

import dataclasses
import json
import pathlib

import click.testing
import numpy as np
import pytest

import cli.__main__
from policy.loading import loader
from simulator.history import past_file, rebuilding
from simulator.results.outcome import Timeline
from simulator.workloads import generator, splitting


def stored(path: pathlib.Path, steps: int) -> pathlib.Path:
    """A past in a file: a generated one, of which 48 % of CPU and 40 % of memory are said to have been measured."""
    scenario = splitting.part(generator.generate(1, generator.Shape(nodes=5, days=0.25, pods=40)), 0, steps)
    nodes = tuple(machine.name for machine in scenario.machines)
    measured = (
        np.full((scenario.steps, len(nodes)), 0.48, np.float32),
        np.full((scenario.steps, len(nodes)), 0.4, np.float32),
    )
    past_file.save(
        rebuilding.Past(scenario, Timeline(scenario.start_seconds, scenario.step_seconds, nodes, *measured)), path
    )
    return path


@pytest.fixture(scope="module")
def stored_past(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Six hours."""
    return stored(tmp_path_factory.mktemp("past") / "past.npz", steps=72)


def evenload(*words: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(cli.__main__.main, list(words))


def test_a_kept_past_is_replayed_under_each_policy(stored_past: pathlib.Path) -> None:
    result = evenload("whatif", "--history", str(stored_past), "--workers", "1", "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert sorted(found["figures"]["evictions"]["variants"]) == ["default", "plain"]
    assert found["assumptions"][0].startswith("really measured: CPU mean 48.0%, p99 48.0%, spread 0.0%, 0 node-minutes")


@pytest.mark.parametrize(
    ("factor", "words"),
    [(0.1, "points of mean memory from what was measured: do not decide by it"), (np.nan, "memory was never measured")],
)
def test_a_replay_that_is_unlike_the_past_is_refused_before_its_table(
    stored_past: pathlib.Path, tmp_path: pathlib.Path, factor: float, words: str
) -> None:
    past = past_file.load(stored_past)
    measured = dataclasses.replace(past.measured, memory_ratio=past.measured.memory_ratio * factor)
    past_file.save(dataclasses.replace(past, measured=measured), tmp_path / "unlike.npz")
    result = evenload("whatif", "--history", str(tmp_path / "unlike.npz"), "--workers", "1")
    assert result.exit_code == 1, result.output
    assert words in result.stderr
    assert result.output.index(words) < result.output.index("what this rests on:")


def test_simulate_replays_the_same_file(stored_past: pathlib.Path) -> None:
    whatif = json.loads(evenload("whatif", "--history", str(stored_past), "--workers", "1", "-o", "json").stdout)
    simulate = json.loads(evenload("simulate", "--history", str(stored_past), "--workers", "1", "-o", "json").stdout)
    assert simulate["figures"] == whatif["figures"]


@pytest.mark.parametrize("command", ["whatif", "tune"])
def test_a_file_that_is_no_past_is_refused_by_name(command: str, tmp_path: pathlib.Path) -> None:
    wrong = tmp_path / "wrong.npz"
    wrong.write_bytes(b"PK\x03\x04 and no more")
    result = evenload(command, "--history", str(wrong))
    assert result.exit_code == 2
    assert "wrong.npz: not a recorded history" in result.stderr


def test_a_past_is_in_one_place(stored_past: pathlib.Path) -> None:
    result = evenload("whatif", "--history", str(stored_past), "--prometheus", "http://127.0.0.1:9")
    assert result.exit_code == 2
    assert "give one of them" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("whatif", "--save", "/dev/null/past.npz", "--prometheus", "http://127.0.0.1:9"), "there is no directory"),
        (("tune", "--out", "/dev/null/tuned.yaml", "--generated"), "there is no directory"),
        (("demo", "--html", "/dev/null/demo.html"), "there is no directory"),
        (("tune", "--generated", "--prometheus", "http://127.0.0.1:9"), "--generated with --history or --prometheus"),
        (("tune", "--nodes", "20", "--prometheus", "http://127.0.0.1:9"), "are of a generated workload"),
    ],
)
def test_what_could_not_be_written_or_would_be_ignored_is_refused_first(words: tuple[str, ...], message: str) -> None:
    result = evenload(*words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_past_that_is_kept_is_not_saved_again(stored_past: pathlib.Path, tmp_path: pathlib.Path) -> None:
    result = evenload("whatif", "--history", str(stored_past), "--save", str(tmp_path / "again.npz"))
    assert result.exit_code == 2
    assert "the past is kept already" in result.stderr


def test_a_prometheus_that_is_away_is_code_3() -> None:
    result = evenload("whatif", "--prometheus", "http://127.0.0.1:9", "--since", "1h", "--cache", "/nonexistent")
    assert result.exit_code == 3
    assert "127.0.0.1:9" in result.stderr


def test_a_span_shorter_than_a_step_is_refused() -> None:
    result = evenload("whatif", "--prometheus", "http://127.0.0.1:9", "--since", "2m")
    assert result.exit_code == 2
    assert "no whole step of 300 s" in result.stderr


def test_tune_writes_a_policy_that_loads_and_says_what_was_searched(
    stored_past: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    out = tmp_path / "tuned.yaml"
    words = ["--history", str(stored_past), "--trials", "3", "--seeds", "1", "--vary", "filter", "--out", str(out)]
    result = evenload("tune", *words)
    assert result.exit_code in (0, 1), result.output
    text = out.read_text(encoding="utf-8")
    loader.load(text, "tuned.yaml")
    head = [line for line in text.splitlines() if line.startswith("#")]
    assert (
        head[0]
        == "# evenload tune: least hot-node-minutes with at most 24 evictions a day, from preset default, 3 trials"
    )
    assert head[1].startswith("# searched on the first 43 of 72 steps of ")
    assert (result.exit_code == 1) == any(line.startswith("# warning: ") for line in head)
    assert ("# nothing better was found: this is the given policy" in head) != ("   # was " in text)


def test_a_past_of_few_steps_is_not_split(tmp_path: pathlib.Path) -> None:
    result = evenload("tune", "--history", str(stored(tmp_path / "short.npz", steps=9)), "--trials", "2")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: tune needs a past of 10 steps, and this has 9, of 300 s: give a longer --since" in result.stderr


def test_a_policy_that_cannot_be_written_at_last_is_on_stdout(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "full.yaml"
    out.symlink_to("/dev/full")
    words = ["--generated", "--nodes", "4", "--days", "0.05", "--trials", "2", "--seeds", "1", "--vary", "filter"]
    result = evenload("tune", *words, "--out", str(out))
    assert result.exit_code == 2
    assert "full.yaml cannot be written: No space left on device; the policy is on stdout" in result.stderr
    loader.load(result.stdout, "tuned.yaml")


def test_tune_on_generated_workloads_holds_other_seeds_back() -> None:
    words = ["--generated", "--nodes", "4", "--days", "0.1", "--trials", "2", "--seeds", "1", "--vary", "descheduler"]
    result = evenload("tune", *words)
    assert result.exit_code in (0, 1), result.output
    assert "searched on generated workloads of seeds 1; held back were those of seeds 2" in result.stderr
    loader.load(result.stdout, "tuned.yaml")
