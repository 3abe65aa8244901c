"""The hot verbs without a framework: a WSGI function that answers the usual /filter and /prioritize from the board.

It stands in front of the Flask application (`service`) and hands everything else on to it, the body included: other
routes, whole nodes, unknown names, lower-case keys, pods that are exempt or ask to be, relief hints, and whatever is
not the JSON that Go writes. So the slow path stays the one definition of every answer, and this one may decline
whenever it is in doubt. Each request of kube-scheduler that it declines is counted with the reason.

The winner is assumed when the server closes the reply: after its last byte is sent, on the same thread, before the next
request of that connection is read, so that the next pod of the same scheduler sees the placement; another scheduler may
ask in between, as it could before. The decision is remembered and counted when no request waits (`http.deferred`).
"""

import collections
import collections.abc
import functools
import io
import socket
from typing import Final, NamedTuple
from wsgiref import types as wsgi

import numpy as np

from extender import deadline, metrics, protocol
from extender.http import app, deferred, nonblocking_sockets
from extender.state import cluster_view, name_table, node_cache, node_labels, score_cache
from extender.verbs import decision_log, verbs
from kube import objects
from policy.contract import owner_usage
from policy.rules import expected_load, scoring
from runtime import loop

_JSON: Final = frozenset({"", "application/json"})
_NAMES: Final = b',"NodeNames":["'
_END: Final = b'"]}'
ORDERS_KEPT: Final = 8  # lists of names seen lately: a few schedulers, each asking prioritize about what filter passed


