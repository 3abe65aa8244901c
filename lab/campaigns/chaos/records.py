"""Reads the apiserver's audit log and the ledger's file after a run with faults."""

import datetime
import itertools
import json
import pathlib
import sqlite3
from collections.abc import Iterator
from typing import Any, Final

from lab.campaigns.chaos.judging import Deletion, EvictionCall, Recorded

ACCOUNT: Final = "system:serviceaccount:evenload-system:"


def _events(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """The whole lines about pods that accounts of ours wrote; a killed apiserver may leave half of one. A large log has
    earlier files beside it, with their time in the name.
    """
    files = [*sorted(path.parent.glob(f"{path.stem}-*{path.suffix}")), path]
    for line in itertools.chain.from_iterable(one.read_bytes().splitlines() for one in files):
        if ACCOUNT.encode() in line and b'"resource":"pods"' in line:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event.get("user", {}).get("username", "").startswith(ACCOUNT):
                yield event


def evictions(path: pathlib.Path) -> list[EvictionCall]:
    """The evictions that accounts of ours asked for, as they were answered."""
    found = []
    for event in _events(path):
        wanted, answer = event["objectRef"], event.get("responseStatus")
        if wanted.get("subresource") != "eviction" or event["verb"] != "create" or answer is None:
            continue
        body = event.get("requestObject", {})
        options = body.get("deleteOptions") or {}
        asked_at = datetime.datetime.fromisoformat(event["requestReceivedTimestamp"])
        found.append(
            EvictionCall(
                account=event["user"]["username"].removeprefix(ACCOUNT),
                namespace=wanted["namespace"],
                pod=wanted["name"],
                pod_uid=(options.get("preconditions") or {}).get("uid", ""),
                at_seconds=asked_at.timestamp(),
                status=answer.get("code", 0),
                dry_run="dryRun=All" in event["requestURI"] or bool(options.get("dryRun")),
            )
        )
    return found


def deletions(path: pathlib.Path) -> list[Deletion]:
    """The pods that accounts of ours deleted, or asked to."""
    wanted = (one["objectRef"] for one in _events(path) if one["verb"] in ("delete", "deletecollection"))
    return [Deletion(one.get("namespace", ""), one.get("name", "")) for one in wanted]


def rows(path: pathlib.Path) -> list[Recorded]:
    """The rows of the ledger's file; none before there is one."""
    if not path.exists():
        return []
    reader = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
    try:
        rows = reader.execute(
            "SELECT id, run, pod_uid, node, result, intended_at_seconds, namespace, workload FROM evictions ORDER BY id"
        ).fetchall()
    finally:
        reader.close()
    return [Recorded(*columns)._replace(workload=columns[-1].rpartition("/")[2]) for columns in rows]
