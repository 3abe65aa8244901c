"""The extender's HTTP side: a Flask application over a `ClusterView`; it opens no socket and starts no thread.

`http.gunicorn_server` runs it under gunicorn, tests call it directly. The three verbs share one path: read the body,
decode it, ask `verbs`, count and remember. Replies are whole, with their Content-Length: Go's JSON decoder leaves the
end of a chunked reply unread, and the connection is lost.

What people ask (/explain, /decisions, /nodes) computes long, and while it does kube-scheduler waits for the same
interpreter. So one of these is answered at a time, together they have a share of time (`Share`), and no step of them
keeps the interpreter for long (`protocol.encode_by_parts`).
"""

import collections.abc
import dataclasses
import functools
import itertools
import math
import threading
from typing import Final

import flask
from werkzeug import exceptions

from extender import deadline, metrics, protocol
from extender.state import cluster_view
from extender.verbs import decision_log, explain, shadow_log, verbs
from kube.pods import pod_view
from policy.contract import decision_page
from runtime import clock, hosts, logs

log = logs.get(__name__)

DECISIONS_SHOWN = 100
PAGE_DECISIONS = 1000  # looked through for one page; without its nodes one has 5 KB at most
SETTLED_SECONDS: Final = 30.0  # a page waits so long for the node of a pod
EXPLAINED_MOST = 10_000  # a row takes 6.5 KB and 0.3 ms, a name in a request some 8 bytes
ROWS_PER_SECOND: Final = 400.0  # of nodes, for people: an eighth of a core
ROWS_AT_ONCE: Final = 20_000.0  # after a quiet minute: a 5,000-node cluster four times over
ROWS_OF_A_REQUEST: Final = 10.0  # what a request without any row is counted as
TIMED: Final = tuple(f"/{verb}" for verb in metrics.VERBS)  # what kube-scheduler waits for

