"""The control plane every other proof stands on is real: it schedules, runs, counts budgets, and ends cleanly.

One cluster of a hundred nodes serves most tests; those that end one start a small one beside it.
"""

import base64
import collections.abc
import contextlib
import datetime
import http.server
import json
import pathlib
import signal
import subprocess
import sys
import threading
import time
import typing

import pytest
import requests
import yaml

from lab import cluster
from lab.cluster import state
from tests.e2e import waiting

pytestmark = pytest.mark.cluster
ROOT = pathlib.Path(__file__).parents[3]
PODS = "api/v1/namespaces/default/pods"
OWNER: typing.Final = """\
import json, time; from lab import cluster
with cluster.Cluster(nodes=2, scheduler=False, prometheus=False, exporter=False, node_exporter=False) as running:
    nodes = sorted(node["metadata"]["name"] for node in running.api.items("api/v1/nodes"))
    print(json.dumps([str(running.directory), running.api_url, nodes, sorted(running.processes)]), flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def hundred() -> collections.abc.Iterator[cluster.Cluster]:
    """A cluster of a hundred nodes, which leaves nothing behind; load is not played here."""
    with cluster.Cluster(nodes=100, exporter=False, audit=True) as running:
        yield running
        directory, recorded = running.directory, state.read(running.directory)
        assert recorded is not None
        assert len(state.alive(recorded)) == len(running.processes)
    assert not directory.exists()
    assert state.alive(recorded) == ()


def eventually(probe: collections.abc.Callable[[], typing.Any], what: str) -> typing.Any:
    """The first true answer of `probe`."""
    return waiting.eventually(probe, waiting.LIMIT_SECONDS, what)


def pod_body(name: str, annotations: dict[str, str] | None = None, **spec: object) -> dict[str, object]:
    """A pod of one container, or a template when `name` is empty."""
    metadata = {"annotations": annotations or {}, "labels": {"app": name or "template"}}
    requests_ = {"cpu": "100m", "memory": "64Mi"}
    containers = [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests_}}]
    return {"metadata": {**metadata, **({"name": name} if name else {})}, "spec": {"containers": containers, **spec}}


def condition(running: cluster.Cluster, name: str, kind: str) -> str:
    """The status of a pod's condition, "" while it has none."""
    pod = running.api.get(f"{PODS}/{name}")
    found = {entry["type"]: str(entry["status"]) for entry in pod["status"].get("conditions", [])}
    return found.get(kind, "")


def await_ready(running: cluster.Cluster, name: str, status: str = "True") -> None:
    """Waits for the pod's Ready condition to be that."""
    eventually(lambda: condition(running, name, "Ready") == status, f"Ready={status} of {name}")


def seconds_until_ready(running: cluster.Cluster, name: str) -> float:
    """How long after its start a pod that is ready now became so, by its own status."""
    status = running.api.get(f"{PODS}/{name}")["status"]
    became = next(entry["lastTransitionTime"] for entry in status["conditions"] if entry["type"] == "Ready")
    began = status["containerStatuses"][0]["state"]["running"]["startedAt"]
    return (datetime.datetime.fromisoformat(became) - datetime.datetime.fromisoformat(began)).total_seconds()


def not_running(running: cluster.Cluster) -> list[str]:
    """The components that have ended."""
    return [name for name, process in running.processes.items() if not process.running]


def who_am_i(kubeconfig: pathlib.Path, directory: pathlib.Path) -> tuple[str, list[str], requests.Session, str]:
    """User and groups as the apiserver sees the holder of a kubeconfig, and a session to go on with."""
    document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    user, endpoint = document["users"][0]["user"], document["clusters"][0]["cluster"]
    session = requests.Session()
    session.trust_env = False
    files = {
        "ca": endpoint["certificate-authority-data"],
        "crt": user.get("client-certificate-data"),
        "key": user.get("client-key-data"),
    }
    for name, data in files.items():
        (directory / name).write_bytes(base64.b64decode(data or ""))
    session.verify = str(directory / "ca")
    if "token" in user:
        session.headers["Authorization"] = f"Bearer {user['token']}"
    else:
        session.cert = (str(directory / "crt"), str(directory / "key"))
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    url = f"{endpoint['server']}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = session.post(url, json=body, timeout=30).json()["status"]["userInfo"]
    return answer["username"], answer["groups"], session, endpoint["server"]


