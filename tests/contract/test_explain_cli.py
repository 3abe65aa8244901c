"""`evenload explain` and `evenload nodes` beside a real kube-scheduler: what is told is what was decided."""

import contextlib
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import ANY

import click.testing
import pytest
from playwright import sync_api

from kube import kinds
from lab import cluster
from lab.cluster import ports
from lab.cluster.demo import installing, permissions
from runtime.exit_codes import Exit
from tests import commands
from tests.browser import chromium
from tests.e2e import extender_world, services, waiting

pytestmark = pytest.mark.cluster
ROOT = pathlib.Path(__file__).parents[2]
LOADS = {"node-0": 0.9, "node-1": 0.1, "node-2": 0.5}


class World(extender_world.World):
    """A scheduler that asks an extender about one hot, one cool and one warm node."""

    @property
    def kubeconfig(self) -> str:
        """The administrator's."""
        return str(self.cluster.kubeconfig)

    def run(self, *words: str) -> click.testing.Result:
        """`evenload ...`, pointed at this extender."""
        return commands.run(*words, "--extender", self.extender.url)

    def document(self, *words: str) -> dict[str, Any]:
        """What a command prints as JSON."""
        return commands.document(*words, "--extender", self.extender.url, codes=(Exit.OK,))

    def remembered(self, pod: str) -> set[str]:
        """The verbs whose decisions about a pod the extender remembers: it notes them after it has answered."""
        return {decision["verb"] for decision in self.extender.rows(f"/decisions?pod={pod}")}

    def place(self, name: str) -> str:
        """Create a pod; the node the scheduler bound it to."""
        resources = {"requests": {"cpu": "500m", "memory": "64Mi"}}
        spec = {"containers": [{"name": "main", "image": "pause", "resources": resources}]}
        self.door.create(kinds.PODS, {"metadata": {"name": name}, "spec": spec}, namespace="default")
        return waiting.until(
            lambda: self.door.get(kinds.PODS, name, namespace="default").node_name, f"{name} to be bound"
        )


