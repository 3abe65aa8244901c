"""What simulate, demo and whatif share: which policies are tried under which names, and how the answer is shown."""

import dataclasses
import json
import pathlib

import click.testing
import pytest
import yaml

from simulator import runs, world
from simulator.commands import simulate, studies
from simulator.workloads import generator, trace_files
from tests.unit.simulator import outcomes


def wish(**changes: object) -> studies.Wish:
    """What `evenload simulate` is asked for without options."""
    given: dict[str, object] = {
        "policies": (), "seed": 1, "seed_count": 1, "as_written": False, "no_extender": False, "no_descheduler": False,
        "workers": None, "html": None, "output_format": "table",
    }  # fmt: skip
    return studies.prepared(**(given | changes))  # type: ignore[arg-type]


def test_without_options_the_shipped_policy_is_tried_beside_plain_on_all_processors() -> None:
    found = wish()
    assert [variant.name for variant in found.variants] == ["plain", "default"]
    assert found.variants[0].policy is None
    assert (found.seeds, found.workers, found.simulation) == ((1,), runs.processors(), runs.Simulation())


def test_seeds_are_counted_up_and_services_can_be_left_out() -> None:
    found = wish(seed=5, seed_count=3, as_written=True, no_extender=True, no_descheduler=True, workers=1)
    assert found.seeds == (5, 6, 7)
    conditions = world.Setup(None, enforce=False, extender=False, descheduler=False)
    assert found.simulation == runs.Simulation(conditions)


def test_policies_of_one_name_are_told_apart_and_none_is_called_plain(tmp_path: pathlib.Path) -> None:
    paths = [tmp_path / "a" / "policy.yaml", tmp_path / "b" / "policy.yaml", tmp_path / "plain.yaml"]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text(outcomes.POLICY_TEXT, encoding="utf-8")
    found = wish(policies=tuple(map(str, paths))).variants
    assert [variant.name for variant in found] == ["plain", "policy", "policy-2", "plain-2"]
    assert {variant.text for variant in found[1:]} == {outcomes.POLICY_TEXT}
    assert found[1].source == str(paths[0])


def test_a_policy_that_is_refused_ends_the_command_with_all_its_problems(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(outcomes.POLICY_TEXT + "filtr: {}\nscore: {combine: best}\n", encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        wish(policies=(str(path),))
    assert ended.value.code == 2
    assert f"2 problems in {path}" in capsys.readouterr().err


def test_a_report_without_a_place_is_refused_before_anything_runs(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        wish(html=tmp_path / "missing" / "report.html")
    assert ended.value.code == 2
    assert "there is no directory" in capsys.readouterr().err


def test_a_report_that_may_not_be_written_is_refused_as_early(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda _path, _mode: False)  # root may write everywhere
    with pytest.raises(SystemExit) as ended:
        wish(html=tmp_path / "report.html")
    assert ended.value.code == 2
    assert "report.html cannot be written: check the permissions" in capsys.readouterr().err


def test_the_answer_is_a_table_on_stdout_and_a_report_where_asked(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.html"
    studies.show(outcomes.study_of(), wish(html=report))
    out, said = capsys.readouterr()
    assert "node-minutes over 80 % CPU" in out
    assert "- Memory is never reclaimed." in out
    assert said == f"report: {report}\n"
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("output_format", ["json", "yaml"])
def test_machine_formats_carry_the_document(output_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    studies.show(outcomes.study_of(), wish(output_format=output_format))
    text = capsys.readouterr().out
    found = json.loads(text) if output_format == "json" else yaml.safe_load(text)
    assert found["baseline"] == "plain"
    assert found["figures"]["evictions"]["variants"]["policy.yaml"]["median"] == 9


def test_names_in_others_files_do_not_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = "trace\x1b]52;c;eA==\x07\x9b2J\u202e [link=http://evil]"
    study = dataclasses.replace(outcomes.study_of(), title=name)
    studies.show(study, wish())
    printed = capsys.readouterr().out
    assert not set(printed) & set("\x07\x1b\x9b\u202e")
    assert "trace\\u001b]52;c;eA==" in printed
    assert "[link=http://evil]" in printed, "markup of others is text"


def test_a_finding_is_said_on_stderr_and_in_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    ours = dataclasses.replace(outcomes.outcome("policy.yaml"), violations=("shop/web: 1 of 2 ready",))
    with pytest.raises(SystemExit) as ended:
        studies.show(outcomes.study_of((outcomes.outcome(),), (ours,)), wish())
    assert ended.value.code == 1
    assert "policy.yaml, seed 1: PDB violated: shop/web: 1 of 2 ready" in capsys.readouterr().err


def test_pods_without_a_node_are_a_finding_only_where_plain_had_fewer() -> None:
    left = dataclasses.replace(outcomes.outcome(), unplaced=("a/x",))
    same = dataclasses.replace(outcomes.outcome("policy.yaml"), unplaced=("a/y",))
    more = dataclasses.replace(same, unplaced=tuple(f"a/{number}" for number in range(7)))
    assert outcomes.study_of((left,), (same,)).findings() == ()
    assert outcomes.study_of((left,), (more,)).findings() == (
        "policy.yaml, seed 1: 7 pods never found a node, 1 in plain: a/0, a/1, a/2, a/3, a/4 and 2 more",
    )


def test_without_options_the_workload_is_the_demos() -> None:
    assert simulate.generated({}) == generator.GeneratedScenarios(generator.DEMO)


def test_more_nodes_and_days_bring_more_pods() -> None:
    found = simulate.generated({"nodes": 100, "days": 7.0, "rule": "careful"})
    assert isinstance(found, generator.GeneratedScenarios)
    assert (found.shape.nodes, found.shape.pods, found.shape.rule) == (100, 12_750, "careful")


def test_a_traces_days_rule_and_fill_can_be_chosen() -> None:
    found = simulate.traced(pathlib.Path("/jobs.npz"), {"days": 0.5, "rule": "guessing", "request_fill": 0.7})
    assert isinstance(found, trace_files.TracedScenarios)
    assert (found.rule, found.recipe.days, found.recipe.fill_ratio) == ("guessing", 0.5, 0.7)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--trace", "given.npz", "--nodes", "5", "--cpu-fill", "0.5"), "--nodes, --cpu-fill with --trace: load is"),
        (("--history", "given.npz", "--days", "2"), "--days with --history: everything is as it was recorded"),
        (("--history", "given.npz", "--trace", "given.npz"), "--trace with --history: give one of them"),
        (("--history", "given.npz"), "given.npz: not a recorded history"),
        (("--trace", "given.npz"), "given.npz"),
        (("--nodes", "10", "--pods", "20"), "20"),
        (("--days", "0"), "--days"),
    ],
)
def test_what_cannot_be_played_is_refused_with_the_reason(
    options: tuple[str, ...], words: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "given.npz").write_bytes(b"no archive")
    result = click.testing.CliRunner().invoke(simulate.main, list(options))
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


def test_names_of_a_study_are_in_its_facts() -> None:
    scenario = generator.GeneratedScenarios(dataclasses.replace(generator.DEMO, nodes=5, pods=60, days=0.25)).scenario(
        1
    )
    found = studies.facts(scenario, wish(seed=3, seed_count=2))
    assert (found["seeds"], found["nodes"], found["days"], found["step s"]) == ("3 to 4", 5, 0.25, 300)
    assert found["pods"] == len(scenario.replicas)