def test_a_hundred_nodes_are_ready_each_with_an_address_of_its_own(hundred: cluster.Cluster) -> None:
    found = hundred.api.items("api/v1/nodes")
    addresses = {
        entry["address"] for node in found for entry in node["status"]["addresses"] if entry["type"] == "InternalIP"
    }
    assert len(found) == len(addresses) == 100
    assert {node["status"]["allocatable"]["cpu"] for node in found} == {"8"}


def test_the_stamped_version_is_what_the_apiserver_says(hundred: cluster.Cluster) -> None:
    version = hundred.api.get("version")
    assert (version["major"], int(version["minor"].rstrip("+"))) >= ("1", 34)


def test_a_pod_is_scheduled_runs_and_is_ready(hundred: cluster.Cluster) -> None:
    hundred.api.create(PODS, pod_body("plain"))
    await_ready(hundred, "plain")
    pod = hundred.api.get(f"{PODS}/plain")
    assert pod["spec"]["nodeName"].startswith("node-")
    assert (pod["status"]["phase"], pod["status"]["containerStatuses"][0]["started"]) == ("Running", True)
    assert pod["status"]["podIP"]
    assert condition(hundred, "plain", "PodScheduled") == "True"


def test_the_disruption_controller_counts_a_budget(hundred: cluster.Cluster) -> None:
    labels = {"app": "counted"}
    template = pod_body("")
    typing.cast(dict[str, object], template["metadata"])["labels"] = labels
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    hundred.api.create("apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "counted"}, "spec": spec})
    budget = {"metadata": {"name": "counted"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": labels}}}
    budgets = "apis/policy/v1/namespaces/default/poddisruptionbudgets"
    hundred.api.create(budgets, budget)

    def status() -> dict[str, object]:
        found = hundred.api.get(f"{budgets}/counted").get("status", {})
        return found if found.get("currentHealthy") == 3 else {}

    assert eventually(status, "three healthy pods")["disruptionsAllowed"] == 1


def test_an_annotation_delays_or_forbids_readiness(hundred: cluster.Cluster) -> None:
    hundred.api.create(PODS, pod_body("late", {"cluster.evenload.io/ready-delay": "8s"}))
    hundred.api.create(PODS, pod_body("never", {"cluster.evenload.io/never-ready": "true"}))
    await_ready(hundred, "never", "False")
    await_ready(hundred, "late")
    assert seconds_until_ready(hundred, "late") >= 8
    never = hundred.api.get(f"{PODS}/never")
    assert (never["status"]["phase"], condition(hundred, "never", "Ready")) == ("Running", "False")


def test_an_annotation_delays_the_end_of_a_deleted_pod(hundred: cluster.Cluster) -> None:
    delay = "cluster.evenload.io/delete-delay"
    hundred.api.create(PODS, pod_body("lingers", {delay: "1h"}))
    hundred.api.create(PODS, pod_body("goes"))
    for name in ("lingers", "goes"):
        await_ready(hundred, name)
        hundred.api.delete(f"{PODS}/{name}")
    eventually(lambda: not hundred.api.exists(f"{PODS}/goes"), "the plain pod to go")
    assert hundred.api.get(f"{PODS}/lingers")["metadata"]["deletionTimestamp"]
    hundred.api.patch(f"{PODS}/lingers", {"metadata": {"annotations": {delay: "1s"}}})
    eventually(lambda: not hundred.api.exists(f"{PODS}/lingers"), "the delayed pod to go")


def test_a_job_completes(hundred: cluster.Cluster) -> None:
    template = pod_body("", restartPolicy="Never")
    hundred.api.create(
        "apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": "once"}, "spec": {"template": template}}
    )
    job = "apis/batch/v1/namespaces/default/jobs/once"
    eventually(lambda: hundred.api.get(job)["status"].get("succeeded") == 1, "the job to succeed")


def test_a_user_with_a_certificate_is_known_and_rbac_decides(hundred: cluster.Cluster, tmp_path: pathlib.Path) -> None:
    kubeconfig = hundred.kubeconfig_for("jane", ("watchers", "testers"))
    user, groups, session, url = who_am_i(kubeconfig, tmp_path)
    with session:
        assert user == "jane"
        assert set(groups) == {"testers", "watchers", "system:authenticated"}
        assert session.get(f"{url}/api/v1/nodes", timeout=30).status_code == 403


def test_a_service_account_has_a_kubeconfig(hundred: cluster.Cluster, tmp_path: pathlib.Path) -> None:
    user, groups, session, url = who_am_i(hundred.service_account_kubeconfig("default", "default"), tmp_path)
    with session:
        assert user == "system:serviceaccount:default:default"
        assert "system:serviceaccounts" in groups
        assert session.get(f"{url}/api/v1/nodes", timeout=30).status_code == 403


def test_the_audit_log_names_who_wrote(hundred: cluster.Cluster) -> None:
    def users() -> set[str]:
        *whole, _unfinished = (hundred.directory / "logs" / "audit.log").read_bytes().split(b"\n")
        return {json.loads(line)["user"]["username"] for line in whole}

    wanted = {"kubernetes-admin", "system:serviceaccount:kube-system:node-controller"}
    eventually(lambda: wanted <= users(), "a line of the admin's and one of the node controller's")


def test_the_real_node_exporter_is_scraped_under_its_own_address(hundred: cluster.Cluster) -> None:
    def instances() -> list[str]:
        query = {"query": 'up{job="node-exporter"} == 1'}
        answer = requests.get(f"{hundred.prometheus_url}/api/v1/query", params=query, timeout=30).json()
        return [entry["metric"]["instance"] for entry in answer["data"]["result"]]

    assert eventually(instances, "the first scrape") == [hundred.url("node-exporter").removeprefix("http://")]


def test_back_filled_history_is_there_after_prometheus_came_back(hundred: cluster.Cluster) -> None:
    then = time.time() - 7200
    hundred.backfill(f'# TYPE history gauge\nhistory{{node="node-0"}} 42 {then:.3f}\n')
    query: dict[str, str | float] = {"query": "history", "time": then + 1}
    answer = requests.get(f"{hundred.prometheus_url}/api/v1/query", params=query, timeout=30).json()
    assert answer["data"]["result"][0]["value"][1] == "42"


class Choosy(http.server.BaseHTTPRequestHandler):
    """An extender that lets only node-7 pass."""

    def do_POST(self) -> None:
        arguments = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        names = [name for name in arguments["NodeNames"] if name == "node-7"]
        body = json.dumps({"NodeNames": names, "FailedNodes": {}, "Error": ""}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextlib.contextmanager
def choosy_extender() -> collections.abc.Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Choosy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_the_scheduler_is_restarted_with_an_extender_and_asks_it(hundred: cluster.Cluster) -> None:
    with choosy_extender() as url:
        stanza = {"urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "2s"}
        hundred.start_scheduler(extenders=[stanza])
        for index in range(3):
            hundred.api.create(PODS, pod_body(f"choosy-{index}"))
            await_ready(hundred, f"choosy-{index}")
        landed = {hundred.api.get(f"{PODS}/choosy-{index}")["spec"]["nodeName"] for index in range(3)}
        hundred.start_scheduler()
    assert landed == {"node-7"}


def test_a_scheduler_that_refuses_its_configuration_shows_why(hundred: cluster.Cluster) -> None:
    with pytest.raises(cluster.ComponentError, match=r"kube-scheduler ended with exit code 1(?s:.)*notAField"):
        hundred.start_scheduler(extenders=[{"notAField": 1}])
    hundred.start_scheduler()
    assert hundred.processes["kube-scheduler"].running


def test_a_component_can_be_killed_paused_and_brought_back(hundred: cluster.Cluster) -> None:
    prometheus = hundred.processes["prometheus"]
    before = prometheus.pid
    assert prometheus.kill() == -signal.SIGKILL
    assert not prometheus.running
    prometheus.start()
    assert prometheus.pid != before
    prometheus.pause()
    with pytest.raises(requests.Timeout):
        requests.get(f"{hundred.prometheus_url}/-/ready", timeout=0.5)
    prometheus.resume()
    assert requests.get(f"{hundred.prometheus_url}/-/ready", timeout=30).status_code == 200


def test_nodes_can_join_later_with_a_shape_of_their_own(hundred: cluster.Cluster) -> None:
    shape = cluster.NodeShape(
        "big", cpu="64", memory="256Gi", labels={"pool": "big"}, taints=[("only", "big", "NoSchedule")]
    )
    hundred.add_nodes([shape])
    node = hundred.api.get("api/v1/nodes/big")
    hundred.api.delete("api/v1/nodes/big")  # whatever comes of it, others count nodes
    assert (node["status"]["allocatable"]["cpu"], node["metadata"]["labels"]["pool"]) == ("64", "big")
    assert node["spec"]["taints"] == [{"key": "only", "value": "big", "effect": "NoSchedule"}]


def test_of_two_clusters_one_ends_alone(hundred: cluster.Cluster) -> None:
    with cluster.Cluster(kubernetes=False, prometheus=False) as second:
        directory, recorded = second.directory, state.read(second.directory)
        assert recorded is not None
        assert [record.name for record in state.alive(recorded)] == ["node-exporter"]
    assert not directory.exists()
    assert state.alive(recorded) == ()
    assert not_running(hundred) == []


def command(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """`python -m lab.cluster WORDS`, which ends with that exit code."""
    ended = subprocess.run(
        [sys.executable, "-m", "lab.cluster", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == code, ended.stderr
    return ended


def test_down_ends_exactly_what_up_started(hundred: cluster.Cluster, tmp_path: pathlib.Path) -> None:
    directory = ["--directory", str(tmp_path / "mine")]
    with contextlib.ExitStack() as undo:
        undo.callback(command, "down", *directory)  # also when the test fails: nobody else would
        started = command("up", "--nodes", "1", "--no-exporter", *directory)
        assert f"export KUBECONFIG={tmp_path}/mine/kubeconfig" in started.stdout
        recorded = state.read(tmp_path / "mine")
        assert recorded is not None
        assert len(state.alive(recorded)) == 7
        assert "runs in" in command("up", *directory, code=2).stderr
    assert state.alive(recorded) == ()
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["logs"]
    assert not_running(hundred) == []


def test_clusters_run_side_by_side_and_a_killed_owner_leaves_nothing_behind(hundred: cluster.Cluster) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            folder, api_url, nodes, names = json.loads(owner.stdout.readline())
            directory = pathlib.Path(folder)
            recorded = state.read(directory)
            assert recorded is not None
            assert nodes == ["node-0", "node-1"]
            assert api_url != hundred.api_url
            assert sorted(record.name for record in state.alive(recorded)) == names
            assert {"etcd", "kube-apiserver", "kwok"} <= set(names)
        finally:
            owner.kill()
    eventually(lambda: not state.alive(recorded), "the watchdog to end everything")
    eventually(lambda: not directory.exists(), "the directory to go")
    assert not_running(hundred) == []