Shown = tuple[bytes, int]  # an answer for people, and how many rows it took to make


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the application; all of them are shared with the threads that keep the view up to date. `watched` is
    the living pod of a name ("namespace/name"), by the watch.
    """

    view: cluster_view.ClusterView
    clock: clock.Clock
    metrics: metrics.Metrics
    decisions: decision_log.DecisionLog
    shadow: shadow_log.ShadowLog
    watched: collections.abc.Callable[[str], pod_view.PodView | None] = lambda _key: None


class Share:
    """How much of the process the answers for people may take: one at a time, and rows as time goes by.

    A row of an answer is the measure, as it is the work: on any machine the same requests are refused. A request begins
    while anything is left and may owe the rest, so that the largest one can be asked.
    """

    def __init__(self, ticking: clock.Clock) -> None:
        self._clock = ticking
        self._lock = threading.Lock()
        self._left = ROWS_AT_ONCE
        self._at_seconds = ticking.monotonic()

    def answer(self, make: collections.abc.Callable[[], Shown]) -> bytes:
        """Make an answer; 429 with Retry-After when another one is being made, or too many were lately."""
        if not self._lock.acquire(blocking=False):
            raise _later("another such request is being answered", 1)
        try:
            self._refill()
            if self._left <= 0:
                raise _later("such requests have had their share of time", math.ceil(1 - self._left / ROWS_PER_SECOND))
            self._left -= ROWS_OF_A_REQUEST
            body, rows = make()
            self._left -= rows
            return body
        finally:
            self._lock.release()

    def _refill(self) -> None:
        now_seconds = self._clock.monotonic()
        earned = (now_seconds - self._at_seconds) * ROWS_PER_SECOND
        self._left, self._at_seconds = min(self._left + earned, ROWS_AT_ONCE), now_seconds


def _later(why: str, after_seconds: int) -> exceptions.TooManyRequests:
    text = f"{why}, and kube-scheduler's come first; ask again in {after_seconds} s"
    return exceptions.TooManyRequests(text, retry_after=after_seconds)


def create_app(parts: Parts, ops: flask.Blueprint) -> flask.Flask:
    """The application: the verbs, explain, decisions and nodes, and `ops` with the probes and /metrics."""
    app = flask.Flask(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = protocol.BODY_LIMIT_BYTES
    app.before_request(functools.partial(hosts.check, TIMED))
    app.register_blueprint(ops)
    for verb in metrics.VERBS:
        app.add_url_rule(f"/{verb}", verb, functools.partial(_respond, parts, verb), methods=["POST"])
    share = Share(parts.clock)
    for route, method, make in (
        ("explain", "POST", _explain),
        ("decisions", "GET", _decisions),
        ("nodes", "GET", _nodes),
    ):
        app.add_url_rule(f"/{route}", route, functools.partial(_show, parts, share, make), methods=[method])
    return app


def _respond(parts: Parts, verb: str) -> flask.Response:
    started_seconds = parts.clock.monotonic()
    result = "refused"
    try:
        decode = protocol.decode_preemption if verb == "preempt" else protocol.decode_args
        outcome = _in_time(parts, verb, decode(_body()))
        result = "degraded" if outcome.decision.degraded else "ok"
    finally:
        took_seconds = parts.clock.monotonic() - started_seconds
        parts.metrics.duration_seconds.labels(verb, result).observe(took_seconds)
    note(parts, outcome.decision, outcome.shadow)
    return _json(outcome.body)


def _in_time(parts: Parts, verb: str, args: protocol.AnyArgs) -> verbs.Outcome:
    """The answer, or the neutral one when the request has waited too long already or would have to."""
    now_seconds = parts.clock.now()
    try:
        deadline.check()
        return verbs.answer(verb, parts.view, args, now_seconds)
    except deadline.Overrun:
        return verbs.neutral(verb, args, parts.view.in_force.content_hash, now_seconds)


def note(parts: Parts, decision: decision_log.Decision, verdicts: shadow_log.PodVerdicts | None = None) -> None:
    """Remember a decision and count what it rejected and lacked; remember the verdicts of shadow mode."""
    parts.decisions.add(decision)
    if verdicts is not None:
        parts.shadow.remember(verdicts)
    if decision.verb == "filter":
        parts.metrics.nodes_passed.inc(decision.passed)
        parts.metrics.nodes_rejected.inc(decision.candidates - decision.passed)
    for reason, count in decision.rejected.items():
        parts.metrics.rejected.labels(reason).inc(count)
    for cause in decision.degraded:
        parts.metrics.degraded.labels(cause).inc()
    log.debug(
        "decided",
        verb=decision.verb,
        pod=f"{decision.namespace}/{decision.pod}",
        candidates=decision.candidates,
        passed=decision.passed,
        best=decision.best[0].node if decision.best else "",
        degraded=",".join(decision.degraded),
    )


def _show(parts: Parts, share: Share, make: collections.abc.Callable[[Parts], Shown]) -> flask.Response:
    return _json(share.answer(lambda: make(parts)))


def _explain(parts: Parts) -> Shown:
    args = protocol.decode_args(_body())
    most = max(EXPLAINED_MOST, len(parts.view.nodes.loads().index))
    if len(args.names) > most:
        message = f"{len(args.names)} nodes given, at most {most} are explained at once"
        raise exceptions.RequestEntityTooLarge(message)
    document = explain.explain(parts.view, args.pod, args.names, parts.clock.now())
    return protocol.encode_by_parts(document), len(args.names)


def _decisions(parts: Parts) -> Shown:
    query = flask.request.args
    limit = query.get("limit", str(DECISIONS_SHOWN))
    if not (limit.isascii() and limit.isdigit() and len(limit) < 7):
        raise exceptions.BadRequest(f"limit={limit!r}: expected a whole number")
    index = parts.view.nodes.loads().index
    bound = lambda one: explain.bound_to(one, parts.watched(f"{one.namespace}/{one.pod}"), index)  # noqa: E731
    if "after" in query:
        return _page(parts, query["after"], bound)
    namespace, pod = query.get("namespace", ""), query.get("pod", "")
    decisions = parts.decisions.find(namespace, pod, int(limit), now_seconds=parts.clock.now())
    documents = explain.decided(decisions, with_nodes=bool(pod), bound=bound)
    largest = max((one.candidates for one in decisions), default=0) if pod else 0
    rows = len(documents) + len(TIMED) * largest  # the newest of each verb has its nodes
    return protocol.encode_by_parts({"decisions": documents}), rows


def _page(parts: Parts, after: str, bound: collections.abc.Callable[[decision_log.Decision], explain.Json]) -> Shown:
    """The decisions after those of an earlier page, about pods of which one matters: from the first on after a page of
    another process.

    A decision, and those after it, are left to a later page while its pod may still get a node.
    """
    ring, now_seconds = parts.decisions, parts.clock.now()
    begun, _, text = after.partition("-")
    number = int(text) if begun == ring.begun and text.isascii() and text.isdigit() and len(text) < 19 else 0
    start, decisions = ring.after(number, PAGE_DECISIONS, now_seconds=now_seconds)
    past = explain.decided(decisions, with_nodes=False, bound=bound)
    is_settled = lambda one: one.bound_to or one.at_seconds <= now_seconds - SETTLED_SECONDS  # noqa: E731
    settled = list(itertools.takewhile(is_settled, past))
    uids = {one.uid for one in settled if one.matters}
    matter = [one for one in settled if one.uid in uids]
    missed = start - number if number else 0
    page = decision_page.DecisionPage(matter, f"{ring.begun}-{start + len(settled)}", missed)
    return protocol.encode_by_parts(page), len(settled)


def _nodes(parts: Parts) -> Shown:
    document = explain.all_nodes(parts.view, parts.clock.now())
    return protocol.encode_by_parts(document), len(parts.view.nodes.loads().index)


def _body() -> bytes:
    """The request's body; 415 for another media type than JSON, 413 for too much of it."""
    if flask.request.mimetype and not flask.request.is_json:
        raise exceptions.UnsupportedMediaType(f"{flask.request.mimetype!r} given, application/json expected")
    body = flask.request.get_data(cache=False)
    if flask.request.content_length is None and len(body) >= flask.current_app.config["MAX_CONTENT_LENGTH"]:
        raise exceptions.RequestEntityTooLarge  # in chunks, and cut at the limit without a word
    return body


def _json(body: bytes) -> flask.Response:
    return flask.Response(body, mimetype="application/json")
