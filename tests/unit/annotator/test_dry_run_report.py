"""The lines of --once: every write of a dry run, marked as such, and one JSON document on request."""

import json
import threading

import prometheus_client
import pytest

from annotator import metrics, sync_outcome
from annotator.publish import node_writer
from kube import errors
from tests.unit.annotator import test_node_sync


def synced(*, dry_run: bool, refused: str = "") -> tuple[sync_outcome.Outcome, node_writer.Writer]:
    """One sync over two nodes; the apiserver refuses writes to `refused`."""
    bench = test_node_sync.Bench()
    bench.load(node_1=0.2, node_2=0.6)
    if refused:
        bench.kube.fail(refused, errors.Forbidden("PATCH", status=403, reason="Forbidden", message="no rights"))
    telemetry = metrics.Telemetry(prometheus_client.CollectorRegistry(), bench.clock.now)
    writer = node_writer.Writer(bench.kube, telemetry, clock=bench.clock, stop=threading.Event(), dry_run=dry_run)
    bench.begin(bench.prometheus, writer=writer)
    return bench.sync(), writer


def test_every_write_of_a_dry_run_is_a_line_that_says_so() -> None:
    lines = sync_outcome.lines(*synced(dry_run=True), "text")
    assert [line.split("{")[0] for line in lines[:2]] == ["DRY RUN Node node-1 ", "DRY RUN Node node-2 "]
    body = json.loads(lines[0].removeprefix("DRY RUN Node node-1 "))
    assert json.loads(body["metadata"]["annotations"]["evenload.io/load"])["m"]["cpu_avg_5m"] == 0.2
    assert "DRY RUN ConfigMap evenload-heartbeat" in lines[-1]


def test_a_write_that_the_apiserver_refuses_is_shown_as_one_that_would_fail() -> None:
    lines = sync_outcome.lines(*synced(dry_run=True, refused="node-1"), "text")
    assert "would fail" in lines[0]
    assert "no rights" in lines[0]


def test_a_real_sync_is_silent_as_text() -> None:
    assert sync_outcome.lines(*synced(dry_run=False), "text") == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_json_is_one_document(dry_run: bool) -> None:
    (line,) = sync_outcome.lines(*synced(dry_run=dry_run, refused="node-1"), "json")
    document = json.loads(line)
    assert document["dryRun"] is dry_run
    assert document["patches"] == {"failed": 1, "written": 1}
    assert document["problems"] == ["node annotations not written: PATCH: 403 Forbidden: no rights"]
    if dry_run:
        assert [write["name"] for write in document["writes"][:2]] == ["node-1", "node-2"]
        assert "no rights" in document["writes"][0]["error"]
    else:
        assert "writes" not in document
