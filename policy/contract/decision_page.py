"""A page of GET /decisions?after= of the extender, by which the descheduler copies decisions into its ledger.

`extender.http.app` writes it, `descheduler.sources.extender_replicas` reads it, and of each decision only its key.
"""

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")  # a decision, or the text of one


class DecisionKey(msgspec.Struct, frozen=True):
    """The verb that was answered, when (Unix seconds), and for which pod."""

    verb: str
    at_seconds: float
    namespace: str
    pod: str
    uid: str


class DecisionPage(msgspec.Struct, Generic[T], frozen=True):
    """The decisions that matter, oldest first; `after` of the next page; how many were dropped before this one."""

    decisions: list[T]
    after: str
    missed: int = 0
