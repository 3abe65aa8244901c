"""The annotations of pods that the descheduler's rules read, and no others.

`protections` and `ordering` ask for them; `listed` keeps these of each pod and forgets the rest. It imports nothing but
the names themselves, because the first list of a run begins before the rules are loaded (`ahead`).
"""

from typing import Final

from kube import pods
from policy import opting_out

EVICTABLE: Final = ("evenload.io/evictable", "descheduler.alpha.kubernetes.io/evictable")
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
READ: Final = frozenset({*EVICTABLE, DELETION_COST, opting_out.KEY, pods.MIRROR_ANNOTATION, pods.SOURCE_ANNOTATION})
