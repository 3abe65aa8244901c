"""Prometheus windows -> one annotation per node, a heartbeat over all of them, and the effectiveness figures.

`python -m annotator` runs it. One sync (`node_sync`) asks one query per metric for all nodes (`queries`,
`collect.collector`), counts placements per node (`placements.hot_counts`), writes the fewest patches and the heartbeat
(`publish.write_plan`); every new binding is judged at its moment (`effectiveness`). The extender reads what it writes
through `policy.contract.load_annotation`.
"""
