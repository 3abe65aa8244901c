"""The console's Flask application: the page, its files, the stream of changes, and questions about one pod or node.

`cli.console` serves it with `runtime.ops_server`. There is no route that changes a cluster; the two POSTs judge a
policy's text and replay a day under it, both within this process.
"""

import collections.abc
import functools
import math
import threading
from typing import Any, Final

import flask
import msgspec
from werkzeug import exceptions
from werkzeug.middleware import dispatcher
from werkzeug.wrappers import response

from console import access, board
from console.sources import Doors, Json, Replay, SourceError
from runtime import loop, ops_server

TEXT_LIMIT: Final = 256 * 1024  # bytes of a policy
NAME_LIMIT: Final = 253
REPORT_STEP: Final = 0.02  # of a replay, between two reports of progress


class Playground:
    """Replays a day under a policy, one at a time, on a thread, as the topic `whatif`; any thread may ask."""

    def __init__(self, replay: Replay, topics: board.Board) -> None:
        self._what_if, self._topics = replay, topics
        self._running = threading.Lock()
        self._share = 0.0

    def begin(self, text: str, in_force: Json) -> bool:
        """Start a replay beside the policy in force; False while another one goes on."""
        if not self._running.acquire(blocking=False):
            return False
        self._share = 0.0
        self._publish({"state": "running", "share": 0.0})
        once = threading.Event()
        once.set()  # not begun again, whatever it ends with
        loop.start_thread("what if", lambda _stop: self._run(text, in_force), once)
        return True

    def _run(self, text: str, in_force: Json) -> None:
        try:
            loop.attempt("replay a day", lambda: self._replay(text, in_force), lambda error: self._fail(str(error)))
        finally:
            self._running.release()

    def _replay(self, text: str, in_force: Json) -> None:
        try:
            result = self._what_if(text, in_force, self._report)
        except SourceError as error:
            self._fail(str(error))
        else:
            self._publish({"state": "done", "result": result})

    def _report(self, share: float) -> None:
        if share >= self._share + REPORT_STEP:
            self._share = share
            self._publish({"state": "running", "share": round(share, 3)})

    def _fail(self, message: str) -> None:
        self._publish({"state": "failed", "message": message})

    def _publish(self, document: object) -> None:
        self._topics.publish("whatif", msgspec.json.encode(document))


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
        what_if = functools.partial(_what_if, Playground(doors.what_if, topics), topics)
        app.add_url_rule("/api/what-if", "what_if", what_if, methods=["POST"])
    if doors.story is not None:
        app.add_url_rule("/api/story", "story", functools.partial(_story, doors.story))
    app.register_error_handler(SourceError, _unanswered)
    if prefix:
        elsewhere = flask.Response("the console is under its --prefix\n", 404, content_type="text/plain")
        app.wsgi_app = dispatcher.DispatcherMiddleware(elsewhere, {prefix: app.wsgi_app})  # type: ignore[method-assign]
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
    opened = streams.open(own=rules.own())
    if opened is None:
        message = f"{board.STREAMS} browsers look already; close one, or start another console"
        raise exceptions.ServiceUnavailable(message)
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


def _what_if(tries: Playground, topics: board.Board) -> flask.Response:
    if not tries.begin(_text(), _in_force(topics)):
        raise exceptions.Conflict("a replay is going on; its result comes to this page, too")
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