@pytest.fixture(scope="module")
def world(control_plane: cluster.Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The control plane with the extender in charge and the nodes annotated."""
    directory, host = tmp_path_factory.mktemp("explain"), ports.own_address()
    with extender_world.extending(control_plane, lambda running: World(running, directory, host)) as made:
        made.load(**{name.replace("-", "_"): ratio for name, ratio in LOADS.items()})
        waiting.until(lambda: made.run("nodes").exit_code == 0, "the extender to read all nodes")
        made.cluster.api.create("api/v1/namespaces", {"metadata": {"name": permissions.NAMESPACE}})
        account = f"{installing.CORE}/serviceaccounts/default"
        waiting.until(lambda: made.cluster.api.exists(account), account)
        installing.services(made.cluster, {"extender": made.extender.url})
        yield made


def test_explain_tells_the_real_decision_node_by_node(world: World) -> None:
    chosen = world.place("explained")
    waiting.until(lambda: world.remembered("explained") >= {"filter", "prioritize"}, "both decisions")
    waiting.until(lambda: world.document("explain", "pod", "explained")["bound_to"] == chosen, "the watch to show it")
    story = world.document("explain", "pod", "explained")
    assert story["source"] == "decision"
    rows = {row["name"]: row for row in story["nodes"]}
    assert set(rows) == set(LOADS)
    assert rows["node-0"]["rejected"] == "cpu_avg_5m over 0.65"
    assert rows["node-0"]["rules"][0]["reading"] == LOADS["node-0"]
    assert rows[chosen]["allowed"]
    assert rows["node-1"]["raw_score"] > rows["node-2"]["raw_score"]
    for row in (rows["node-1"], rows["node-2"]):
        means = [sum(row["terms"][name] for name in mean) for mean in story["means"]]
        assert min(means) == pytest.approx(row["own_base"])
        assert row["incoming"]["cpu_avg_5m"] == pytest.approx(0.7 * 500 / 8000)  # a node of 8 cores
        assert row["raw_score"] == pytest.approx(row["base"] - row["penalty"])
    assert rows["node-1"]["base"] == 10.0 > rows["node-2"]["base"], "stretched"
    shown = world.run("explain", "pod", "explained")
    assert "rejected: cpu_avg_5m 90.0% > 65%" in shown.stdout


def test_a_kubeconfig_is_enough_to_find_a_replica(world: World) -> None:
    chosen = world.place("found")
    waiting.until(lambda: world.remembered("found") >= {"filter", "prioritize"}, "both decisions")
    where = ("--kubeconfig", world.kubeconfig, "-o", "json")
    nodes = commands.run("nodes", *where)
    assert nodes.exit_code == 0, nodes.stderr
    assert {row["name"]: row["values"]["cpu_avg_5m"] for row in json.loads(nodes.stdout)["nodes"]} == LOADS
    assert f"extender of {world.door.url}" in nodes.stderr
    decided, now = (commands.run("explain", "pod", "found", *more, *where) for more in ([], ["--now"]))
    assert json.loads(decided.stdout)["source"] == "decision", decided.stderr
    story = json.loads(now.stdout)
    assert (story["source"], story["bound_to"]) == ("now", chosen), now.stderr
    assert {row["name"]: row["allowed"] for row in story["nodes"]} == {"node-0": False, "node-1": True, "node-2": True}


def test_a_decision_is_explained_after_every_replica_was_killed(world: World, tmp_path: pathlib.Path) -> None:
    """The descheduler has the rights that it ships with, and copies what rejected the hot node."""
    permissions.apply(world.cluster)
    options = ["--policy", str(world.policy), "--prometheus", world.cluster.prometheus_url, "--no-leader-elect"]
    options += ["--kubeconfig", str(permissions.kubeconfig(world.cluster, "descheduler"))]
    options += ["--ledger", str(tmp_path / "ledger"), "--extender", world.extender.url.removeprefix("http://")]
    descheduler = services.Service("descheduler", options, tmp_path)
    chosen = world.place("last-night")
    try:
        descheduler.start()
        waiting.until(lambda: descheduler.rows("/decisions?pod=last-night"), "the decision in the ledger", world.nodes)
        world.extender.kill()
        ask = ("explain", "pod", "last-night", "--descheduler", descheduler.url)
        without = world.run(*ask)
        world.extender.start()
        restarted = world.run(*ask)
    finally:
        descheduler.kill()
    assert (restarted.exit_code, restarted.stdout) == (without.exit_code, without.stdout) == (Exit.PARTIAL, ANY)
    assert "filter: 2 of 3 nodes asked about (1 cpu_avg_5m over 0.65)" in restarted.stdout
    assert f"it is on {chosen}" in restarted.stdout


@contextlib.contextmanager
def browsed(url: str) -> Iterator[sync_api.Page]:
    """A page of Chromium."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.path(), args=["--no-sandbox"])
        try:
            page = browser.new_page()
            page.goto(url)
            yield page
        finally:
            browser.close()


@pytest.mark.skipif(chromium.path() is None, reason="no Chromium: install Debian's package chromium")
def test_the_console_shows_the_cluster_in_a_browser(world: World, tmp_path: pathlib.Path) -> None:
    node = world.place("looked-at")
    waiting.until(lambda: world.remembered("looked-at") >= {"filter", "prioritize"}, "both decisions")
    with console_of(world, tmp_path) as url, browsed(url) as page:
        page.set_default_timeout(60_000)
        sync_api.expect(page.locator("#nodes-summary")).to_contain_text("3 nodes", timeout=60_000)
        sync_api.expect(page.locator("#nodes-summary")).to_contain_text("1 over a limit")
        page.locator("#map").focus()
        page.keyboard.press("Home")
        sync_api.expect(page.locator("#node")).to_contain_text("node-0")
        decided = page.locator("#decision-list tbody tr", has_text="default/looked-at")
        sync_api.expect(decided.locator("td").last).to_have_text(re.compile(f"^{node}"), timeout=60_000)
        decided.locator("button").click()
        sync_api.expect(page.locator("#decision")).to_contain_text("cpu_avg_5m over 0.65", timeout=60_000)
        page.locator("#find").fill(node)
        page.locator("#map").focus()
        page.keyboard.press("Home")
        sync_api.expect(page.locator("#pods")).to_contain_text("default/looked-at", timeout=60_000)
        sync_api.expect(page.locator("#loop a.bad[href='#plan']")).to_contain_text(
            "no pod behind Service evenload-system/evenload-descheduler"
        )


@contextlib.contextmanager
def console_of(world: World, tmp_path: pathlib.Path) -> Iterator[str]:
    """`evenload console` as a process; its URL."""
    port, log = services.free_port(), tmp_path / "console.log"
    command = [sys.executable, "-m", "cli", "console", "--listen", f"127.0.0.1:{port}"]
    command += ["--kubeconfig", world.kubeconfig]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
    try:
        waiting.until(lambda: "open http" in log.read_text(), "the console to listen")
        yield f"http://127.0.0.1:{port}/"
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
