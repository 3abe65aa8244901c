"""Errors of the Kubernetes door: one tree, a class for each reaction of a caller.

    KubeError
      ConfigError       the kubeconfig or the pod's service account cannot be used: fix it, exit 2
      InvalidPath       a name that is no segment of a path ("..", ""): nothing was sent
      MetricsServerError  metrics-server, behind the apiserver, was not read, or nothing that it lists can be used
      NotListed         a kind that is watched was not listed yet: there is nothing to read
      Unreachable       no answer: refused, timed out, TLS, name not found, cut off half-way: retry, or exit 3
        Undecodable       an answer, but not the JSON of an apiserver (a proxy's HTML page, truncated): likewise
      ApiError          the apiserver said no; .status, .reason and .message are its own words
        Invalid           400, 405, 406, 413, 415, 422: the request is wrong, a retry will not help
        Unauthorized      401: the credentials are unknown or out of date
        Forbidden         403: RBAC or admission
        NotFound          404
        Conflict          409: someone else changed it first, or it exists already
        Gone              410: the resourceVersion is too old, list again
        TooManyRequests   429: .retry_after_seconds says when; .reason says whose (`BUDGET_CAUSE`, `FLOW_CONTROL`)
        ServerError       5xx

The client raises them; nothing of urllib3 or of the kubernetes package leaks. Callers catch the class they can handle.
"""

import math
from typing import ClassVar, Final

from runtime.exit_codes import Exit

TOO_MANY_REQUESTS: Final = 429
BUDGET_CAUSE: Final = "DisruptionBudget"  # policyv1.DisruptionBudgetCause: which of the many 429s is a budget's
# Which of them concerns no object: flow control, the limit of requests in flight and a shutdown answer in plain text
# (apiserver/pkg/server/filters), before anything has looked at the request; so does a proxy. Whatever judged an object
# (a budget, a webhook, which may ask for a Retry-After, too) answers with a Status.
FLOW_CONTROL: Final = "FlowControl"
# The longest wait that an answer can ask for, in whatever form it does: that of the reflectors' own back-off. A proxy
# that says an hour once, or twenty digits, must not blind a watch for so long.
LONGEST_WISH_SECONDS: Final = 30.0


class KubeError(Exception):
    """Anything this door raises."""

    exit_code: ClassVar = Exit.UNREACHABLE


class ConfigError(KubeError):
    """The configuration cannot be used; the text names the file, what was expected and the next step."""

    exit_code: ClassVar = Exit.BAD_INPUT


class InvalidPath(KubeError):
    """The names of a request make no path of the API; the text quotes them. Nothing was sent."""


class NotListed(KubeError):
    """A kind that a reflector watches was not listed yet; the text says which and why."""


class MetricsServerError(KubeError):
    """metrics-server gave nothing that can be used; the text says why and what to look at. Its readers raise it."""


class Unreachable(KubeError):
    """No answer came, or it was cut off; whether a write took place is unknown."""


class Undecodable(Unreachable):
    """Something answered that is not an apiserver, or not a whole one: as good as no answer."""


class ApiError(KubeError):
    """The apiserver answered with a failure. `retry_after_seconds` is its wish, at most LONGEST_WISH_SECONDS."""

    def __init__(
        self, request: str, *, status: int, reason: str, message: str, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(f"{request}: {status} {reason}: {message}" if message else f"{request}: {status} {reason}")
        self.status = status
        self.reason = reason
        self.message = message
        wish = retry_after_seconds
        self.retry_after_seconds = None if wish is None else min(max(0.0, wish), LONGEST_WISH_SECONDS)

    @property
    def headers(self) -> dict[str, str]:
        """The one header that matters, in the form in which the official client's retry looks for it."""
        wish = self.retry_after_seconds
        return {} if wish is None else {"Retry-After": str(math.ceil(wish))}


class Invalid(ApiError):
    """4xx without a class of its own: the request is wrong."""


class Unauthorized(ApiError):
    """401."""


class Forbidden(ApiError):
    """403."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409."""


class Gone(ApiError):
    """410: list again."""


class TooManyRequests(ApiError):
    """429."""


class ServerError(ApiError):
    """5xx."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    TOO_MANY_REQUESTS: TooManyRequests,
}


def class_for(status: int) -> type[ApiError]:
    """The class of an HTTP status that is not 2xx; 3xx count as Invalid, since the API never redirects."""
    return _BY_STATUS.get(status, ServerError if status >= 500 else Invalid)
