"""Other load-aware schedulers: their published formulas, for comparison with Evenload.

crane-scheduler, Trimaran's TargetLoadPacking and LoadVariationRiskBalancing, and Koordinator's LoadAware, re-expressed
from their documentation and source, and an oracle that knows the next hour. Each is an `ExtenderPort` (`formula.Peer`,
`oracle.Oracle`), so that `world` runs plain kube-scheduler with one of them beside it. They see what a scheduler may
see (`peers.observations`): loads of whole steps that are over, and placements. `bench.scoring` compares. Nothing here
is used by a service.
"""
