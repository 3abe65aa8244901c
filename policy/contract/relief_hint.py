"""The relief hint: "this node was just relieved of these workloads, do not put them back", as a Node annotation.

The descheduler writes it before an eviction, with a time for each workload, so that later evictions do not prolong
what earlier ones left; the extender rejects the node for pods of those workloads while it `holds`. A malformed
hint is ignored: a hint is never worth a wrong refusal.
"""

import collections.abc
import dataclasses
import json
from typing import Final

from policy.contract import timestamps
from policy.schema import descheduler_section

KEY: Final = "evenload.io/relief"
REASON: Final = "relieved of this workload"
VERSION: Final = 1
MAX_LENGTH: Final = 16 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Relief:
    """The workloads (uid of the pods' controlling owner) that are to leave a node alone, and each until when (Unix
    seconds).
    """

    untils_seconds: collections.abc.Mapping[str, float]

    @property
    def until_seconds(self) -> float:
        """When the hint is over for all of them."""
        return max(self.untils_seconds.values(), default=0.0)

    def holds(self, workload_uid: str, now_seconds: float) -> bool:
        """Whether a node with this hint is refused to pods of the workload, unless it is relieved (`is_relieved`)."""
        return now_seconds < self.untils_seconds.get(workload_uid, 0.0)


def encode(relief: Relief) -> str:
    """Compact JSON, workloads sorted. `until` holds for all of them but those that `untils` names with an earlier time;
    a reader that does not know `untils` leaves the node alone for longer, and no pod goes where it must not.
    """
    latest = timestamps.encode(relief.until_seconds)
    own = {uid: timestamps.encode(until_seconds) for uid, until_seconds in sorted(relief.untils_seconds.items())}
    earlier = {uid: text for uid, text in own.items() if text != latest}
    body = {"v": VERSION, "until": latest, "workloads": list(own)} | ({"untils": earlier} if earlier else {})
    return json.dumps(body, separators=(",", ":"))


def decode(text: str | None) -> Relief | None:
    """The hint in an annotation's text, None when there is none or it is malformed."""
    if text is None or len(text) > MAX_LENGTH:
        return None
    try:
        body = json.loads(text)
        return _relief(body) if isinstance(body, dict) else None
    except (ValueError, RecursionError):
        return None


def _relief(body: dict[str, object]) -> Relief | None:
    version, workloads = body.get("v"), body.get("workloads")
    if type(version) is not int or version != VERSION or not isinstance(workloads, list):
        return None
    if not workloads or not all(isinstance(uid, str) and uid for uid in workloads):
        return None
    "".join(workloads).encode()  # a ValueError for half of a surrogate pair, which no answer could carry
    own = body.get("untils", {})
    if not isinstance(own, dict):
        return None
    latest_seconds = timestamps.decode(body.get("until"))
    return Relief({uid: timestamps.decode(own[uid]) if uid in own else latest_seconds for uid in workloads})


def is_relieved(
    values: collections.abc.Mapping[str, float], bands: collections.abc.Mapping[str, descheduler_section.Band]
) -> bool:
    """Whether a node is at or under evictUntil by every banded metric; a metric without a value proves nothing.

    Nor does one whose lines follow the mean of the nodes, which only the descheduler knows: its hint ends by time.
    """
    return all(
        band.over_mean is None and name in values and values[name] <= band.evict_until_ratio
        for name, band in bands.items()
    )
