"""Pods of the bench arrive and go by name, and a slow deletion does not keep others from arriving."""

import threading
from typing import Any

import pytest

from lab.bench import arrivals
from tests.e2e import waiting


class Api:
    """Remembers the pods that are there; deletions wait until they may go on."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.deleted: list[str] = []
        self.may_delete = threading.Event()

    def create(self, path: str, body: dict[str, Any]) -> object:
        """Creates one."""
        self.there.add(f"{path}/{body['metadata']['name']}")
        return body

    def delete(self, path: str) -> object:
        """Deletes one, as soon as it may."""
        self.may_delete.wait()
        self.there.remove(path)
        self.deleted.append(path)
        return {}


def test_pods_go_in_the_order_in_which_they_came_while_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "LIFETIME_SECONDS", 0.0)
    api: Any = Api()
    with arrivals.Arrivals(api, 400.0, seed=1) as coming:
        waiting.eventually(lambda: coming.created > 100, waiting.LIMIT_SECONDS, "pods to arrive")
        assert not api.deleted
        api.may_delete.set()
        waiting.eventually(lambda: coming.gone > 100, waiting.LIMIT_SECONDS, "pods to go")
    assert coming.refused == 0
    assert len(api.deleted) == len(set(api.deleted)) == coming.gone
    assert len(api.there) == coming.created - coming.gone
