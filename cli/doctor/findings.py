"""Findings of checks: a verdict, the evidence, and the command or setting that corrects it.

Judges return a `Finding`, or yield several, of which the gravest count (`worst`); a fact that could not be gathered is
a Finding too, so that a check without its facts says why instead of guessing. `command` prints them and ends with
`exit_code`.
"""

import enum
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from cli.common.api_types import SHOWN as SHOWN
from cli.common.api_types import few as few
from kube import errors
from policy.contract import heartbeat
from promql import errors as promql_errors
from runtime.exit_codes import Exit

T = TypeVar("T")


class Verdict(enum.StrEnum):
    """ok: nothing to do; unknown: could not be looked at; warn: works, but not as meant; fail: does not work. The
    gravest last.
    """

    OK = "ok"
    UNKNOWN = "unknown"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """One check's answer; `fix` is "" for ok, `unreachable` when the apiserver or Prometheus gave no answer at all."""

    verdict: Verdict
    observation: str
    fix: str = ""
    unreachable: bool = False


ok: Final = functools.partial(Finding, Verdict.OK)
warn: Final = functools.partial(Finding, Verdict.WARN)
fail: Final = functools.partial(Finding, Verdict.FAIL)
unknown: Final = functools.partial(Finding, Verdict.UNKNOWN)


class Missing(Exception):
    """Raised where a judge needs a fact that could not be gathered; the check's answer is the `finding` about that."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.observation)
        self.finding = finding


def known(fact: T | Finding) -> T:
    """The fact. Raises Missing."""
    if isinstance(fact, Finding):
        raise Missing(fact)
    return fact


def unread(facts: Mapping[str, object]) -> Iterator[Finding]:
    """An unknown that names those of the facts that could not be gathered; without them a check is not ok."""
    if names := [name for name, fact in facts.items() if isinstance(fact, Finding)]:
        yield unknown(f"not known: {few(names)}")


def attempt(read: Callable[[], T]) -> T | Finding:
    """Returns the result of `read`, or the Finding with the reason why the apiserver or Prometheus gave none."""
    try:
        return read()
    except errors.Forbidden as error:
        return unknown(error.message or str(error), "see `your rights`")
    except errors.Unreachable as error:
        return Finding(Verdict.UNKNOWN, str(error), "is the apiserver well? kubectl get --raw /readyz", True)
    except (errors.KubeError, promql_errors.PromqlError, heartbeat.HeartbeatError, FileNotFoundError) as error:
        return unknown(str(error))


def worst(findings: Iterable[Finding]) -> Finding:
    """One finding out of several of a check: the gravest verdict, all that is not ok, each fix once."""
    every = tuple(findings)
    gravest = max((one.verdict for one in every), key=list(Verdict).index)
    loud = [one for one in every if one.verdict is not Verdict.OK] or list(every)
    text = "; ".join(one.observation for one in loud)
    fixes = dict.fromkeys(one.fix for one in loud if one.fix)
    return Finding(gravest, text, "; ".join(fixes), any(one.unreachable for one in every))


def exit_code(findings: Iterable[Finding]) -> Exit:
    """3 when the apiserver or Prometheus gave no answer, else 1 for anything to put right, 4 for unknown, 0 for ok."""
    every = tuple(findings)
    verdicts = {one.verdict for one in every}
    if any(one.unreachable for one in every):
        return Exit.UNREACHABLE
    if verdicts & {Verdict.WARN, Verdict.FAIL}:
        return Exit.FINDINGS
    return Exit.PARTIAL if Verdict.UNKNOWN in verdicts else Exit.OK
