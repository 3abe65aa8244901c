"""The extender's decisions that matter, copied from the memory of its replicas into the ledger's file.

Of each pod the newest decision of each verb stays, in the extender's words but without the nodes; the oldest go first.
They are written in transactions of their own, so that a failure costs no row of an eviction. `http.app` answers GET
/decisions by them, for what a replica has forgotten.
"""

import collections.abc
from typing import Any, Final

import msgspec

from descheduler.ledger.database import LedgerError, LedgerFile
from descheduler.sources.extender_replicas import ReplicaError, Replicas
from policy.contract.decision_page import DecisionKey
from runtime import logs
from runtime.clock import Clock

log = logs.get(__name__)

PERIOD_SECONDS: Final = 10.0
MOST_ROWS: Final = 50_000
MOST_BYTES: Final = 32 * 2**20  # of their texts
_STORE: Final = """
    INSERT INTO decisions (verb, at_seconds, namespace, pod, uid, replica, document) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET at_seconds = excluded.at_seconds, replica = excluded.replica, document = excluded.document
    WHERE excluded.at_seconds > at_seconds
"""
_SIZE: Final = "SELECT count(*), total(size) FROM decisions INDEXED BY decisions_by_time"  # 4 ms of 50,000
_DROP: Final = "DELETE FROM decisions WHERE rowid IN (SELECT rowid FROM decisions ORDER BY at_seconds, rowid LIMIT ?)"


def store(ledger: LedgerFile, replica: str, decisions: collections.abc.Iterable[object]) -> None:
    """Writes the decisions of a replica and deletes the oldest beyond the bounds. Raises LedgerError, MsgspecError."""
    keys = [(msgspec.convert(one, DecisionKey), msgspec.json.encode(one).decode()) for one in decisions]
    if keys:
        with ledger.written() as writer:
            writer.executemany(_STORE, [(*msgspec.structs.astuple(key), replica, text) for key, text in keys])
            rows, size_bytes = writer.execute(_SIZE).fetchone()
            while rows > MOST_ROWS or size_bytes > MOST_BYTES:
                writer.execute(_DROP, (1 + rows // 50,))
                rows, size_bytes = writer.execute(_SIZE).fetchone()


def find(ledger: LedgerFile, namespace: str, pod: str, *, limit: int) -> list[dict[str, Any]]:
    """The newest decisions first, of one namespace and pod where they are given. Raises LedgerError."""
    newest = """
        SELECT document, replica FROM decisions WHERE ? IN ('', namespace) AND ? IN ('', pod)
        ORDER BY at_seconds DESC, rowid DESC LIMIT ?
    """
    with ledger.reading() as reader:
        rows = reader.execute(newest, (namespace, pod, limit))
        return [{**msgspec.json.decode(document), "replica": replica} for document, replica in rows]


class DecisionSync:
    """Copies a page of each replica at a time, on the leader; a page that was not stored is asked for again."""

    def __init__(
        self, replicas: Replicas, ledger: LedgerFile, leads: collections.abc.Callable[[], bool], ticking: Clock
    ) -> None:
        self._replicas, self._ledger, self._leads, self._clock = replicas, ledger, leads, ticking
        self._after: dict[str, str] = {}
        self._problems: dict[str, str] = {}
        self._copied = self._missed = 0

    def sync(self) -> None:
        """One page of each replica; one that fails keeps out only itself, and is logged when its problem changes."""
        if not self._leads():
            return
        problems: dict[str, str] = {}
        try:
            addresses = self._replicas.addresses()
            self._after = {address: self._after.get(address, "") for address in addresses}
        except ReplicaError as error:
            problems[self._replicas.host] = str(error)
        for address in self._after:
            try:
                self._copy(address)
            except (ReplicaError, LedgerError, msgspec.MsgspecError) as error:
                problems[address] = str(error)
        if problems and problems != self._problems:
            log.warning("decisions of the extender not copied", problems=problems)
        self._problems = problems

    def line(self) -> str:
        """How many decisions were copied, how many a replica had dropped before, and what is amiss."""
        amiss = "".join(f"; {name}: {problem}" for name, problem in self._problems.items())
        return f"{self._copied} copied from {len(self._after)} replicas, {self._missed} missed{amiss}"

    def _copy(self, address: str) -> None:
        page = self._replicas.page(address, self._after[address], self._clock)
        store(self._ledger, address, page.decisions)
        self._after[address] = page.after
        self._copied, self._missed = self._copied + len(page.decisions), self._missed + page.missed
