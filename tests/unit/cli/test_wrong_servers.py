"""Every command that asks a service of ours, at an address where something else answers: one line, code 3."""

from typing import Any

import pytest

from tests import commands, scripted_http

EVENT = {"at": "2026-11-21T04:00:00Z", "type": "Normal", "reason": "a", "kind": "Node", "name": "a", "note": ""}
ROW: dict[str, Any] = {"id": 1, "intended_at": "yesterday", "at": "2026-11-21T04:00:00Z"} | dict.fromkeys(
    ("run", "mode", "policy_hash", "namespace", "pod", "workload", "node", "metric", "destination", "result"), "x"
)
ROW |= dict.fromkeys(
    ("value_ratio", "threshold_ratio", "target_ratio", "projected_ratio", "cpu_millicores", "memory_bytes"), 1.0
)
PLAN = b'"at": "", "mode": "", "policy": "", "summary": "", "headroom": {"run": 1, "hour": 1}'
PAGES = {
    "a web page": "<html>",
    "an empty body": b"",
    "a list": [],
    "a null": b"null",
    "another object": {"kind": "PodList", "items": []},
    "a deep one": b"[" * 5000,
}
EVENTS = {
    "events of another form": {"events": [{"kind": "Node"}]},
    "events at no time": {"events": [{**EVENT, "namespace": "", "at": "yesterday"}]},
    "events that are no objects": {"events": [7]},
}
ROWS = {"rows of another form": {"evictions": [{"pod": "a"}]}, "rows at no time": {"evictions": [ROW]}}
ANSWERS = [
    *(
        (words, name, body)
        for words in ("evictions --events", "evictions", "plan", "nodes")
        for name, body in PAGES.items()
    ),
    *(("evictions --events", name, body) for name, body in EVENTS.items()),
    *(("evictions", name, body) for name, body in ROWS.items()),
    ("plan", "a text that is none", b'{"x": "\xff", "nodes": [], %s}' % PLAN),
    ("nodes", "a text that is none", b'{"x": "\xff", "nodes": [], "policy": ""}'),
]


@pytest.mark.parametrize("output_format", ["table", "json"])
@pytest.mark.parametrize(("words", "body"), [one[::2] for one in ANSWERS], ids=[f"{a} {b}" for a, b, _ in ANSWERS])
def test_an_answer_of_something_else_is_one_line_with_its_url(words: str, body: object, output_format: str) -> None:
    option = "--extender" if words == "nodes" else "--descheduler"
    with scripted_http.serving(lambda exchange: exchange.answer(body)) as server:
        result = commands.run(*words.split(), option, server.url, "-o", output_format)
    commands.assert_refused(result, 3)
    source, error = result.stderr.splitlines()
    assert source == f"{option.removeprefix('--')} at {server.url}"
    assert error.startswith(f"error: {server.url} answers, but not as a")


def test_a_plan_without_overloaded_nodes_may_leave_them_out() -> None:
    with scripted_http.serving(lambda exchange: exchange.answer(b"{%s}" % PLAN)) as server:
        result = commands.run("plan", "--descheduler", server.url, "-o", "json", code=0)
    assert '"nodes": []' in result.stdout
