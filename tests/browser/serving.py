"""A console on a port of this machine, whose topics a test publishes itself."""

import collections.abc
import contextlib
import json
from typing import Any

from console import board
from console.sources import Doors
from runtime import ops_server
from tests import clocks
from tests.unit.console import pages
from tests.unit.extender import worlds

NOW = clocks.START_SECONDS
METRICS = tuple(worlds.IDLE)


class Console:
    """A served page; `show` is what a service answered."""

    def __init__(self, served: Doors) -> None:
        self.topics = board.Board()
        self.url = ""
        self._errors: dict[str, str] = {}
        self._application = pages.page(served, self.topics)

    def show(self, **bodies: Any) -> None:
        """New bodies of topics, and a status by which all of them are fresh."""
        for name, body in bodies.items():
            self.topics.publish(name, json.dumps(body).encode())
            self._errors.setdefault(name, "")
        self._tell()

    def silence(self, topic: str, error: str) -> None:
        """A service no longer answers."""
        self._errors[topic] = error
        self._tell()

    def _tell(self) -> None:
        rows = {name: {"at_seconds": NOW, "error": error, "by": ["evenload-0"]} for name, error in self._errors.items()}
        self.topics.publish("status", json.dumps({"now_seconds": NOW, "topics": rows}).encode())

    @contextlib.contextmanager
    def served(self) -> collections.abc.Iterator["Console"]:
        """It listens while the body runs."""
        with ops_server.serve(self._application, "127.0.0.1:0", default_port=0) as server:
            self.url = f"http://127.0.0.1:{server.port}/"
            try:
                yield self
            finally:
                self.topics.close()


def nodes(loads: collections.abc.Mapping[str, float | None], *, limit: float = 0.65, age_seconds: float = 12) -> Any:
    """The topic `nodes`: each node with one load in all metrics, None for no reading."""
    thousandths = [None if load is None else round(1000 * load) for load in loads.values()]
    over = [load is not None and load > limit for load in loads.values()]
    return {
        "at": "2026-11-21T04:00:00Z",
        "policy": "0123456789ab",
        "heartbeat": {"age_seconds": age_seconds, "matches": True, "problem": None},
        "names": list(loads),
        "values": dict.fromkeys(METRICS, thousandths),
        "expected": {},
        "hot": {"5m": [0] * len(loads)},
        "penalty": [0] * len(loads),
        "score": [None if load is None else round(10 - 10 * load) for load in loads.values()],
        "age_seconds": [age_seconds] * len(loads),
        "state": [0 if load is not None else 1 for load in loads.values()],
        "states": ["usable", "missing"],
        "rejected": [0 if one else -1 for one in over],
        "reasons": [f"cpu_avg_5m over {limit}"],
        "limits": {"cpu_avg_5m": limit},
        "own_limits": {},
        "conditions": {},
        "pools": [],
    }


def decision(pod: str, *, verb: str = "prioritize", namespace: str = "shop") -> Any:
    """A row of the topic `decisions`."""
    return {
        "verb": verb, "at_seconds": NOW - 5, "namespace": namespace, "pod": pod, "uid": f"uid-{pod}", "candidates": 2,
        "passed": 1, "policy_hash": "p", "exempt": None, "rejected": {"cpu_avg_5m over 0.65": 1}, "degraded": [],
        "best": [{"node": "cool", "score": 9, "base": 9.0, "penalty": 0.0}], "assumed": "cool",
        "bound_to": "cool", "ties": 1, "bound_to_best": True,
    }  # fmt: skip


def plan(pod: str = "web-1", *, detail: str = "cools the node most") -> Any:
    """The topic `plan`: one overloaded node with one pod that leaves."""
    over = {"metric": "cpu_avg_5m", "value_ratio": 0.9, "threshold_ratio": 0.8, "target_ratio": 0.6,
            "since": "2026-11-21T03:50:00Z", "projected_ratio": 0.7}  # fmt: skip
    leaving = {"namespace": "shop", "pod": pod, "workload": "Deployment/web", "cpu_millicores": 900.0,
               "memory_bytes": 2**30, "verdict": "chosen", "rule": "", "detail": detail}  # fmt: skip
    staying = leaving | {"pod": "db-0", "verdict": "budget", "detail": "shop/db allows 0 more"}
    return {
        "at": "2026-11-21T04:00:00Z", "mode": "Observe", "mode_reason": "", "policy": "0123456789ab",
        "summary": "1 would leave", "partial": False, "evictions": [{}],
        "headroom": {"run": 4, "hour": 9, "budgets": [], "destinations": []},
        "nodes": [{"node": "hot", "overloads": [over], "left_alone": "", "candidates": [staying, leaving]}],
    }  # fmt: skip


def eviction(number: int, pod: str = "web-1", **fields: Any) -> Any:
    """A row of the topic `evictions`."""
    measured = {f"load_{minutes}m_ratio": 0.7 - minutes / 200 for minutes in (5, 10, 15, 20, 25, 30)}
    return {
        "id": number, "run": "r", "at": "2026-11-21T03:20:00Z", "mode": "Enforce", "policy_hash": "p",
        "namespace": "shop", "pod": pod, "workload": "Deployment/web", "node": "hot", "metric": "cpu_avg_5m",
        "value_ratio": 0.9, "threshold_ratio": 0.8, "target_ratio": 0.6, "before_ratio": 0.9, "projected_ratio": 0.7,
        "destination": "cool", "result": "evicted", "message": "", "landed_node": "cool", "expected_5m_ratio": 0.7,
        "expected_30m_ratio": 0.6, "stayed_under_line": True, "error_5m_ratio": 0.0, "error_30m_ratio": -0.05,
    } | measured | fields  # fmt: skip
