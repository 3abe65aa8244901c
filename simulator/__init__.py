"""Simulates a cluster: the three services' own code on a virtual clock, beside a simulated apiserver and Prometheus.

A `scenario.Scenario` says what comes, asks and uses; `world` lets it happen under a policy and gives an
`outcome.Outcome`. `kernel` is the clock and the order of events, `apiserver` and `prometheus` are the two doors the
services speak through, `scheduling` is kube-scheduler's part. Nothing here decides anything that a service decides.
`cli` shows outcomes; `cluster` plays the same load curves on a real control plane.
"""
