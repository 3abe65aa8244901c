"""Meaning of an answer to an eviction: the word for the ledger, and whether the run may go on.

`eviction.evictor` asks for every call it made. Every status has a rule; where the apiserver may have done what it did
not confirm, the row stays open (`unknown`), counts towards the caps, and a later run looks at the pod itself: it has
gone, or the eviction has failed.

| answer | result | and then |
|---|---|---|
| 201, 200 | evicted, dry_run | the run goes on |
| 202 | in_progress | accepted and not carried out yet: followed until it ends |
| 429 of a budget | refused | nothing else under that budget in this run; the pod backs off, the breaker counts it |
| 429 "Eviction triggered evacuation" | in_progress | its controller moves the pod: followed until it ends |
| 429 of flow control (`of_flow_control`) | not_done | the apiserver sheds load: no pod's fault, the run stops |
| any other 429 | failed, trouble | a webhook denies this pod now: it backs off, the breaker counts it |
| 404, 410 | gone | it left by itself |
| 409 | replaced | another pod has its name now, or it changed after the last look: not the planned pod |
| 401 | not_done | the credentials are not accepted: no workload's fault, the run stops |
| 403 and other 4xx | failed | RBAC or admission forbids this pod: as for a webhook |
| 5xx, none | unknown, trouble | it may have taken place; the pod backs off, and the breaker counts it once it failed |

After `trouble` the run goes on, since it may be this pod's alone; `MOST_IN_A_ROW` of them end it.
"""

from typing import Final, NamedTuple

from descheduler.planning.verdicts import Verdict
from kube import errors
from kube.door import EvictionAnswer

RESULT_OF_STATUS = {404: "gone", 409: "replaced", 410: "gone"}
FORBIDDEN = 403
LATER: Final = 202  # no apiserver answers so today; HTTP's word for what is carried out after the answer
# The words of KubeVirt's webhook, which the descheduler of kubernetes-sigs knows them by, too (EvictionsInBackground).
IN_BACKGROUND: Final = "Eviction triggered evacuation"
GUARD: Final = "'evenload-guard-"  # the policies of deploy/guard, as the apiserver quotes the one that denies
REFUSERS: Final = ("budget", "guard", "apiserver", "unanswered")
MOST_IN_A_ROW: Final = 3  # evictions in trouble: that many are not the pods' own, and each may take ten seconds


class EvictionResult(NamedTuple):
    """The result word of one call, the apiserver's status and message, whether the run must stop, and whether it was
    in trouble: of several in a row the run stops as well. `verdict`: of a pod that stays by the last look at it.
    """

    result: str
    status: int | None
    message: str
    stops: bool = False
    trouble: bool = False
    verdict: Verdict | None = None


def of_answer(answer: EvictionAnswer, mode: str) -> EvictionResult:
    """Translates the apiserver's answer in a mode."""
    status, message, evicts = answer.status, answer.message, mode == "Enforce"
    busy = status == errors.TOO_MANY_REQUESTS
    if answer.of_budget:
        return EvictionResult("refused", status, message)
    if status == LATER or (busy and IN_BACKGROUND in message):
        return EvictionResult("in_progress" if evicts else "dry_run", status, message)
    if answer.accepted:
        return EvictionResult("evicted" if evicts else "dry_run", status, message)
    if answer.of_flow_control:
        return EvictionResult("not_done", status, message, stops=True)
    return EvictionResult(RESULT_OF_STATUS.get(status, "failed"), status, message, trouble=busy)


def refused_by(result: EvictionResult) -> str | None:
    """Name the refuser of an eviction, one of REFUSERS: a `budget`, the `guard`, else the `apiserver` (RBAC,
    another admission policy, a webhook), or that there was no answer to rely on (`unanswered`). None: nothing did.
    """
    if result.result in ("refused", "unknown"):
        return "budget" if result.result == "refused" else "unanswered"
    if result.result != "failed":
        return None
    return "guard" if result.status == FORBIDDEN and GUARD in result.message else "apiserver"


def of_error(error: errors.KubeError) -> EvictionResult:
    """Classify a failure: an answer of the apiserver by its status; where there is none, the eviction may have taken
    place.
    """
    if not isinstance(error, errors.ApiError):
        return EvictionResult("unknown", None, str(error), trouble=True)
    if isinstance(error, errors.ServerError):
        return EvictionResult("unknown", error.status, str(error), trouble=True)
    if isinstance(error, errors.Unauthorized):
        return EvictionResult("not_done", error.status, str(error), stops=True)
    return EvictionResult(RESULT_OF_STATUS.get(error.status, "failed"), error.status, str(error))
