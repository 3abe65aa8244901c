"""The hot verbs without a framework: a WSGI function that answers the usual /filter and /prioritize from the score
table.

It stands in front of the Flask application (`service`) and hands everything else on to it, the body included: other
routes, whole nodes, unknown names, lower-case keys, pods that are exempt or ask to be, relief hints, and whatever is
not the JSON that Go writes. So the slow path stays the one definition of every answer, and this one may decline
whenever it is in doubt. Each request of kube-scheduler that it declines is counted with the reason.

The winner is assumed when the server closes the reply: after its last byte is sent, on the same thread, before the next
request of that connection is read, so that the next pod of the same scheduler sees the placement; another scheduler may
ask in between, as it could before. The decision is remembered and counted when no request waits (`http.deferred`).
"""

import collections.abc
import dataclasses
import io
import socket
from typing import Final, NamedTuple
from wsgiref import types as wsgi

import numpy as np

from extender import deadline, metrics, protocol
from extender.http import app, deferred, nonblocking_sockets
from extender.http.request_reader import Declined, ParsedRequest, RequestReader
from extender.state import node_cache, score_cache
from extender.state.candidates import Mask
from extender.verbs import verbs
from policy.rules import scoring
from runtime import loop

_JSON: Final = frozenset({"", "application/json"})
_VERBS: Final = {"/filter": "filter", "/prioritize": "prioritize"}


@dataclasses.dataclass(slots=True)
class Reply:
    """A body of one piece; `after` is left to do when the server closes it."""

    body: bytes
    degraded: bool
    after: collections.abc.Callable[[], None]
    connection: socket.socket | None = None

    def __iter__(self) -> collections.abc.Iterator[bytes]:
        return iter((self.body,))

    def close(self) -> None:
        """The last byte is sent, or the client went away: the answer was given either way."""
        nonblocking_sockets.cork(self.connection, False)
        loop.attempt("note an answer", self.after)  # a bug in it must not end the connection


class _Verdict(NamedTuple):
    """The filter's verdict on the candidates of a request: the mask of those that pass; of the others the parts of the
    reply and the reasons; and why it is degraded.
    """

    allowed: Mask
    parts: list[bytes]
    reasons: list[str]
    causes: tuple[str, ...]

    def judged(self, request: ParsedRequest) -> verbs.Judgement:
        """Returns the verdict with the names of the nodes."""
        names = map(request.every.loads.names.__getitem__, request.candidates.rows[~self.allowed].tolist())
        return verbs.Judgement(dict(zip(names, self.reasons, strict=True)), None, self.causes)


