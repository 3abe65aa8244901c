"""The descheduler's pages: GET /evictions, /events and /decisions (the ledger), GET /plan (what it would do now and why
not), GET /breaker and POST /breaker/reset.

`__main__.py` serves the application beside the plain routes of runtime.ops_server. Nothing here evicts; the pages are
JSON for `evenload plan`, `evenload evictions` and for people with curl. Any client that reaches the port may read; the
one route that changes something answers this machine only (docs/decisions/0008).
"""

import collections.abc
import functools
import ipaddress

import flask
import werkzeug.exceptions
from prometheus_client import CollectorRegistry

from descheduler.http import views
from descheduler.ledger import decisions
from descheduler.ledger.database import LedgerError
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import RESULTS, Query
from descheduler.previews import Previews
from descheduler.service import Service
from kube.errors import KubeError
from policy.schema.load_policy import LoadPolicy
from promql.errors import PromqlError
from runtime import clock, durations, hosts, logs, ops_server, reload_metrics
from runtime.clock import Clock
from runtime.health import Check
from runtime.reloading import Reloading

log = logs.get(__name__)

LIMIT, MOST = 500, 10_000
FILTERS = ("namespace", "pod", "node", "workload", "outcome")  # of `Query`, each a text


def create_app(
    service: Service,
    ledger: Ledger,
    policy: Reloading[LoadPolicy],
    *,
    clock: Clock,
    livez: collections.abc.Sequence[Check],
    registry: CollectorRegistry,
    details: collections.abc.Sequence[Check] = (),
) -> flask.Flask:
    """The application of one descheduler; /readyz?verbose has the lines of `details`, too: its doors and watches."""
    app = flask.Flask("descheduler")
    app.before_request(hosts.check)
    registry.register(reload_metrics.ReloadCollector(policy))
    # Not whether the last run could read its doors, nor whether an edit of the policy was refused: that is in /configz
    # and on /metrics, and no reason to be replaced.
    readyz = (
        Check("policy", lambda: None, policy.line),
        Check("last run", lambda: None, lambda: service.trouble or ("ended well" if service.last else "none yet")),
        *details,
    )
    previews = Previews(service)
    configz = lambda: _configz(service, policy)  # noqa: E731
    app.register_blueprint(ops_server.ops_blueprint(livez=livez, readyz=readyz, registry=registry, configz=configz))

    def plan() -> flask.Response:
        """GET /plan?namespace=&pod=: a plan for this moment, of one pod alone if it is named; nothing is done."""
        _known(flask.request.args, "namespace", "pod")
        names = flask.request.args.get("namespace", ""), flask.request.args.get("pod", "")
        return ops_server.json_response(views.report(previews.pod(*names) if names[1] else previews.plan()))

    def standing() -> flask.Response:
        """GET /breaker: the workloads whose evictions failed, and how their breakers stand."""
        return ops_server.json_response({"breakers": [views.breaker(one) for one in previews.breakers()]})

    def reset() -> flask.Response:
        """POST /breaker/reset?workload=UID: forgets failures; without a workload, all. From this machine."""
        _known(flask.request.args, "workload")
        _from_this_machine(flask.request)
        workload_uid = flask.request.args.get("workload", "")
        ledger.reset_breaker(workload_uid, clock.now())
        log.info("breaker reset by hand", workload=workload_uid or "all")
        return ops_server.json_response({"reset": workload_uid or "all"})

    app.add_url_rule("/evictions", "evictions", functools.partial(_evictions, ledger, clock))
    app.add_url_rule("/events", "events", functools.partial(_events, ledger, clock))
    app.add_url_rule("/decisions", "decisions", functools.partial(_decisions, ledger))
    app.add_url_rule("/plan", "plan", plan)
    app.add_url_rule("/breaker", "breaker", standing)
    app.add_url_rule("/breaker/reset", "reset", reset, methods=["POST"])
    for kind in (KubeError, PromqlError, LedgerError):
        app.register_error_handler(kind, _unavailable)
    return app


