"""A pod's wish not to be filtered by load: the annotation, and when it counts.

    evenload.io/filter: "off"

`extender.verbs.verbs` asks for each pod. It concerns the thresholds alone. The score is a preference and rejects
nobody, so a pod that could leave it too would gain nothing and crowd the busiest nodes; and a node that was just
relieved of a workload still refuses it, or eviction and placement would take turns. The wish counts where
`filter.exempt.optOut` allows it, because anyone who may create a pod may write it.
"""

import collections.abc
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from policy.schema import sections

KEY: Final = "evenload.io/filter"
OFF: Final = "off"
REASON: Final = f"annotation {KEY}: {OFF}"


def exempt(rule: "sections.OptOut", annotations: collections.abc.Mapping[str, str], namespace: str) -> str | None:
    """Why a pod that wishes so is not filtered; None when it does not wish so, or may not."""
    return REASON if annotations.get(KEY) == OFF and rule.allowed_in(namespace) else None
