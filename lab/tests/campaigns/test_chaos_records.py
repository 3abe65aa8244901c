"""What runs with faults read of the apiserver's audit log."""

import json
import pathlib

from lab.campaigns.chaos import records

ACCOUNT = f"{records.ACCOUNT}evenload-descheduler"


def line(uid: str, at: str, *, code: int = 201) -> str:
    event = {
        "user": {"username": ACCOUNT}, "verb": "create", "requestURI": "/api/v1/namespaces/shop/pods/web/eviction",
        "objectRef": {"resource": "pods", "namespace": "shop", "name": "web", "subresource": "eviction"},
        "requestReceivedTimestamp": at, "responseStatus": {"code": code},
        "requestObject": {"deleteOptions": {"preconditions": {"uid": uid}}},
    }  # fmt: skip
    return json.dumps(event, separators=(",", ":"))


def test_evictions_are_read_from_all_files_of_a_log_that_was_rotated(tmp_path: pathlib.Path) -> None:
    first, last = tmp_path / "audit-2026-11-26T16-00-00.000.log", tmp_path / "audit.log"
    first.write_text(f"{line('a', '2026-11-26T15:00:00Z')}\n", encoding="utf-8")
    last.write_text(
        f"{line('b', '2026-11-26T16:00:01Z', code=429)}\n{line('c', '2026-11-26T16:01:00Z')[:80]}", encoding="utf-8"
    )
    found = records.evictions(last)
    assert [(one.pod_uid, one.accepted) for one in found] == [("a", True), ("b", False)]
