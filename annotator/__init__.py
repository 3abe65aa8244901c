"""Prometheus windows -> one annotation per node, a heartbeat over all of them, and the effectiveness figures.

`python -m annotator` runs it. One sync (`cycle`) asks one query per metric for all nodes (`queries`, `collecting`),
counts placements per node (`bindings`), writes the fewest patches and the heartbeat (`publishing`); every new binding
is judged at its moment (`effectiveness`). The extender reads what it writes through `policy.contract.load_annotation`.
"""
