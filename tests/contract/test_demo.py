"""`make run` in small on the real control plane: both phases, the table as JSON, nothing left, and Ctrl-C cleans up."""

import collections.abc
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from typing import NamedTuple

import numpy as np
import pytest

from kube import config, kinds
from lab.pictures import panels
from policy.schema import load_policy
from promql.http import client
from tests import starting
from tests.e2e import bodies, waiting

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

ROOT = pathlib.Path(__file__).parents[2]
SMALL = ["--nodes", "3", "--span", "8", "--settle", "6", "-o", "json"]
_NEVER = threading.Event()
# Queries of the dashboard without a number after a small run, with the reason; `make -C lab pictures` draws a long one.
_NO_EVICTION = "a small run may end before an eviction"
_ALL_WELL = "a label appears with the first failure"
MAY_BE_SILENT = {
    "Degraded answers per second by cause: {{cause}}": _ALL_WELL,
    "Failures of queries to Prometheus: failed per second, {{metric}}": _ALL_WELL,
    "Failures of queries to Prometheus: refused values per second, {{reason}}": _ALL_WELL,
    "The replicas' data and work: fast path {{exception}} {{instance}}": _ALL_WELL,
    "Placements in shadow mode, over the last hour: points below the best, on average": "no extender shadows",
    "Ledger set aside: ago": "no ledger was corrupt",
    "Rejections per second by reason: {{reason}}": "no node may have been over a line of the filter",
    "Evictions by result: {{mode}} {{result}}": _NO_EVICTION,
    "Evictions by the metric that was over its line: {{metric}}": _NO_EVICTION,
    "Workloads with the most evictions: {{workload_namespace}} {{kind}}/{{workload}}": _NO_EVICTION,
    "Errors of predictions, last day: {{after}}, {{side}}": _NO_EVICTION,
    "Pods of overloaded nodes by verdict: {{verdict}}": "no node may have been overloaded",
    "Overloaded nodes, and evictions left: without a Ready replacement": "no node may have been overloaded",
    "Effective share: stayed so for an hour": "the demo lasts no hour",
    "Pods that wait: {{queue}}": "kube-scheduler's own metrics are not scraped here",
    "Last reload of a file succeeded: TLS, {{instance}}": "the demo's extender has no TLS",
    "Load by cpu_max_1d: line {{line}}": "the policy has no line for the maximum of a day",
    "Load by memory_max_1d: line {{line}}": "the policy has no line for the maximum of a day",
}


@contextlib.contextmanager
def demo(tmp_path: pathlib.Path, *arguments: str) -> collections.abc.Iterator[subprocess.Popen[str]]:
    """The demo as a process of its own, with a temporary folder of its own; it ends with the body, whatever happens."""
    command = [sys.executable, "-m", "lab.cluster.demo", *arguments]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # one that has ended notices nothing


