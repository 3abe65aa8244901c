"""Admission of a port's connections, so that no client's address keeps the others from it.

`ops_server` and the extender's `http.gunicorn_worker` ask `Open` after every new connection. The address that has most
gives way: kube-scheduler, the kubelet and Prometheus have a few connections each, so it is never theirs while another
address has more. Of an address, a connection that waits for its client goes, so that a probe finds a place beside any
number of silent ones.
"""

import collections.abc
from typing import Generic, Protocol, TypeVar


class Connection(Protocol):
    """A client's connection."""

    answered: bool  # a request of it was whole

    @property
    def address(self) -> str:
        """The client's address."""

    @property
    def answering(self) -> bool:
        """Whether a thread works on its request, and does not wait for the client."""


C = TypeVar("C", bound=Connection)


class Open(Generic[C]):
    """The connections, at most `limit`, half of them of one address; of each address those first whose last whole
    request is longest ago. Half, so that the rest is there for others without evicting a connection.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._of_address: dict[str, dict[C, None]] = {}

    def __iter__(self) -> collections.abc.Iterator[C]:
        return (one for ours in list(self._of_address.values()) for one in list(ours))

    def add(self, new: C) -> C | None:
        """Take a connection in; the one that must go for it, if there are too many."""
        ours = self._of_address.setdefault(new.address, {})
        ours[new] = None
        if len(ours) > self._limit // 2:
            return _dispensable(ours, new)
        if sum(map(len, self._of_address.values())) > self._limit:
            return _dispensable(max(self._of_address.values(), key=len), new)
        return None

    def remove(self, old: C) -> None:
        """A connection was closed; once or more often."""
        ours = self._of_address.get(old.address, {})
        ours.pop(old, None)
        if not ours:
            self._of_address.pop(old.address, None)

    def renew(self, client: C) -> None:
        """A request of it is whole."""
        ours = self._of_address[client.address]
        ours[client] = ours.pop(client)


def _dispensable(ours: dict[C, None], new: C) -> C:
    """The oldest on which no whole request ever came, else the one that is idle for longest, else the new one."""
    free = [one for one in ours if not one.answering and one is not new]
    return next((one for one in free if not one.answered), free[0] if free else new)