class Declined(Exception):
    """The slow path must answer; `reason` is one of metrics.SLOW_PATH_REASONS."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ParsedRequest(NamedTuple):
    """A request that the board can answer: the pod, its candidates as they are at this moment, the JSON list of their
    names, and what the replicas of the pod's owner are known to use.
    """

    pod: objects.Pod
    candidates: score_cache.CandidateScores
    text: bytes
    mean: owner_usage.Mean | None

    @property
    def standing(self) -> cluster_view.Candidates:
        """All nodes at that moment."""
        return self.candidates.table.standing


class Reply(NamedTuple):
    """The body, and what is left to do when it is sent."""

    body: bytes
    degraded: bool
    after: collections.abc.Callable[[], None]


class _Order(NamedTuple):
    """A list of names as it stood in a request or reply, and where its nodes stand under these labels."""

    text: bytes
    labels: node_labels.NodeLabels
    rows: node_cache.Rows


Answer = collections.abc.Callable[[bytes, float], Reply]  # raises Declined


class NameListCache:
    """The lists of names seen last. A list is compared byte by byte, which ends at the first difference.

    A deque with a limit, read as a copy: threads may add at the same time, and a missed one is parsed again.
    """

    def __init__(self) -> None:
        self._kept: collections.deque[_Order] = collections.deque(maxlen=ORDERS_KEPT)

    def find(self, text: bytes, labels: node_labels.NodeLabels) -> _Order | None:
        """The list with exactly this text; None for one not seen, or seen before nodes came or went."""
        return next((one for one in self._kept.copy() if one.labels is labels and one.text == text), None)

    def keep(self, text: bytes, labels: node_labels.NodeLabels, rows: node_cache.Rows) -> None:
        """Remember a list."""
        self._kept.append(_Order(text, labels, rows))


class FastPath:
    """The WSGI function. `parts` are the application's own."""

    def __init__(self, parts: app.Parts, application: wsgi.WSGIApplication) -> None:
        self._parts = parts
        self._application = application
        self._boards = score_cache.ScoreCache(parts.view)
        self._orders = NameListCache()
        self._verbs = {"/filter": self._filter, "/prioritize": self._prioritize}
        self._durations = {
            (verb, result): parts.metrics.duration_seconds.labels(verb, result)
            for verb in ("filter", "prioritize")
            for result in ("ok", "degraded")
        }

    def __call__(
        self, environ: wsgi.WSGIEnvironment, start_response: wsgi.StartResponse
    ) -> collections.abc.Iterable[bytes]:
        """One request."""
        answer = self._verbs.get(environ["PATH_INFO"])
        if answer is None:
            return self._application(environ, start_response)
        length = environ.get("CONTENT_LENGTH") or ""
        plain = environ["REQUEST_METHOD"] == "POST" and environ.get("CONTENT_TYPE", "") in _JSON
        if not plain or not length.isdigit() or int(length) > protocol.BODY_LIMIT_BYTES:
            self._decline(metrics.FORM)
            return self._application(environ, start_response)
        started_seconds = self._parts.clock.monotonic()
        body = environ["wsgi.input"].read(int(length))
        reply = self._attempt(answer, body, complete=len(body) == int(length))
        if reply is None:
            environ["wsgi.input"] = io.BytesIO(body)
            return self._application(environ, start_response)
        connection = environ.get("gunicorn.socket")
        # gunicorn writes the head and then the body: the head alone would wake the scheduler for nothing
        nonblocking_sockets.cork(connection, True)
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(reply.body)))]
        start_response("200 OK", headers)
        verb, result = environ["PATH_INFO"][1:], "degraded" if reply.degraded else "ok"
        self._durations[verb, result].observe(self._parts.clock.monotonic() - started_seconds)
        return _SentReply(reply, connection)

    def ahead(self) -> None:
        """Builds this second's score tables before the first request needs them."""
        self._boards.ahead(self._parts.clock.now())

    def _attempt(self, answer: Answer, body: bytes, *, complete: bool) -> Reply | None:
        """Returns the answer, or None where there is none: also when it would be late, or when a bug raises here (it is
        counted), because the application can still answer.
        """
        made: list[Reply] = []

        def work() -> None:
            try:
                deadline.check()
                if not complete:
                    raise Declined(metrics.FORM)
                made.append(answer(body, self._parts.clock.now()))
            except deadline.Overrun:
                self._decline(metrics.LATE)
            except Declined as found:
                self._decline(found.reason)

        loop.attempt("answer from the board", work, self._count_failure)
        return made[0] if made else None

    def _decline(self, reason: str) -> None:
        self._parts.metrics.slow_path.labels(reason).inc()

    def _count_failure(self, error: BaseException) -> None:
        self._decline(metrics.BUG)
        self._parts.metrics.fast_path_failures.labels(type(error).__name__).inc()

    def _filter(self, body: bytes, now_seconds: float) -> Reply:
        asked = self._question(body, now_seconds)
        candidates, labels = asked.candidates, asked.candidates.table.labels
        _check_judged_by_load(asked)
        allowed, causes = candidates.allowed(), candidates.table.causes(candidates.rows)
        if not allowed.any():
            verdicts = candidates.as_candidates().verdicts()
            allowed, causes = verdicts.allowed, (*causes, verbs.ALL_REJECTED) if verdicts.kept_coolest else causes
            if verdicts.kept_coolest and _asks_nominated(asked):
                raise Declined(metrics.NOMINATED)
        passed, shadow = candidates.rows[allowed], asked.standing.in_force.shadow
        answered = candidates.rows if shadow else passed
        text = _names_text(asked, answered)
        self._orders.keep(text, labels, answered)
        parts, reasons = candidates.refused(allowed)
        reply = protocol.joined_filter(text, () if shadow else parts)
        rejected = candidates.rows[~allowed], reasons
        return Reply(reply, bool(causes), functools.partial(self._filtered, asked, passed, rejected, causes))

    def _filtered(
        self,
        request: ParsedRequest,
        passed: node_cache.Rows,
        rejected: tuple[node_cache.Rows, list[str]],
        causes: tuple[str, ...],
    ) -> None:
        name_of, shadow = request.standing.loads.names.__getitem__, request.standing.in_force.shadow
        winner = name_of(int(passed[0])) if len(passed) == 1 and not shadow else ""
        self._assume(request, winner)
        if request.pod.nominated_node:
            self._parts.view.nominated.forget(request.pod.uid)

        def note() -> None:
            rows, reasons = rejected
            judged = verbs.Judgement(dict(zip(map(name_of, rows.tolist()), reasons, strict=True)), None, causes)
            self._note("filter", request.candidates, request, judged, assumed=winner)
            if shadow and len(request.candidates.rows) == 1:
                rows_asked = request.candidates.as_candidates()
                self._parts.shadow.remember(verbs.shadow_verdicts(rows_asked, request.pod, passed))

        deferred.do(note)

    def _prioritize(self, body: bytes, now_seconds: float) -> Reply:
        asked = self._question(body, now_seconds)
        table, rows = asked.candidates.table, asked.candidates.rows
        every, causes = table.standing, table.causes(rows)
        if every.in_force.shadow:
            scores = np.full(len(rows), verbs.SHADOW_SCORE)
            reply = protocol.joined_scores(table.labels.openings[rows].tolist(), scores)
            return Reply(reply, bool(causes), functools.partial(self._shadowed, asked, causes))
        ranking = asked.candidates.ranking(_incoming(asked))
        reply = protocol.joined_scores(table.labels.openings[rows].tolist(), ranking.scores)
        return Reply(reply, bool(causes), functools.partial(self._prioritized, asked, ranking, causes))

    def _prioritized(self, request: ParsedRequest, ranking: scoring.Ranking, causes: tuple[str, ...]) -> None:
        names, rows = request.standing.loads.names, request.candidates.rows
        winner = "" if ranking.neutral.all() else names[rows[ranking.scores.argmax()]]
        self._assume(request, winner)

        def note() -> None:
            best = verbs.ranked(lambda at: names[rows[at]], ranking)
            judged = verbs.Judgement({}, None, causes)
            self._note("prioritize", request.candidates, request, judged, best=best, assumed=winner)

        deferred.do(note)

    def _shadowed(self, request: ParsedRequest, causes: tuple[str, ...]) -> None:
        """Note the ranking that kube-scheduler was not told: of the nodes that pass."""

        def note() -> None:
            passed = request.candidates.only(_allowed(request))
            names, ranking = request.standing.loads.names, passed.ranking(_incoming(request))
            best = verbs.ranked(lambda at: names[passed.rows[at]], ranking)
            self._note("prioritize", passed, request, verbs.Judgement({}, None, causes), best=best, assumed="")
            asked = request.candidates.as_candidates()
            self._parts.shadow.remember(verbs.shadow_verdicts(asked, request.pod, passed.rows, ranking))

        deferred.do(note)

    def _note(
        self,
        verb: str,
        candidates: score_cache.CandidateScores,
        request: ParsedRequest,
        judged: verbs.Judgement,
        *,
        best: tuple[decision_log.RankedNode, ...] = (),
        assumed: str,
    ) -> None:
        rows = candidates.as_candidates()
        found = verbs.decision(verb, rows, request.pod, judged, best=best, assumed=assumed, mean=request.mean)
        app.note(self._parts, found)

    def _assume(self, request: ParsedRequest, winner: str) -> None:
        """Note the winner. Where a request is about most nodes the next one will be, too: the board that it needs is
        made while no request waits for it.
        """
        if not request.standing.in_force.shadow:
            self._parts.view.assume(request.pod, winner, request.standing.now_seconds)
        if winner and 2 * len(request.candidates.rows) >= len(request.candidates.table.labels.rows):
            self._boards.current(self._parts.clock.now(), pod=request.pod)

    def _question(self, body: bytes, now_seconds: float) -> ParsedRequest:
        """The request in a body as Go writes it, with known names; Declined for any other.

        A pod that counts somewhere already (it is asked about again within seconds, or another scheduler has placed it)
        is judged as if it did not.
        """
        begin, end = body.rfind(_NAMES), body.rfind(_END)
        if begin < 0 or body[end:].rstrip(b" \t\r\n") != _END:
            raise Declined(metrics.BODY)
        pod = protocol.pod_before_names(body[:begin])
        if pod is None:
            raise Declined(metrics.BODY)
        text = body[begin + len(_NAMES) - 2 : end + 2]
        labels = self._boards.labels(now_seconds)
        rows = self._rows(text, labels)
        if rows is None:
            raise Declined(metrics.UNKNOWN_NODE)
        candidates = self._candidates(pod, rows, now_seconds)
        if candidates is None or candidates.table.labels is not labels:
            raise Declined(metrics.NODES_CHANGED)
        return ParsedRequest(pod, candidates, text, self._parts.view.mean(pod, now_seconds))

    def _candidates(
        self, pod: objects.Pod, rows: node_cache.Rows, now_seconds: float
    ) -> score_cache.CandidateScores | None:
        table = self._boards.current(now_seconds, rows, pod)
        if self._parts.view.placements.knows(pod.uid):
            return self._boards.without(table, rows, pod.uid)
        return score_cache.CandidateScores(table, rows)

    def _rows(self, text: bytes, labels: node_labels.NodeLabels) -> node_cache.Rows | None:
        """The rows of a JSON list of known names, each once; None if it holds anything else.

        Only the exact bytes of a known name are looked up, so a text that means something else in JSON is not found.
        """
        order = self._orders.find(text, labels)
        if order is not None:
            return order.rows
        if len(text) > labels.longest_bytes:
            return None
        rows = labels.directory.rows(text)
        if rows is None:
            found = list(map(labels.rows.get, text[2:-2].split(b'","')))
            if None in found:
                return None
            rows = np.array(found, dtype=np.intp)
        return rows if np.bincount(rows).max() == 1 else None


