"""A small apiserver for `evenload doctor`, which also is the way to a Prometheus and to two extenders behind it."""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any
from urllib import parse

from cli.doctor import rights
from policy.contract import heartbeat, load_annotation
from promql.queries import pod_queries
from runtime import clock
from tests import builders, scripted_http

PREFIX = "/api/v1/namespaces"
PROMETHEUS = f"{PREFIX}/monitoring/services/prometheus:9090/proxy/api/v1"
PODS = f"{PREFIX}/evenload-system/pods"
SERVICE = {
    "metadata": {"name": "prometheus", "namespace": "monitoring"},
    "spec": {"ports": [{"name": "reloader", "port": 8080}, {"name": "web", "port": 9090}]},
}
EXPOSITION = """# TYPE evenload_extender_request_duration_seconds histogram
evenload_extender_request_duration_seconds_count{{verb="filter",result="ok"}} 7
evenload_extender_request_duration_seconds_count{{verb="prioritize",result="ok"}} 5
# TYPE evenload_config_last_reload_success_timestamp_seconds gauge
evenload_config_last_reload_success_timestamp_seconds {since}
# TYPE evenload_extender_shadow_mode gauge
evenload_extender_shadow_mode {shadow}
"""
NAMES = ("node-1", "node-2")


class Cluster:
    """Answers by path. `objects` are lists by path, `single` objects by path; what is absent is empty or not found."""

    def __init__(self) -> None:
        now_seconds = clock.WallClock().now()
        text = load_annotation.encode(load_annotation.Reading(now_seconds - 10, {"cpu_avg_5m": 0.4}))
        texts = dict.fromkeys(NAMES, text)
        nodes = [
            builders.node_body(name, address=f"10.0.0.{number}", annotations={load_annotation.KEY: text})
            for number, name in enumerate(NAMES, 1)
        ]
        beat = heartbeat.encode(now_seconds - 5, "0123456789ab", 2, heartbeat.digest(texts))
        pods = ("extender-0", "extender-1")
        endpoints = [{"addresses": ["10.1.0.1"], "targetRef": {"kind": "Pod", "name": name}} for name in pods]
        self.lists: dict[str, list[Any]] = {
            "/api/v1/nodes": nodes,
            "/api/v1/services": [SERVICE],
            "/apis/discovery.k8s.io/v1/namespaces/evenload-system/endpointslices": [
                {"metadata": {"name": "e"}, "endpoints": endpoints, "ports": [{"name": "http", "port": 8900}]}
            ],
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases": [
                {"metadata": {"name": "node-1"}, "spec": {"renewTime": clock.to_rfc3339(now_seconds, micros=True)}}
            ],
        }
        for name in rights.ROLES:
            self.lists.setdefault(f"/{rights.POLICIES.path}/{rights.POLICIES.plural}", []).append(
                {"metadata": {"name": name}, "spec": {"failurePolicy": "Fail"}}
            )
            self.lists.setdefault(f"/{rights.BINDINGS.path}/{rights.BINDINGS.plural}", []).append(
                {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
            )
        self.guard_holds = True
        self.impersonated: list[str | None] = []
        self.single: dict[str, Any] = {
            f"{PREFIX}/evenload-system/configmaps/evenload-heartbeat": {"data": beat},
            "/version": {},
        }
        self.allowed = True
        self.forbidden: set[str] = set()
        self.values = dict.fromkeys(("10.0.0.1:9100", "10.0.0.2:9100"), "0.4")
        self.views = {"extender-0": ["sha256:aaaaaaaaaa"], "extender-1": ["sha256:aaaaaaaaaa"]}
        self.since_seconds = now_seconds - 100
        self.shadow: set[str] = set()
        self.obeyed: dict[str, Any] = {}

    def answer(self, exchange: scripted_http.Exchange) -> None:
        """One request."""
        path = parse.unquote(exchange.path)
        if path in self.forbidden:
            exchange.status(403, "Forbidden", f"you may not {exchange.method} {path}")
        elif exchange.method == "PATCH" or path.endswith("/eviction"):
            self.impersonated.append(exchange.headers.get("Impersonate-User"))
            if self.guard_holds:
                exchange.status(403, "Forbidden", "ValidatingAdmissionPolicy 'evenload-guard-nodes' denied request: no")
            else:
                exchange.answer({})
        elif path.startswith(PROMETHEUS):
            exchange.answer(self._prometheus(exchange))
        elif path.startswith(PODS + "/"):
            exchange.answer(self._extender(*path.removeprefix(PODS + "/").split(":8900/proxy/")))
        elif path.startswith("/apis/authorization.k8s.io/"):
            exchange.answer({"status": {"allowed": self.allowed}})
        elif path in self.single:
            exchange.answer(self.single[path])
        elif path.rsplit("/", 2)[-2] in ("configmaps", "leases"):
            exchange.status(404, "NotFound", f"{path} not found")
        else:
            exchange.answer({"metadata": {"resourceVersion": "1"}, "items": self.lists.get(path, [])})

    def _prometheus(self, exchange: scripted_http.Exchange) -> object:
        query, now_seconds = exchange.query["query"], clock.WallClock().now()
        if exchange.path.endswith("query_range"):
            end_seconds = float(exchange.query["end"])
            points = [[end_seconds - 15.0 * step, f"{end_seconds - 15.0 * step}"] for step in range(4, -1, -1)]
            return _body("matrix", [{"metric": {}, "values": points}])
        if query == "vector(time())":
            return _body("vector", [{"metric": {}, "value": [now_seconds, str(now_seconds)]}])
        if query in (pod_queries.dead_pods(), pod_queries.without_containers("instance")):
            return _body("vector", [])
        if query == pod_queries.measured_pods():
            return _body("vector", [{"metric": {}, "value": [now_seconds, "12"]}])
        rows = [
            {"metric": {"instance": label, "job": "node-exporter"}, "value": [now_seconds, value]}
            for label, value in self.values.items()
        ]
        return _body("vector", rows, {"timings": {"execTotalTime": 0.25}, "samples": {"totalQueryableSamples": 1000}})

    def _extender(self, pod: str, path: str) -> object:
        if path == "nodes":
            left = self.views[pod]
            digest = left.pop(0) if len(left) > 1 else left[0]
            return {"policy": "0123456789ab", "heartbeat": {"matches": True}, "view": {"view": digest}, "nodes": []}
        if path == "configz":
            return {"policy": self.obeyed, "policyState": {"hash": "0123456789ab"}}
        if path == "plan":
            head = {"at": "2026-11-21T04:00:00Z", "mode": "Observe", "policy": "0123456789ab"}
            return head | {"summary": "0 to evict", "headroom": {"run": 1, "hour": 1}, "nodes": []}
        if path == "metrics":
            return EXPOSITION.format(since=self.since_seconds, shadow=float(pod in self.shadow))
        texts = dict.fromkeys(("verb", "namespace", "pod", "uid", "policy_hash"), "")
        return {"decisions": [texts | {"at_seconds": self.since_seconds + 50, "candidates": 2, "passed": 2}]}


@contextlib.contextmanager
def serving(directory: pathlib.Path, cluster: Cluster) -> Iterator[pathlib.Path]:
    """The kubeconfig of the cluster while the body runs."""
    with scripted_http.serving(cluster.answer) as server:
        yield scripted_http.kubeconfig(directory, server.url)


def _body(kind: str, rows: list[Any], stats: object = None) -> object:
    data = {"resultType": kind, "result": rows} | ({} if stats is None else {"stats": stats})
    return {"status": "success", "data": data}
