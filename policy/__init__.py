"""The rules of Evenload: what operators may ask for, what is written on nodes, and the formulas that judge a node.

Everything here is pure: numbers and text in, numbers and text out; no socket, no clock, no Kubernetes. The services
read the policy file through `policy.loading`, exchange readings through `policy.annotations` and `policy.heartbeat`,
and decide with `policy.filtering`, `policy.scoring`, `policy.hotspots` and `policy.recent`.
"""
