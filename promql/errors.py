"""The errors of the Prometheus door, one class per reaction that a caller has.

    PromqlError
    ├── ConfigError    the address or a credential file is wrong: stop at start, exit 2; nothing was sent
    ├── Unreachable    no answer at all (refused, timed out, TLS): keep the last good values, try again later, exit 3
    │   ├── Paused     not asked, because the circuit breaker is open; `.last` is the failure that opened it
    │   └── Stopping   not asked, because this process is told to end
    ├── Refused        401 or 403: an operator must act on the credentials
    ├── BadQuery       400 or 422: the expression is wrong, asking again cannot help
    ├── Unavailable    429 or 5xx: it is there but cannot answer now
    ├── Partial        the server says that its answer is not whole: keep the last good values, exit 4; `.answer` is it
    └── Garbage        an answer that is not the query API's (HTML, truncated JSON, a wrong result type)

Every message names the server (never credentials), the query, what came back and the next step. `promql.http.client`
raises them; annotator and descheduler catch `PromqlError`. The library's own exceptions are chained as causes, never
leaked.
"""

from typing import TYPE_CHECKING, ClassVar

from runtime.exit_codes import Exit

if TYPE_CHECKING:  # the door loads numpy, which the start of a run does not wait for
    from promql import door


class PromqlError(Exception):
    """Anything that keeps a query from having a trustworthy answer."""

    exit_code: ClassVar = Exit.UNREACHABLE


class ConfigError(PromqlError):
    """The address, a header or a credential file cannot be used; nothing was sent."""

    exit_code: ClassVar = Exit.BAD_INPUT


class Unreachable(PromqlError):
    """No answer: connection refused or reset, name not found, timed out, TLS not trusted."""


class Paused(Unreachable):
    """Nothing was sent: the server failed several times in a row and the next trial is not due (`circuit_breaker`)."""

    def __init__(self, last: PromqlError) -> None:
        super().__init__(f"not asked before the next trial, after failures in a row, the last: {last}")
        self.last = last


class Stopping(Unreachable):
    """Nothing was sent: this process is told to end, and what it would do with the answer is not done any more."""


class Refused(PromqlError):
    """The server does not know the credentials (401) or forbids the query (403)."""


class BadQuery(PromqlError):
    """The server could not parse or evaluate the expression (400, 422) or has no query API at that path (404)."""


class Unavailable(PromqlError):
    """The server answered that it cannot answer now (408, 429, 5xx)."""


class Partial(PromqlError):
    """Some of the server's stores did not answer it, so that series are absent, and sums lack them; `reasons` are the
    server's words, `answer` is what came: a report for people may show it, no service acts on it.
    """

    def __init__(self, message: str, *, answer: "door.Answer", reasons: tuple[str, ...]) -> None:
        super().__init__(message)
        self.answer = answer
        self.reasons = reasons


class Garbage(PromqlError):
    """The body is not a query API answer: HTML, truncated JSON, a wrong type."""
