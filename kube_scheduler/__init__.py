"""kube-scheduler v1.36's rules of placement as pure functions: which nodes a pod fits on, and what the others lack.

`columns` holds nodes as rows, and the room of one; `node_rules` asks a node alone (cordon, taints, labels),
`topology_spread` and `inter_pod_affinity` for other pods (over `pod_groups`), `volumes` for what must be mounted and
attached. The simulated scheduler keeps a `pod_groups.ClusterState` of all that happens, the descheduler one of the
cluster as its plan would leave it. Held to the real kube-scheduler by tests/contract/simulator/test_scheduler_model.py.
"""
