"""Public reports about what commands answer: what is not known is said, and never shown as nothing."""

from pathlib import Path

import pytest

from runtime import clock
from tests import commands
from tests.reports.register import Before, behaviour, reported, situation
from tests.unit.cli import clustered, deschedulers, extenders
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW


@reported("answers", "ministryofjustice/cloud-platform#957", "kubernetes/kubernetes#52521", before=Before.WRONG)
@situation("a morning after: the record of the night is gone, as the ledger was corrupt and begun anew")
@behaviour("`evictions` says since when it knows any, with exit code 4, and not just that there was none")
def test_a_lost_record_is_no_quiet_night(tmp_path: Path) -> None:
    with deschedulers.serving(scenes.hot_and_cool(), tmp_path, mode="Enforce") as served:
        served.world.service.run()
        served.world.ledger.set_aside("malformed", NOW + 60)
        served.world.clock.advance(3600)
        for words in (["--since", "12h"], ["--summary"], ["--events"], ["-o", "jsonl"]):
            assert f"begun anew at {clock.to_rfc3339(NOW + 60)}" in served.run("evictions", *words, code=4).stderr
        assert "begun anew" not in served.run("evictions", "--since", "58m", code=0).stderr


@reported("answers", "1Password/shell-plugins#526", "argoproj/argo-cd#12883", "roboll/helmfile#4", before=Before.WRONG)
@situation("the environment has the URL of one cluster's extender, the command line names another cluster")
@behaviour("the cluster of the command line is asked; a context that does not exist is an error")
def test_a_cluster_that_is_named_is_the_one_that_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with extenders.serving({"here": {}}) as ambient, extenders.serving({"there": {}}) as named:
        monkeypatch.setenv("EVENLOAD_EXTENDER", ambient.url)
        with clustered.serving(tmp_path, {"extender-0": named}) as (_, kubeconfig):
            answer = commands.document("nodes", "--kubeconfig", kubeconfig, codes=(4,))
            assert [node["name"] for node in answer["nodes"]] == ["there"]
            refused = commands.run("nodes", "--kubeconfig", kubeconfig, "--context", "nosuch", code=2)
    assert "'nosuch' is none of its contexts" in refused.stderr
    assert ambient.asked == []
