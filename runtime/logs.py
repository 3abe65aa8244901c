"""Log lines: a constant message and key=value pairs, on stderr.

Every module says `log = logs.get(__name__)`; entry points call `configure` once. structlog does the work behind this
door and is imported when the first line is really written, so that importing a module stays cheap for the command line.
Values under keys that smell of secrets are replaced before anything is rendered, and what has the form of a credential
in the finished line.
"""

import contextlib
import logging
import re
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from runtime import terminal

if TYPE_CHECKING:
    import structlog

SECRET_WORDS = ("token", "authorization", "password", "secret", "cookie")
REDACTED = "[redacted]"
# What stands behind the name of a scheme of RFC 7235, the user of a URL, a JSON web token, a private key.
_FORMS = (
    re.compile(r"(?<=\bBearer )[\w.~+/=-]{6,}"),
    re.compile(r"(?<=\bBasic )(?!auth)[\w+/=-]{6,}"),
    re.compile(r"(?<=://)[^\s/@'\"<>]+(?=@)"),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL),
)
RESERVED = ("event", "level", "logger", "ts")  # keys structlog sets itself: a caller's value gets a trailing underscore
THIRD_PARTIES = ("urllib3", "werkzeug", "asyncio", "kubernetes")  # chatty below warnings; -vv shows them


class Logger:
    """Writes lines under one name; costs one level check when the level is off."""

    def __init__(self, name: str) -> None:
        self._stdlib = logging.getLogger(name)
        self._name = name
        self._bound: Any = None

    def debug(self, message: str, /, **values: object) -> None:
        """Details for the developer; shown with -v."""
        self._write(logging.DEBUG, message, values)

    def info(self, message: str, /, **values: object) -> None:
        """Logs a message for operators."""
        self._write(logging.INFO, message, values)

    def warning(self, message: str, /, **values: object) -> None:
        """Logs a problem that the service survives."""
        self._write(logging.WARNING, message, values)

    def error(self, message: str, /, **values: object) -> None:
        """Something did not get done."""
        self._write(logging.ERROR, message, values)

    def exception(self, message: str, /, **values: object) -> None:
        """As error, with the traceback of the exception being handled."""
        self._write(logging.ERROR, message, {**values, "exc_info": True})

    def _write(self, level: int, message: str, values: dict[str, object]) -> None:
        if not self._stdlib.isEnabledFor(level):
            return
        if self._bound is None:
            self._bound = _structlog().get_logger(self._name)
        self._bound.log(level, message, **{f"{key}_" if key in RESERVED else key: values[key] for key in values})


def get(name: str) -> Logger:
    """The logger of a module; importing structlog waits for the first line."""
    return Logger(name)


def configure(*, logging_format: str = "text", verbosity: int = 0) -> None:
    """Send lines to stderr as "text" or "json"; verbosity -1 = warnings, 0 = info, 1 = debug of ours, 2 = of all."""
    if logging_format not in ("text", "json"):
        raise ValueError(f"logging format {logging_format!r}: expected text or json")
    with _hidden("rich"):  # structlog would load it for tracebacks in colours: a seventh of a short process's imports
        structlog = _structlog()
    handler = logging.StreamHandler(sys.stderr)
    lines = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared_processors(),
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(logging_format)],
    )
    handler.setFormatter(_Hiding(lines))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel({-1: logging.WARNING, 0: logging.INFO}.get(verbosity, logging.DEBUG))
    for name in THIRD_PARTIES:
        logging.getLogger(name).setLevel(logging.DEBUG if verbosity > 1 else logging.WARNING)


class _Hiding(logging.Formatter):
    """Another formatter's lines without what looks like a credential and without control characters, wherever they
    stand: in a value, in a library's message, in a traceback.
    """

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return terminal.escaped_lines(hidden(self._inner.format(record)))


def hidden(text: str) -> str:
    """The text with the credentials that can be told by their form as [redacted]; a second net, as none is expected."""
    for form in _FORMS:
        text = form.sub(REDACTED, text)
    return text


def redact(_logger: object, _method: str, values: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: the value of any key that contains a word of SECRET_WORDS becomes [redacted]."""
    for key in values:
        if any(word in key.lower() for word in SECRET_WORDS):
            values[key] = REDACTED
    return values


def _on_one_line(_logger: object, _method: str, values: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: a message cannot begin another line; values are quoted anyway where they could."""
    values["event"] = terminal.escaped(str(values["event"]))
    return values


@contextlib.contextmanager
def _hidden(library: str) -> Iterator[None]:
    """Blocks the import meanwhile; modules that have it keep it. For the start of a process."""
    if library in sys.modules:
        yield
        return
    sys.modules[library] = None  # type: ignore[assignment]  # how Python spells "there is none"
    try:
        yield
    finally:
        del sys.modules[library]


def _structlog() -> Any:
    import structlog  # 120 ms: only processes that log pay for it

    if not structlog.is_configured():
        structlog.configure(
            processors=[*_shared_processors(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
            cache_logger_on_first_use=True,
        )
    return structlog


def _shared_processors() -> "Sequence[structlog.typing.Processor]":
    import structlog

    return [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        redact,
    ]


def _renderers(logging_format: str) -> "Sequence[structlog.typing.Processor]":
    import structlog

    if logging_format == "json":
        return [
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("msg"),
            structlog.processors.JSONRenderer(default=str),
        ]
    return [
        _on_one_line,
        structlog.dev.ConsoleRenderer(
            colors=False,
            pad_event_to=0,
            pad_level=False,
            sort_keys=False,
            timestamp_key="ts",
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]
