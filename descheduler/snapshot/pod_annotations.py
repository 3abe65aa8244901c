"""The annotations of pods that `protections` and `planning.candidate_order` ask for.

`snapshot.interned_pods` keeps them of each pod. It imports nothing, because the first list of a run begins before the
rules are loaded (`snapshot.pod_list`).
"""

from typing import Final

EVICTABLE: Final = (
    "evenload.io/evictable",
    "descheduler.alpha.kubernetes.io/evictable",
    "descheduler.alpha.kubernetes.io/evict",
)
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
EVICTION_COST: Final = "scheduling.koordinator.sh/eviction-cost"
NEVER_EVICTED: Final = 2**31 - 1  # as EVICTION_COST: Koordinator's greatest
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
EVICTION_IN_PROGRESS: Final = "descheduler.alpha.kubernetes.io/eviction-in-progress"
PREFER_NO_EVICTION: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"  # of the Job controller
LWS_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
GROUPS: Final = (  # of Volcano, koordinator and YuniKorn
    "scheduling.k8s.io/group-name",
    "gang.scheduling.koordinator.sh/name",
    "yunikorn.apache.org/task-group-name",
)
