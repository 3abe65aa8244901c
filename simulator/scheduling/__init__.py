"""kube-scheduler v1.36's default profile as a model: which node it would choose for a pod, and why.

`scheduler.Scheduler` is told of nodes and pods as they change and asked for one pod at a time; `queue.Queue` says whose
turn it is. The way of a pod is the real one's: `filtering` by the rules of `kube_scheduler`, `extenders`, `scoring`, a
draw among the best, and `preemption` where nothing fits. `state` is what is known of the cluster, kept up to date pod
by pod. tests/contract/simulator/test_scheduler_model.py holds it to the real one. `world` binds what is chosen.
"""