def left_running(tmp_path: pathlib.Path) -> list[str]:
    """Command lines of living processes that speak of the temporary folder."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(tmp_path) in words:
            found.append(words)
    return found


def test_ctrl_c_ends_everything_that_was_started(tmp_path: pathlib.Path) -> None:
    with demo(tmp_path, *SMALL) as process:
        limit = time.monotonic() + 300
        while not any("annotator" in words for words in left_running(tmp_path)):
            assert process.poll() is None, f"the demo ended before the annotator was there: {process.communicate()}"
            assert time.monotonic() < limit, "no annotator within five minutes"
            _NEVER.wait(0.2)
        process.send_signal(signal.SIGINT)
        _, progress = process.communicate(timeout=400)
    assert process.returncode == 130, progress
    assert "everything that was started has been stopped" in progress
    assert left_running(tmp_path) == []


def test_a_policy_with_mistakes_is_refused_before_anything_starts(tmp_path: pathlib.Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("kind: LoadPolicy\nsync: {perod: 1s}\n", encoding="utf-8")
    with demo(tmp_path, "--policy", str(policy)) as process:
        out, complaint = process.communicate(timeout=240)
    assert process.returncode == 2, complaint
    assert out == ""
    assert f"{policy}:2:" in complaint
    assert "Traceback" not in complaint


class KeptDemo(NamedTuple):
    """A demo that has ended and left its second cluster and its services running: what it wrote, and where they are."""

    table: str
    progress: str
    kubeconfig: pathlib.Path
    prometheus_url: str


@pytest.fixture(scope="module")
def kept_demo(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[KeptDemo]:
    """A small run with `--keep`; afterwards its cluster is ended as it says, and nothing is left."""
    scratch = tmp_path_factory.mktemp("kept")
    with demo(scratch, *SMALL, "--keep") as process:
        table, progress = process.communicate(timeout=800)
    (directory,) = (line.split()[-1] for line in progress.splitlines() if line.startswith("End it with:"))
    try:
        assert process.returncode == 0, progress
        kept = pathlib.Path(directory)
        assert [words for words in left_running(scratch) if str(kept) not in words] == [], "of the first cluster"
        yield KeptDemo(table, progress, kept / "kubeconfig", prometheus_url(progress))
    finally:
        down = [sys.executable, "-m", "lab.cluster", "down", "--directory", directory]
        subprocess.run(down, cwd=ROOT, check=True, capture_output=True, timeout=300)
    assert left_running(scratch) == []


def prometheus_url(progress: str) -> str:
    """The address that the demo prints at its end."""
    (url,) = (line.split()[-1] for line in progress.splitlines() if line.strip().startswith("Prometheus:"))
    return url


def test_a_small_run_ends_with_the_figures_of_both_phases(kept_demo: KeptDemo) -> None:
    found = json.loads(kept_demo.table)
    assert found["settings"]["seed"] == 1
    for phase in ("plain", "evenload"):
        value = {key: row[phase] for key, row in found["figures"].items()}
        assert value["pdb_violations"] == 0
        assert value["pods_bound"] >= found["settings"]["pods"] * 0.9
        assert 0 < value["total_schedule_count"] <= value["pods_bound"]
        assert 0 < value["cpu_mean_ratio"] < 1
        assert value["cpu_mean_ratio"] <= value["cpu_p99_ratio"] <= 1
    assert found["figures"]["evictions"]["plain"] == 0
    assert "plain: starting" in kept_demo.progress
    assert "evenload: starting" in kept_demo.progress


def test_a_kept_cluster_is_sound_and_its_services_are_found_by_kubeconfig(kept_demo: KeptDemo) -> None:
    environment = {"KUBECONFIG": str(kept_demo.kubeconfig)}
    lines = kept_demo.progress.splitlines()
    asked = [line.split()[1:] for line in lines if "bin/evenload " in line and "$(" not in line]
    answers = {words[0]: starting.run(starting.Command("cli", tuple(words), environment)) for words in asked}
    assert set(answers) == {"doctor", "nodes", "plan", "evictions", "breaker", "effectiveness"}
    # an hour reaches back to before the run: the figures are of all of it, and the exit code says that data are younger
    effectiveness = answers.pop("effectiveness")
    assert effectiveness.returncode == 4, effectiveness
    assert "thin data: " in effectiveness.stderr
    failed = {name: one.stdout + one.stderr for name, one in answers.items() if one.returncode}
    assert not failed, failed


def test_every_query_of_the_dashboard_has_answers(kept_demo: KeptDemo) -> None:
    """Grafana repeats a panel for every metric of the policy and replaces variables of its queries; so does this.

    A rate needs a scrape before and one after. A busy machine may leave none in the demo's eight seconds, so more pods
    come once Prometheus knows the counters.
    """
    page = json.loads((ROOT / "deploy" / "monitoring" / "dashboard.json").read_text(encoding="utf-8"))
    with contextlib.closing(client.connect(kept_demo.prometheus_url, timeout_seconds=60.0)) as door:
        values = panels.values_query(page, "metric")
        metrics = sorted(labels[values.legend] for labels in door.query(values.expression).labels)
        assert metrics == sorted(metric.name for metric in load_policy.defaults().metrics_in_force)
        queries = [
            (f"{panel.title}: {query.legend}", query.expression)
            for panel in panels.on_page(page, metrics, "1h")
            for query in panel.queries
        ]
        assert {name for name, _ in queries} >= MAY_BE_SILENT.keys()

        def silent() -> list[str]:
            loud = {name for name, expression in queries if np.isfinite(door.query(expression).values).any()}
            return sorted({name for name, _ in queries} - loud - MAY_BE_SILENT.keys())

        known = "count(evenload_extender_request_duration_seconds_count) and count(evenload_total_schedule_count)"
        waiting.until(lambda: door.query(known).samples, "both counters to be scraped")
        with contextlib.closing(config.connect(kept_demo.kubeconfig)) as kube:
            for index in range(12):
                kube.create(kinds.PODS, bodies.pod(f"more-{index}"), namespace="demo")
        waiting.until(lambda: not silent(), "every query to have an answer", silent)
