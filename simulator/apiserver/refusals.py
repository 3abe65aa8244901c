"""How the simulated apiserver says no: the same errors with the same status and reason as the real one's.

Every other module of the package raises what is made here; the sentences are this module's, the reasons are the API's
words.
"""

from kube import errors

REPEAT_SECONDS = 10.0  # what the apiserver asks for when a budget's status is not up to date


def not_found(what: str) -> errors.NotFound:
    """404 of an object or a resource."""
    return errors.NotFound(what, status=404, reason="NotFound", message=f"{what} is not there")


def exists(what: str) -> errors.Conflict:
    """409 of a creation."""
    return errors.Conflict(what, status=409, reason="AlreadyExists", message=f"{what} exists already")


def conflict(what: str, why: str) -> errors.Conflict:
    """409 of a precondition."""
    return errors.Conflict(what, status=409, reason="Conflict", message=f"{what}: {why}")


def invalid(what: str, why: str) -> errors.Invalid:
    """422: the object breaks the rules of its kind."""
    return errors.Invalid(what, status=422, reason="Invalid", message=f"{what} is invalid: {why}")


def bad_request(why: str) -> errors.Invalid:
    """400: the request itself is not understood."""
    return errors.Invalid("request", status=400, reason="BadRequest", message=why)


def forbidden(what: str, why: str) -> errors.Forbidden:
    """403 of an admission plugin."""
    return errors.Forbidden(what, status=403, reason="Forbidden", message=f"{what} is forbidden: {why}")


def gone(version: str) -> errors.Gone:
    """410: the changes after a version are no longer known."""
    return errors.Gone(
        "watch", status=410, reason="Expired", message=f"resourceVersion {version} is too old: list again"
    )


def budget(why: str, retry_after_seconds: float | None = None) -> errors.TooManyRequests:
    """429 of a disruption budget, which `why` names."""
    return errors.TooManyRequests(
        "evict",
        status=errors.TOO_MANY_REQUESTS,
        reason=errors.BUDGET_CAUSE,
        message=f"the eviction would break a disruption budget: {why}",
        retry_after_seconds=retry_after_seconds,
    )


def several_budgets(pod: str) -> errors.ServerError:
    """500: more than one budget covers a pod, which evictions do not support."""
    message = f"pod {pod} is covered by more than one disruption budget: evictions do not support that"
    return errors.ServerError("evict", status=500, reason="InternalError", message=message)
