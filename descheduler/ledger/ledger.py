"""The eviction ledger: SQLite rows that say what was intended, what became of it, and why; caps and cool-downs count
from here.

`ledger.rows` says what a row is, `ledger.history_from_rows` what rows say to the next plan. `eviction.evictor` writes
the intent before every Eviction call (synced to disk, so a crash cannot lose it) and the outcome after;
`eviction.followup` adds what became of the workload and the node; its `reconcile` closes intents that a crash left
open. One writer: the descheduler's own thread; readers (GET /evictions, GET /events) open connections of their own.
`prune` deletes what is older than retention; a corrupt file is set aside (`ledger.database`) and the new one remembers
it.
"""

import collections.abc
import json
import sqlite3
from pathlib import Path
from typing import Any, Final

from descheduler import surges
from descheduler.ledger import history_from_rows, sql_schema
from descheduler.ledger.database import LedgerError, LedgerFile, LedgerReplaced
from descheduler.ledger.rows import BARRING, DONE, FAILED, OPEN, Intent, Query, RecordedEvent, Row, Run, intent
from descheduler.planning.departed_load import LOOK_BACKS
from descheduler.planning.plans import Eviction, EvictionPlan
from descheduler.snapshot.eviction_history import FOLLOWED_SECONDS, HOUR_SECONDS, History
from descheduler.surges import Surge
from runtime import logs

log = logs.get(__name__)


