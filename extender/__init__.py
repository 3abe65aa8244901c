"""The extender: what kube-scheduler asks about every pod, answered from annotations and its own count of placements.

`state.node_cache` and `placements` keep prepared columns up to date from watches; `state.cluster_view` joins them for
one request; `verbs` turns the view and the policy's formulas into answers of the scheduler-extender protocol, which
`protocol` reads and writes and `app` serves.
"""
