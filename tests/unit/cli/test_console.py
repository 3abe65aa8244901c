"""`evenload console`: the playground's judgement of a policy, options that are refused, no simulator."""

import pathlib
import threading
from typing import Any

import click.testing
import pytest

from cli.common import http_client
from cli.console import command, live
from policy.schema import load_policy
from promql import errors
from promql.door import Sample
from promql.http import options
from promql.queries import pod_queries
from runtime import loop
from tests import builders, kubeconfigs
from tests.fake_prometheus import FakePrometheus

DOCUMENT = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"
IN_FORCE = load_policy.defaults().as_file()


def test_problems_of_a_policy_have_their_places() -> None:
    found: Any = live.check(f"{DOCUMENT}filter:\n  thresholds: {{cpu_avg_5m: 65}}\n", IN_FORCE)
    (problem,) = found["problems"]
    assert (problem["line"], problem["path"]) == (4, "filter.thresholds.cpu_avg_5m")
    assert found["differences"] == []


def test_a_sound_policy_says_what_differs_from_the_one_in_force() -> None:
    found = live.check(f"{DOCUMENT}filter:\n  thresholds: {{cpu_avg_5m: 0.5}}\n", IN_FORCE)
    assert found["problems"] == []
    assert "filter.thresholds.cpu_avg_5m: 0.65 -> 0.5" in found["differences"]  # type: ignore[operator]
    assert live.check(DOCUMENT, IN_FORCE)["differences"] == []
    assert live.check(DOCUMENT, {})["differences"] == []


def test_the_page_is_titled_by_context_and_cluster(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "config"
    file.write_text(kubeconfigs.text())
    urls: dict[str, Any] = {"extender": "http://127.0.0.1:1", "descheduler": None, "prometheus": "http://127.0.0.1:1"}
    doors = command.real(
        **urls, connection=options.Connection(), selector="", pool_label="", history=None, kubeconfig=str(file),
        context=None,
    )  # fmt: skip
    assert doors.title == "main http://127.0.0.1:1"


def test_pods_have_their_deployment_and_the_use_that_prometheus_knows() -> None:
    owner, labels = ("ReplicaSet", "web-5d9c7b6f4"), {"pod-template-hash": "5d9c7b6f4"}
    pods = [
        builders.pod("web-1", owner=owner, labels=labels),
        builders.pod("db-0", owner=("StatefulSet", "db"), cpu="2"),
    ]
    prometheus, selector = FakePrometheus(label="pod"), ",".join(('cluster="a"', pod_queries.naming(["db-0", "web-1"])))
    figures = {
        pod_queries.cpu_cores(300.0, selector=selector): 0.4,
        pod_queries.memory_bytes(300.0, selector=selector): 9.0,
    }
    figures |= {pod_queries.data_time(resource, selector=selector): 1.0 for resource in ("cpu", "memory")}
    for expression, value in figures.items():
        prometheus.answer_samples(expression, Sample({"namespace": "default", "pod": "web-1"}, value, 0.0))
    known, unknown = live.running(pods, prometheus, 'cluster="a"')
    assert (known.workload, known.cpu_used_millicores, known.memory_used_bytes) == ("Deployment/web", 400.0, 9.0)
    assert (unknown.workload, unknown.cpu_used_millicores) == ("StatefulSet/db", None)
    prometheus.fail(prometheus.asked[0], errors.Unreachable("away"))
    assert [pod.cpu_used_millicores for pod in live.running(pods, prometheus, 'cluster="a"')] == [None, None]


def test_its_address_is_the_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    stop.set()
    monkeypatch.setattr(loop, "stop_on_signals", lambda *_: stop)
    urls = ["--extender", "http://127.0.0.1:1", "--descheduler", "http://127.0.0.1:1"]
    result = click.testing.CliRunner().invoke(command.main, ["--listen", "127.0.0.1:0", *urls])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("open http://127.0.0.1:")


@pytest.mark.parametrize(("token", "message"), [("", "is empty"), ("short", "expected 16 or more")])
def test_a_token_that_anybody_could_guess_is_refused(tmp_path: pathlib.Path, token: str, message: str) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    arguments = ["--demo", "--token-file", str(file), "--demo-nodes", "2", "--demo-hours", "0"]
    result = click.testing.CliRunner().invoke(command.main, arguments)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("host", "local"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("10.0.0.1", False), ("", False)]
)
def test_it_is_known_when_only_this_machine_is_listened_to(host: str, local: bool) -> None:
    assert http_client.is_loopback(host) is local