class Ledger(LedgerFile):
    """The one writer of a ledger file, and its readers."""

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        super().__init__(path, alone=alone)
        self._unfinished: tuple[object, float, list[Row]] = None, 0.0, []  # of which version, since when, the rows

    def begin_again(self, error: LedgerError, *, at_seconds: float) -> None:
        """Sets a corrupt file aside and goes on with an empty one; opens one put in its place. Raises LedgerError."""
        replaced = isinstance(error, LedgerReplaced)
        moved_to = self.open_or_set_aside(at_seconds) if replaced else self.set_aside(str(error), at_seconds)
        if moved_to is None:
            log.warning("ledger opened again", cause=str(error))
        else:
            log.error("ledger set aside, a new one begun", moved_to=str(moved_to), cause=str(error))

    def intend(self, run: Run, eviction: Eviction, *, at_seconds: float) -> Intent:
        """Writes the intent and syncs it to disk.

        A pod with an open or accepted eviction of the same mode is refused in the same transaction: its row says
        `not_done` from the start, and why. So a pod is not evicted twice, however many replicas believe that they lead.
        """
        columns = intent(run, eviction) | {"intended_at_seconds": at_seconds}
        with self.written() as writer:
            refusal = _refusal(writer, run.mode, eviction.pod.uid)
            if refusal:
                columns |= {"result": "not_done", "message": refusal, "decided_at_seconds": at_seconds}
            names, marks = ", ".join(columns), ", ".join("?" * len(columns))
            cursor = writer.execute(f"INSERT INTO evictions ({names}) VALUES ({marks})", tuple(columns.values()))
            return Intent(int(cursor.lastrowid or 0), refusal)

    def decide(self, row_id: int, result: str, *, status: int | None, message: str, at_seconds: float) -> None:
        """Writes how an intent ended."""
        self.fill(row_id, result=result, http_status=status, message=message, decided_at_seconds=at_seconds)

    def fill(self, row_id: int, **columns: float | int | str | None) -> None:
        """Adds what became of an eviction later: gone_at_seconds, landed_*, ready_at_seconds, load_*, returned."""
        if columns:
            assignments = ", ".join(f"{name} = ?" for name in columns)
            with self.written() as writer:
                writer.execute(f"UPDATE evictions SET {assignments} WHERE id = ?", (*columns.values(), row_id))

    def record_run(self, run: Run, plan: EvictionPlan, summary: str) -> None:
        """Writes the run itself: also runs that evict nothing say why, node by node."""
        nodes = {one.node.name: one.summary for one in plan.nodes}
        with self.written() as writer:
            writer.execute(
                "INSERT OR REPLACE INTO runs (run, at_seconds, mode, policy_hash, evictions, summary, nodes)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*run, len(plan.evictions), summary, json.dumps(nodes)),
            )

    def tell(self, event: RecordedEvent) -> None:
        """Keeps an Event."""
        names, marks = ", ".join(RecordedEvent._fields), _marks(RecordedEvent._fields)
        with self.written() as writer:
            writer.execute(f"INSERT INTO events ({names}) VALUES ({marks})", tuple(event))

    def prune(self, before_seconds: float) -> int:
        """Deletes what is older, but for intents whose end is not known and open surges; how many evictions went."""
        with self.written() as writer:
            for table in sql_schema.BY_TIME:
                writer.execute(f"DELETE FROM {table} WHERE at_seconds < ?", (before_seconds,))
            writer.execute(f"DELETE FROM surges WHERE at_seconds < ? AND NOT {_OPEN}", (before_seconds,))
            old = f"DELETE FROM evictions WHERE at_seconds < ? AND result NOT IN ({_marks(OPEN)})"
            return writer.execute(old, (before_seconds, *OPEN)).rowcount

    def reset_breaker(self, workload_uid: str, at_seconds: float) -> None:
        """Forgets the failures of a workload ("" for all) up to now."""
        with self.written() as writer:
            writer.execute(
                "INSERT INTO breaker_resets (workload_uid, at_seconds) VALUES (?, ?)", (workload_uid, at_seconds)
            )

    def rows(self, query: Query) -> list[Row]:
        """The newest evictions that match, the last recorded first."""
        conditions = {
            "at_seconds >= ?": query.since_seconds,
            "namespace = ?": query.namespace,
            "pod = ?": query.pod,
            "node = ?": query.node,
            "(workload = ? OR workload_uid = ? OR substr(workload, instr(workload, '/') + 1) = ?)": query.workload,
            "result = ?": query.outcome,
            "id < ?": query.before_id,
        }
        limits = {text: value for text, value in conditions.items() if value not in (None, "")}
        where = " AND ".join(limits) or "1"
        values = [value for text, value in limits.items() for _ in range(text.count("?"))]
        return self._select(f"WHERE {where} ORDER BY id DESC LIMIT ?", [*values, query.limit])

    def open_rows(self) -> list[Row]:
        """Intents whose end is not known."""
        return self._select(f"WHERE result IN ({_marks(OPEN)}) ORDER BY id", list(OPEN))

    def unfinished(self, since_seconds: float) -> list[Row]:
        """Evictions carried out since then of which something is still to be learnt, oldest first; read again where the
        file changed.

        So it is asked in every run, and in most nothing has happened since the one before.
        """
        version, (known, known_since_seconds, rows) = self.version(), self._unfinished
        if version != known or since_seconds < known_since_seconds:
            missing = " OR ".join(f"{name} IS NULL" for name in _LEARNT)
            # The plus and the order have SQLite look among the rows since then, not among all evictions.
            where = f"WHERE +result IN ({_marks(DONE)}) AND at_seconds >= ? AND ({missing}) ORDER BY at_seconds, id"
            rows = self._select(where, [*DONE, since_seconds])
            self._unfinished = version, since_seconds, rows
        return [row for row in rows if row.at_seconds >= since_seconds]

    def landed_pods(self, since_seconds: float) -> frozenset[str]:
        """Uids of the pods already known as some evicted pod's replacement."""
        landed = "SELECT landed_pod FROM evictions WHERE landed_pod IS NOT NULL AND at_seconds >= ?"
        return frozenset(str(uid) for (uid,) in self._read(landed, [since_seconds]))

    def since(self, mode: str, since_seconds: float) -> list[Row]:
        """Oldest first: intents since then, and those of an hour before. The index is by the start of the run, and the
        intents of a run that stalls come later.
        """
        began_seconds = since_seconds - HOUR_SECONDS
        return self._select("WHERE mode = ? AND at_seconds >= ? ORDER BY at_seconds, id", [mode, began_seconds])

    def history(self, mode: str, *, now_seconds: float, window_seconds: float) -> History:
        """Returns the history for the next plan, from rows of this mode in the last `window_seconds` (at least as long
        as they are followed).
        """
        rows = self.since(mode, now_seconds - max(FOLLOWED_SECONDS, window_seconds))
        resets = dict(self._read("SELECT workload_uid, max(at_seconds) FROM breaker_resets GROUP BY workload_uid"))
        return history_from_rows.history(
            rows, self._failing(mode), resets, now_seconds=now_seconds, window_seconds=window_seconds
        )

    def events(self, *, since_seconds: float | None = None, name: str = "", limit: int = 500) -> list[RecordedEvent]:
        """The newest Events about objects of that name ("" for any), newest first."""
        rest = "WHERE at_seconds >= ? AND (? IN ('', name)) ORDER BY at_seconds DESC, id DESC LIMIT ?"
        chosen = f"SELECT {', '.join(RecordedEvent._fields)} FROM events {rest}"
        return [RecordedEvent(*one) for one in self._read(chosen, [since_seconds or 0.0, name, limit])]

    def begin_surge(self, run: Run, eviction: Eviction, *, at_seconds: float) -> Surge | None:
        """Writes a surge that is about to be asked for; None where its workload has one that is open."""
        state = surges.SCALING_UP if run.mode == "Enforce" else run.mode
        replicas = eviction.workload.replicas if eviction.workload is not None else 0
        columns = intent(run, eviction) | {"at_seconds": at_seconds, "replicas": replicas, "state": state}
        columns |= {"changed_at_seconds": at_seconds, "message": ""}
        new = f"INSERT INTO surges ({_SURGE}) SELECT {_marks(Surge._fields)}"
        none = f"WHERE NOT EXISTS (SELECT 1 FROM surges WHERE workload_uid = ? AND {_OPEN}) RETURNING {_SURGE}"
        with self.written() as writer:
            values = *map(columns.get, Surge._fields), columns["workload_uid"]
            row = writer.execute(f"{new} {none}", values).fetchone()
        return Surge(*row) if row is not None else None

    def put_surge(self, surge: Surge) -> None:
        """Writes the state of a surge, since when it holds, and its message."""
        columns = surge.state, surge.changed_at_seconds, surge.message, surge.id
        with self.written() as writer:
            writer.execute("UPDATE surges SET state = ?, changed_at_seconds = ?, message = ? WHERE id = ?", columns)

    def surges(self, since_seconds: float) -> tuple[Surge, ...]:
        """The surges that are open or have changed since then, oldest first."""
        chosen = f"SELECT {_SURGE} FROM surges WHERE {_OPEN} OR changed_at_seconds >= ? ORDER BY id"
        return tuple(Surge(*row) for row in self._read(chosen, [since_seconds]))

    def set_aside_at_seconds(self) -> float | None:
        """When an earlier file was set aside, so that this one knows nothing of before; None if none was."""
        ((at_seconds,),) = self._read("SELECT max(at_seconds) FROM set_asides")
        return None if at_seconds is None else float(at_seconds)

    def _failing(self, mode: str) -> list[Row]:
        """All rows, oldest first, of workloads that failed ever: a breaker that is open until reset outlives every
        window but retention.
        """
        suspects = f"SELECT workload_uid FROM evictions WHERE mode = ? AND result IN ({_marks(FAILED)})"
        return self._select(
            f"WHERE mode = ? AND workload_uid IN ({suspects}) ORDER BY at_seconds, id",
            [mode, mode, *FAILED],
        )

    def _select(self, rest: str, values: collections.abc.Sequence[object]) -> list[Row]:
        return [Row(*one) for one in self._read(f"SELECT {', '.join(Row._fields)} FROM evictions {rest}", values)]

    def _read(self, query: str, values: collections.abc.Sequence[object] = ()) -> list[Any]:
        with self.reading() as reader:
            return reader.execute(query, list(values)).fetchall()


def _refusal(writer: sqlite3.Connection, mode: str, pod_uid: str) -> str:
    """Why the pod may not be evicted in this mode, "" if it may."""
    barring = f"SELECT id, run, result FROM evictions WHERE mode = ? AND pod_uid = ? AND result IN ({_marks(BARRING)})"
    bar = writer.execute(f"{barring} ORDER BY id LIMIT 1", (mode, pod_uid, *BARRING)).fetchone()
    return f"row {bar[0]} of run {bar[1]} has this pod's eviction already ({bar[2]})" if bar else ""


def _marks(values: collections.abc.Sequence[str]) -> str:
    return ", ".join("?" * len(values))


_SURGE: Final = ", ".join(Surge._fields)
_OPEN: Final = f"state IN ({', '.join(map(repr, surges.OPEN))})"
_LEARNT: Final = ("gone_at_seconds", "ready_at_seconds", *LOOK_BACKS)
