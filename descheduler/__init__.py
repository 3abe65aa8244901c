"""Relief of overloaded nodes: usage -> plan -> eviction -> history.

`__main__.py` wires it, `service.py` runs it. Pure and to be read first: `planning.planner` with `planning.protections`,
`planning.limits`, `planning.disruption_budgets`, `placement.destinations` and `planning.candidate_order`. Effects:
`snapshot.cluster_reader` and `sources` (what is), `eviction.evictor` (what is done), `ledger.ledger` (what was).
"""