class FastPath:
    """The WSGI function. `parts` are the application's own."""

    def __init__(self, parts: app.Parts, application: wsgi.WSGIApplication) -> None:
        self._parts = parts
        self._application = application
        self._tables = score_cache.ScoreCache(parts.view)
        self._requests = RequestReader(parts.view, self._tables)
        self._durations = {
            (verb, result): parts.metrics.duration_seconds.labels(verb, result)
            for verb in _VERBS.values()
            for result in ("ok", "degraded")
        }

    def __call__(
        self, environ: wsgi.WSGIEnvironment, start_response: wsgi.StartResponse
    ) -> collections.abc.Iterable[bytes]:
        """One request."""
        verb = _VERBS.get(environ["PATH_INFO"])
        if verb is None:
            return self._application(environ, start_response)
        length = environ.get("CONTENT_LENGTH") or ""
        plain = environ["REQUEST_METHOD"] == "POST" and environ.get("CONTENT_TYPE", "") in _JSON
        if not plain or not length.isdigit() or int(length) > protocol.BODY_LIMIT_BYTES:
            self._decline(metrics.FORM)
            return self._application(environ, start_response)
        started_seconds = self._parts.clock.monotonic()
        body = environ["wsgi.input"].read(int(length))
        reply = self._attempt(verb, body, complete=len(body) == int(length))
        if reply is None:
            environ["wsgi.input"] = io.BytesIO(body)
            return self._application(environ, start_response)
        reply.connection = environ.get("gunicorn.socket")
        # gunicorn writes the head and then the body: the head alone would wake the scheduler for nothing
        nonblocking_sockets.cork(reply.connection, True)
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(reply.body)))]
        start_response("200 OK", headers)
        result = "degraded" if reply.degraded else "ok"
        self._durations[verb, result].observe(self._parts.clock.monotonic() - started_seconds)
        return reply

    def ahead(self) -> None:
        """Builds this second's score tables before the first request needs them."""
        self._tables.ahead(self._parts.clock.now())

    def _attempt(self, verb: str, body: bytes, *, complete: bool) -> Reply | None:
        """Returns the answer, or None where there is none: also when it would be late, or when a bug raises here (it is
        counted), because the application can still answer.
        """
        replies: list[Reply] = []

        def work() -> None:
            try:
                deadline.check()
                if not complete:
                    raise Declined(metrics.FORM)
                replies.append(self._answer(verb, body))
            except deadline.Overrun:
                self._decline(metrics.LATE)
            except Declined as error:
                self._decline(str(error))

        loop.attempt("answer from the score table", work, self._count_failure)
        return replies[0] if replies else None

    def _decline(self, reason: str) -> None:
        self._parts.metrics.slow_path.labels(reason).inc()

    def _count_failure(self, error: BaseException) -> None:
        self._decline(metrics.BUG)
        self._parts.metrics.fast_path_failures.labels(type(error).__name__).inc()

    def _answer(self, verb: str, body: bytes) -> Reply:
        request = self._requests.read(body, self._parts.clock.now())
        if request.every.in_force.shadow:
            return self._in_shadow(verb, request)
        return self._filter(request) if verb == "filter" else self._prioritize(request)

    def _filter(self, request: ParsedRequest) -> Reply:
        verdict = _verdict(request)
        passed = request.candidates.rows[verdict.allowed]
        body = self._filter_reply(request, passed, verdict.parts)

        def after() -> None:
            winner = request.every.loads.names[passed[0]] if len(passed) == 1 else ""
            self._assume(request, winner)
            if request.pod.nominated_node:
                self._parts.view.nominated.forget(request.pod.uid)
            deferred.do(lambda: self._note("filter", request, verdict.judged(request), winner))

        return Reply(body, bool(verdict.causes), after)

    def _filter_reply(self, request: ParsedRequest, passed: node_cache.Rows, refusals: list[bytes]) -> bytes:
        text = request.names_text(passed)
        self._requests.remember(text, request.candidates.table.labels, passed)
        return protocol.joined_filter(text, refusals)

    def _prioritize(self, request: ParsedRequest) -> Reply:
        candidates, ranking = request.candidates, request.ranking(request.candidates)
        causes = candidates.table.causes(candidates.rows)

        def after() -> None:
            best = candidates.rows[ranking.scores.argmax()]
            winner = "" if ranking.neutral.all() else request.every.loads.names[best]
            self._assume(request, winner)
            judged = verbs.Judgement({}, None, causes)
            deferred.do(lambda: self._note("prioritize", request, judged, winner, ranking=ranking))

        return Reply(_scores_reply(candidates, ranking.scores), bool(causes), after)

    def _in_shadow(self, verb: str, request: ParsedRequest) -> Reply:
        """Shadow mode around both verbs, as in `verbs.answer`: the nodes that pass are ranked when no request waits."""
        candidates, verdict = request.candidates, None
        if verb == "filter":
            verdict = _verdict(request)
            causes, body = verdict.causes, self._filter_reply(request, candidates.rows, [])
        else:
            causes = candidates.table.causes(candidates.rows)
            body = _scores_reply(candidates, np.full(len(candidates.rows), verbs.SHADOW_SCORE))

        def record() -> None:
            passed = candidates.only(_allowed(request) if verdict is None else verdict.allowed)
            decision, verdicts = verbs.in_shadow(
                verb,
                request.pod,
                request.mean,
                candidates.as_candidates(),
                passed=passed.as_candidates(),
                judged=verbs.Judgement({}, None, causes) if verdict is None else verdict.judged(request),
                ranking=request.ranking(passed) if verdict is None else None,
            )
            app.note(self._parts, decision, verdicts)

        return Reply(body, bool(causes), lambda: deferred.do(record))

    def _note(
        self,
        verb: str,
        request: ParsedRequest,
        judged: verbs.Judgement,
        winner: str,
        *,
        ranking: scoring.Ranking | None = None,
    ) -> None:
        rows, mean = request.candidates.as_candidates(), request.mean
        app.note(
            self._parts,
            verbs.decision(verb, rows, request.pod, judged, ranking=ranking, assumed=winner, mean=mean),
        )

    def _assume(self, request: ParsedRequest, winner: str) -> None:
        """Note the winner. Where a request is about most nodes the next one will be, too: the table that it needs is
        made while no request waits for it.
        """
        self._parts.view.assume(request.pod, winner, request.every.now_seconds)
        if winner and 2 * len(request.candidates.rows) >= len(request.candidates.table.labels.rows):
            self._tables.current(self._parts.clock.now(), pod=request.pod)


def _verdict(request: ParsedRequest) -> _Verdict:
    """Judge the candidates; Declined where that takes more than the score table."""
    candidates = request.candidates
    _check_judged_by_load(request)
    allowed, causes = candidates.allowed(), candidates.table.causes(candidates.rows)
    if not allowed.any():
        verdicts = candidates.as_candidates().verdicts()
        allowed, causes = verdicts.allowed, (*causes, verbs.ALL_REJECTED) if verdicts.kept_coolest else causes
        names = request.every.loads.names
        if verdicts.kept_coolest and [names[row] for row in candidates.rows[:2]] == [request.pod.nominated_node]:
            raise Declined(metrics.NOMINATED)
    return _Verdict(allowed, *candidates.refused(allowed), causes)


def _scores_reply(candidates: score_cache.CandidateScores, scores: node_cache.Rows) -> bytes:
    return protocol.joined_scores(candidates.table.labels.openings[candidates.rows].tolist(), scores)


def _check_judged_by_load(request: ParsedRequest) -> None:
    """Raises Declined if filtering this pod takes more than the score table: a relief hint may concern it, or it is not
    judged by load.
    """
    every, pod, hints = request.every, request.pod, request.every.loads.reliefs.values()
    if pod.owner is not None and any(hint.holds(pod.owner.uid, every.now_seconds) for hint in hints):
        raise Declined(metrics.RELIEF_HINT)
    if verbs.exemption(every, pod) is not None or verbs.opted_out(every, pod) is not None:
        raise Declined(metrics.EXEMPT)


def _allowed(request: ParsedRequest) -> Mask:
    """The filter's verdict on the candidates of a prioritize request, as `verbs.judge` gives it."""
    try:
        _check_judged_by_load(request)
    except Declined:
        candidates = request.candidates.as_candidates().candidates()
        left, _ = verbs.judge(candidates, request.pod)
        return np.isin(candidates.rows, left.rows)
    allowed = request.candidates.allowed()
    return allowed if allowed.any() else request.candidates.as_candidates().verdicts().allowed