def _from_this_machine(request: flask.Request) -> None:
    """403 for a request that came over the network, and for a web page's.

    `kubectl port-forward` arrives on the pod's loopback, so Kubernetes' own RBAC (pods/portforward, pods/exec) says who
    may. A browser puts Origin on every POST; the command line never does: a page that a person with an open forward
    happens to visit can reset nothing.
    """
    asks = ipaddress.ip_address(request.remote_addr or "0.0.0.0")  # noqa: S104 - no address is no loopback
    asks = getattr(asks, "ipv4_mapped", None) or asks
    why = "" if asks.is_loopback else f"a breaker is reset from this machine only, not from {asks}"
    if not why and "Origin" in request.headers:
        why = "a breaker is not reset by a web page (the request has an Origin)"
    if why:
        raise werkzeug.exceptions.Forbidden(
            f"{why}: `evenload breaker reset --all` without --descheduler prints the command that does it in the pod"
        )


def _evictions(ledger: Ledger, clock: Clock) -> flask.Response:
    """GET /evictions: rows of the ledger, newest first."""
    query = _query(flask.request.args, clock.now())
    begun_seconds = ledger.set_aside_at_seconds() or 0.0
    known_seconds = begun_seconds if begun_seconds > (query.since_seconds or 0.0) else None
    return ops_server.json_response(views.rows(ledger.rows(query), known_seconds))


def _events(ledger: Ledger, clock: Clock) -> flask.Response:
    """GET /events: what was told, newest first, also what the cluster has dropped since."""
    arguments = flask.request.args
    _known(arguments, "since", "name", "limit")
    rows = ledger.events(
        since_seconds=_since(arguments.get("since", ""), clock.now()),
        name=arguments.get("name", ""),
        limit=_limit(arguments.get("limit", str(LIMIT))),
    )
    return ops_server.json_response({"events": [views.event(one) for one in rows]})


def _decisions(ledger: Ledger) -> flask.Response:
    """GET /decisions: those of the extender that were copied, newest first."""
    arguments = flask.request.args
    _known(arguments, "namespace", "pod", "limit")
    names, limit = (arguments.get(name, "") for name in ("namespace", "pod")), arguments.get("limit", str(LIMIT))
    return ops_server.json_response({"decisions": decisions.find(ledger, *names, limit=_limit(limit))})


def _query(arguments: collections.abc.Mapping[str, str], now_seconds: float) -> Query:
    """The filters of a request; 400 for what cannot be one."""
    _known(arguments, "since", *FILTERS, "limit", "before")
    texts = {name: arguments.get(name, "") for name in FILTERS}
    if texts["outcome"] not in ("", *RESULTS):
        raise werkzeug.exceptions.BadRequest(f"outcome {texts['outcome']!r} is none of {', '.join(RESULTS)}")
    return Query(
        **texts,
        since_seconds=_since(arguments.get("since", ""), now_seconds),
        limit=_limit(arguments.get("limit", str(LIMIT))),
        before_id=_id(arguments.get("before", "")),
    )


def _known(arguments: collections.abc.Mapping[str, str], *names: str) -> None:
    unknown = set(arguments) - set(names)
    if unknown:
        raise werkzeug.exceptions.BadRequest(
            f"unknown filter {', '.join(sorted(unknown))}; known are {', '.join(names)}"
        )


def _since(text: str, now_seconds: float) -> float | None:
    if not text:
        return None
    try:
        return now_seconds - durations.seconds(text)
    except ValueError:
        pass
    try:
        return clock.from_rfc3339(text)
    except ValueError as error:
        raise werkzeug.exceptions.BadRequest(
            f"since {text!r} is neither a duration as 2h30m nor a time: {error}"
        ) from error


def _limit(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST:
        raise werkzeug.exceptions.BadRequest(f"limit {text!r} is not a number from 1 to {MOST}")
    return int(text)


def _id(text: str) -> int | None:
    if text and not (text.isascii() and text.isdigit() and len(text) < 19):
        raise werkzeug.exceptions.BadRequest(f"before {text!r} is not the id of a row")
    return int(text) if text else None


def _configz(service: Service, policy: Reloading[LoadPolicy]) -> dict[str, object]:
    last = service.last
    return {
        "policy": policy.current.as_file(),
        "policyState": policy.state(),
        "lastRun": None if last is None else {"at": clock.to_rfc3339(last.run.at_seconds), "summary": last.summary},
        "trouble": service.trouble,
    }


def _unavailable(error: Exception) -> flask.Response:
    return ops_server.json_response({"code": 503, "error": "Service Unavailable", "message": str(error)}, 503)
