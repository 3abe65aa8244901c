"""Public reports about what commands answer: what is not known is said, and never shown as nothing."""

from pathlib import Path

from runtime import clock
from tests.reports.register import Before, behaviour, reported, situation
from tests.unit.cli import deschedulers
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
