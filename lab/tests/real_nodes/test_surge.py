"""The only pod of a Deployment leaves a hot node while a client asks its Service all the time; then it is evicted."""

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator

from lab.tests.real_nodes import burners
from lab.tests.real_nodes.installation import IMAGE, MARKS, installed
from lab.tests.real_nodes.nodes import Document, Nodes

HOT = "rn2"
pytestmark = MARKS
STARTING_SECONDS, SERVING_ON_SECONDS = 15, 5  # before it listens, and after SIGTERM
SERVER = f"""
import http.server, signal, threading, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
memory = b"x" * (700 << 20)
time.sleep({STARTING_SECONDS})
server = http.server.ThreadingHTTPServer(("", 8080), Handler)
signal.signal(signal.SIGTERM, lambda *_: threading.Timer({SERVING_ON_SECONDS}, server.shutdown).start())
server.serve_forever()
"""
LINES = {"thresholds": {"memory_avg_1m": {"evictAbove": 0.6, "evictUntil": 0.55}}, "surge": {"enabled": True}}
SURGING = {**burners.SHORT, "descheduler": {**burners.SHORT["descheduler"], **LINES}}


def objects() -> list[Document]:
    """The server with its Service, and a pod that stays and makes the node hot."""
    probe = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
    resources = {"requests": {"memory": "750Mi", "cpu": "10m"}}
    container = {"name": "main", "image": IMAGE, "command": ["python", "-c", SERVER], "readinessProbe": probe}
    server = burners.deployment("server", {**container, "resources": resources}, replicas=1)
    server["metadata"]["labels"] = {"evenload.io/surge": "true"}
    stays = {"labels": {"evenload.io/protected": "true"}}
    spec = {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8080}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "server"}, "spec": spec}
    return [server, burners.deployment("stays", burners.container(450), replicas=1, marks=stays), service]


@contextlib.contextmanager
def polled(nodes: Nodes, what: str) -> Iterator[list[float]]:
    """Asks the server's Service, each time on a new connection; in the list is when a request failed (monotonic)."""
    address, end, failed, count = nodes.get("service", "server")["spec"]["clusterIP"], threading.Event(), [], 0

    def ask() -> None:
        nonlocal count
        while not end.wait(0.02):
            count += 1
            with contextlib.closing(http.client.HTTPConnection(address, timeout=2)) as connection:
                try:
                    connection.request("GET", "/")
                    connection.getresponse().read()
                except (OSError, http.client.HTTPException):
                    failed.append(time.monotonic())

    thread = threading.Thread(target=ask)  # in the network of the thread that starts it
    thread.start()
    try:
        yield failed
    finally:
        end.set()
        thread.join()
    lasted = failed[-1] - failed[0] if failed else 0.0
    print(f"\n{what}: {len(failed)} of {count} requests failed, within {lasted:.1f} s")
    assert count > 100


def moved(nodes: Nodes, old: Document) -> bool:
    """Whether another pod serves, and no other is there or wanted."""
    pods = nodes.items("pods", "--selector=app=server")
    others = [pod for pod in pods if burners.is_ready(pod) and pod["metadata"]["uid"] != old["metadata"]["uid"]]
    wanted = int(nodes.get("deployment", "server")["spec"]["replicas"])
    return len(pods) == len(others) == wanted


def test_no_request_fails_while_the_only_pod_moves_and_some_do_where_it_is_evicted() -> None:
    with installed("rn-surge") as world:
        nodes, overlay = world.nodes, world.clone / "mine" / "kustomization.yaml"
        ha = "  - ../deploy/kustomize/components/ha\n"
        overlay.write_text(overlay.read_text("utf-8").replace(ha, ha + ha.replace("/ha", "/surge")), encoding="utf-8")
        burners.placed(nodes, {HOT}, *objects())
        (old,) = nodes.items("pods", "--selector=app=server")
        with polled(nodes, "surge") as failed:
            burners.set_policy(world, SURGING)
            burners.eventually(lambda: moved(nodes, old), "the move of the only pod", 600)
        assert not failed
        (row,) = burners.evictions(world, mode="Enforce", result="evicted")
        (new,) = nodes.items("pods", "--selector=app=server")
        assert row["pod"] == old["metadata"]["name"]
        assert new["spec"]["nodeName"] != HOT
        metadata = {key: new["metadata"][key] for key in ("name", "namespace")}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        with polled(nodes, "eviction") as failed:
            path = f"/api/v1/namespaces/default/pods/{metadata['name']}/eviction"
            nodes.kubectl("create", "--raw", path, "-f", "-", text=json.dumps(body))
            burners.eventually(lambda: moved(nodes, new), "the replacement", 120)
        assert failed
