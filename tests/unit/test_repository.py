"""Files that a fork expects: workflows and hooks call the targets that people call, and obey their schema."""

import importlib
import pathlib
import re
from typing import Any, Final

import pytest
import yaml
from click import testing

ROOT: Final = pathlib.Path(__file__).parents[2]
WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
HOOKS: Final = ROOT / ".pre-commit-config.yaml"
PINNED: Final = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40}")
TARGETS, LAB_TARGETS = (
    frozenset(re.findall(r"^([a-z-]+):", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))
    for name in ("Makefile", "lab/Makefile")
)


def validated(schema: str, file: pathlib.Path) -> testing.Result:
    """The linter's answer about a file."""
    check_jsonschema = importlib.import_module("check_jsonschema")  # here: it takes two seconds
    return testing.CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", schema, str(file)])


def steps(workflow: pathlib.Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def test_the_workflows_are_valid_and_a_wrong_one_is_not(tmp_path: pathlib.Path) -> None:
    assert WORKFLOWS
    for workflow in WORKFLOWS:
        answer = validated("vendor.github-workflows", workflow)
        assert answer.exit_code == 0, answer.output
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(WORKFLOWS[0].read_text(encoding="utf-8").replace("runs-on:", "runs:"), encoding="utf-8")
    assert validated("vendor.github-workflows", wrong).exit_code == 1


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_targets_of_the_makefile_and_pinned_actions(workflow: pathlib.Path) -> None:
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    assert commands
    for command in commands:
        program, *directory, target = command.split()
        known = {(): TARGETS, ("-C", "lab"): LAB_TARGETS}[tuple(directory)]
        assert (program, target in known) == ("make", True), command
    actions = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert all(PINNED.fullmatch(action) for action in actions), actions


def test_hooks_call_targets_of_the_makefile() -> None:
    (repository,) = yaml.safe_load(HOOKS.read_text(encoding="utf-8"))["repos"]
    entries = [hook["entry"].split() for hook in repository["hooks"]]
    assert [program for program, _ in entries] == ["make"] * 2
    assert {target for _, target in entries} <= TARGETS
