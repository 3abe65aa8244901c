"""The rules of Evenload: what operators may ask for, what is written on nodes, and the formulas that judge a node.

Everything here is pure: numbers and text in, numbers and text out; no socket, no clock, no Kubernetes. The services
read the policy file through `policy.loading.loader`, exchange readings through `policy.contract.load_annotation` and
`policy.contract.heartbeat`, and decide with `policy.rules.filtering`, `policy.rules.scoring`, `policy.rules.hotspots`
and `policy.rules.expected_load`.
"""
