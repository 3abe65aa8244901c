"""The console's Flask application: the page, its files, the stream of changes, and questions about one pod or node.

`cli.console` serves it with `runtime.ops_server`. There is no route that changes a cluster; the two POSTs judge a
policy's text and replay a day under it, both within this process.
"""

import collections.abc
import functools
import math
from typing import Any, Final

import flask
import msgspec
from werkzeug import exceptions
from werkzeug.middleware import dispatcher
from werkzeug.wrappers import response

from console import access, board, playground
from console.sources import Doors, Json, SourceError
from runtime import ops_server

TEXT_LIMIT: Final = 256 * 1024  # bytes of a policy
NAME_LIMIT: Final = 253


def create_app(
    doors: Doors, topics: board.Board, rules: access.Access, ops: flask.Blueprint, *, prefix: str = ""
) -> flask.Flask:
    """The application. `prefix` is the path under which a proxy passes requests on, "" for none."""
    app = flask.Flask(__name__, static_folder="static", static_url_path="/static")
    app.config["MAX_CONTENT_LENGTH"] = TEXT_LIMIT + 1024
    app.register_blueprint(ops)
    app.before_request(rules.check)
    app.after_request(access.protected)
    app.add_url_rule("/", "page", functools.partial(_page, doors))
    app.add_url_rule("/sign-in", "sign_in", functools.partial(_sign_in, rules), methods=["GET", "POST"])
    app.add_url_rule("/api/stream", "stream", functools.partial(_stream, board.Streams(topics), rules))
    app.add_url_rule("/api/decision", "decision", functools.partial(_decision, doors))
    if doors.pods is not None:
        app.add_url_rule("/api/pods", "pods", functools.partial(_pods, doors.pods))
    if doors.check is not None:
        check = functools.partial(_check, doors.check, topics)
        app.add_url_rule("/api/policy/check", "check", check, methods=["POST"])
    if doors.what_if is not None:
        what_if = functools.partial(_what_if, playground.Playground(doors.what_if, topics), topics)
        app.add_url_rule("/api/what-if", "what_if", what_if, methods=["POST"])
    if doors.story is not None:
        app.add_url_rule("/api/story", "story", functools.partial(_story, doors.story))
    app.register_error_handler(SourceError, _unanswered)
    if prefix:
        app.wsgi_app = dispatcher.DispatcherMiddleware(_nothing_here, {prefix: app.wsgi_app})  # type: ignore[method-assign]
    return app


def _page(doors: Doors) -> str:
    able = {name: getattr(doors, name) is not None for name in ("pods", "effectiveness", "check", "what_if", "story")}
    return flask.render_template("page.html", title=doors.title, note=doors.note, able=able)


def _sign_in(rules: access.Access) -> str | response.Response:
    if not rules.has_token:
        return flask.redirect(f"{flask.request.root_path}/")
    if flask.request.method == "POST":
        return rules.sign_in(flask.request.form.get("token", ""))
    return flask.render_template("sign_in.html")


def _stream(streams: board.Streams, rules: access.Access) -> flask.Response:
    try:
        opened = streams.open(own=rules.own())
    except board.TooMany as error:
        message = f"{board.STREAMS} browsers look already; close one, or start another console"
        raise exceptions.ServiceUnavailable(message) from error
    reply = flask.Response(opened, mimetype="text/event-stream")
    reply.headers["X-Accel-Buffering"] = "no"  # nginx would hold events back
    return reply


def _decision(doors: Doors) -> flask.Response:
    """The newest decisions about a pod, with every node: of the first replica that has one."""
    pod, namespace = _name("pod"), _name("namespace")
    newest: list[Any] = []
    for replica in doors.extenders():
        body = replica.get("/decisions", namespace=namespace, pod=pod, limit="10")
        newest += msgspec.json.decode(body, type=dict[str, list[Any]]).get("decisions", [])
    newest.sort(key=lambda one: -one["at_seconds"])
    return _json({"decisions": newest})


def _pods(ask: collections.abc.Callable[[str], collections.abc.Sequence[Any]]) -> flask.Response:
    return _json({"pods": [one._asdict() for one in ask(_name("node"))]})


def _story(tell: collections.abc.Callable[[float, float], Json]) -> flask.Response:
    begin, end = (flask.request.args.get(name, math.nan, float) for name in ("begin", "end"))
    if not 0 <= begin < end < math.inf:
        raise exceptions.BadRequest(f"begin={begin:g}, end={end:g}: expected Unix seconds, the end after the beginning")
    return _json(tell(begin, end))


def _check(judge: collections.abc.Callable[[str, Json], Json], topics: board.Board) -> flask.Response:
    return _json(judge(_text(), _in_force(topics)))


def _in_force(topics: board.Board) -> Json:
    """The policy that the descheduler goes by; {} while it is not known."""
    newest = topics.newest("policy")
    policy: Json = {} if newest is None else msgspec.json.decode(newest, type=dict[str, Any]).get("policy", {})
    return policy


def _what_if(tries: playground.Playground, topics: board.Board) -> flask.Response:
    try:
        tries.begin(_text(), _in_force(topics))
    except playground.Busy as error:
        raise exceptions.Conflict("a replay is going on; its result comes to this page, too") from error
    return _json({"state": "running"})


def _text() -> str:
    """The text of a policy in the body. 400 for what is no text."""
    try:
        return flask.request.get_data(cache=False).decode()
    except UnicodeDecodeError as error:
        raise exceptions.BadRequest(f"the policy is no UTF-8 text: {error}") from error


def _name(parameter: str) -> str:
    name = flask.request.args.get(parameter, "")
    if not name or len(name) > NAME_LIMIT:
        raise exceptions.BadRequest(f"{parameter}={name[:60]!r}: expected a name of 1 to {NAME_LIMIT} characters")
    return name


def _json(document: object) -> flask.Response:
    return flask.Response(msgspec.json.encode(document), mimetype="application/json")


def _unanswered(error: SourceError) -> flask.Response:
    return ops_server.json_response({"code": 503, "error": "Service Unavailable", "message": str(error)}, 503)


def _nothing_here(_environ: object, start_response: Any) -> collections.abc.Iterable[bytes]:
    start_response("404 Not Found", [("Content-Type", "text/plain")])
    return (b"the console is under its --prefix\n",)
