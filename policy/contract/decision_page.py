"""A page of GET /decisions?after= of the extender, by which the descheduler copies decisions into its ledger.

`extender.http.app` writes it, `descheduler.sources.extender_replicas` reads it, and of each decision only its key.
"""

from typing import Any

import msgspec


class DecisionKey(msgspec.Struct, frozen=True):
    """The verb that was answered, when (Unix seconds), and for which pod."""

    verb: str
    at_seconds: float
    namespace: str
    pod: str
    uid: str


class DecisionPage(msgspec.Struct, frozen=True):
    """The decisions that matter, oldest first; `after` of the next page; how many were dropped before this one."""

    decisions: list[Any]
    after: str
    missed: int = 0
