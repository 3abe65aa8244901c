"""What an answer to an eviction means: the word for the ledger, and whether the run may go on.

`evicting.py` asks for every call it made. Every status has a rule; where the apiserver may have done what it did not
confirm, the row stays open (`unknown`), counts towards the caps, and the next run looks at the pod itself.

| answer | result | and then |
|---|---|---|
| 201, 200 | evicted, dry_run | the run goes on |
| 429 of a budget | refused | nothing else under that budget in this run; the pod backs off, the breaker counts it |
| 429 without a budget | not_done | the apiserver sheds load (API Priority and Fairness): the run stops |
| 404, 410 | gone | it left by itself |
| 409 | replaced | another pod has its name now, or a race: not ours to evict |
| 401 | not_done | our credentials are not accepted: no workload's fault, the run stops |
| 403 and other 4xx | failed | RBAC or admission forbids this pod: the breaker counts it, the run goes on |
| 500 | unknown | the write behind it may have taken place; the run goes on, it may be this pod's alone |
| 502, 503, 504 | unknown | the server or what stands before it is ill: the run stops |
| none | unknown | the run stops |
"""

from typing import Final, NamedTuple

from kube import errors
from kube.door import EvictionAnswer

RESULT_OF_STATUS = {404: "gone", 409: "replaced", 410: "gone"}
INTERNAL_ERROR = 500
FORBIDDEN = 403
GUARD: Final = "'evenload-guard-"  # the policies of deploy/guard, as the apiserver quotes the one that denies
REFUSERS: Final = ("budget", "guard", "apiserver")


class Told(NamedTuple):
    """The result word of one call, the apiserver's status and message, and whether the run must stop."""

    result: str
    status: int | None
    message: str
    stops: bool = False


def of_answer(answer: EvictionAnswer | None, mode: str) -> Told:
    """What an answer means in a mode; None: nothing was asked."""
    if answer is None:
        return Told("observed", None, "")
    if answer.accepted:
        return Told("evicted" if mode == "Enforce" else "dry_run", answer.status, answer.message)
    if answer.status == errors.TOO_MANY_REQUESTS:
        refused = answer.of_budget
        return Told("refused" if refused else "not_done", answer.status, answer.message, stops=not refused)
    return Told(RESULT_OF_STATUS.get(answer.status, "failed"), answer.status, answer.message)


def refused_by(told: Told) -> str | None:
    """Who said no to an eviction: a `budget`, the `guard`, or else the `apiserver` (RBAC, another admission policy).

    None: nobody did.
    """
    if told.result == "refused":
        return "budget"
    if told.result != "failed":
        return None
    return "guard" if told.status == FORBIDDEN and GUARD in told.message else "apiserver"


def of_error(error: errors.KubeError) -> Told:
    """What a failure means: an answer of the apiserver by its status, no answer at all as "nobody knows"."""
    if not isinstance(error, errors.ApiError):
        return Told("unknown", None, str(error), stops=True)
    if isinstance(error, errors.ServerError):
        return Told("unknown", error.status, str(error), stops=error.status != INTERNAL_ERROR)
    if isinstance(error, errors.Unauthorized):
        return Told("not_done", error.status, str(error), stops=True)
    return Told(RESULT_OF_STATUS.get(error.status, "failed"), error.status, str(error))