def _names_text(request: ParsedRequest, passed: node_cache.Rows) -> bytes:
    """The JSON list of the names that passed."""
    if len(passed) == len(request.candidates.rows):
        return request.text
    names: list[bytes] = request.candidates.table.labels.directory.names[passed].tolist()
    return name_table.written(names) if names else b"[]"


def _check_judged_by_load(request: ParsedRequest) -> None:
    """Raises Declined if filtering this pod takes more than the board: a relief hint may concern it, or it is not
    judged by load.
    """
    every, pod = request.standing, request.pod
    if pod.owner is not None and any(verbs.holds(hint, pod.owner.uid, every) for hint in every.loads.reliefs.values()):
        raise Declined(metrics.RELIEF_HINT)
    if verbs.exemption(every, pod) is not None or verbs.opted_out(every, pod) is not None:
        raise Declined(metrics.EXEMPT)


def _asks_nominated(request: ParsedRequest) -> bool:
    """Returns whether a request is about the nominated node of its pod alone."""
    rows = request.candidates.rows
    return len(rows) == 1 and request.standing.loads.names[rows[0]] == request.pod.nominated_node


def _allowed(request: ParsedRequest) -> cluster_view.Mask:
    """The filter's verdict on the candidates of a prioritize request, as `verbs.judge` gives it."""
    try:
        _check_judged_by_load(request)
    except Declined:
        every = request.candidates.as_candidates().candidates()
        left, _ = verbs.judge(every, request.pod)
        return np.isin(every.rows, left.rows)
    allowed = request.candidates.allowed()
    return allowed if allowed.any() else request.candidates.as_candidates().verdicts().allowed


def _incoming(request: ParsedRequest) -> expected_load.Load | None:
    """The load that the pod brings, if the policy adds it to the score."""
    every = request.standing
    return every.estimate(request.pod, request.mean).load if every.in_force.weighing.incoming_pod else None


class _SentReply:
    """A reply of one piece that does the rest when the server closes it."""

    def __init__(self, reply: Reply, connection: socket.socket | None) -> None:
        self._reply = reply
        self._connection = connection

    def __iter__(self) -> collections.abc.Iterator[bytes]:
        return iter((self._reply.body,))

    def close(self) -> None:
        """The last byte is sent, or the client went away: the answer was given either way."""
        nonblocking_sockets.cork(self._connection, False)
        loop.attempt("what follows an answer", self._reply.after)  # a bug in it must not end the connection
