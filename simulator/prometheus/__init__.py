"""A Prometheus over a simulated cluster: `SimulatedPrometheus` is the second implementation of `promql.door`.

It scrapes the book of real use (`simulator.usage.node_usage`) on the virtual clock and answers what the services ask,
and nothing else: `prometheus.expressions` knows their expressions by building them with the production functions,
`node_windows` and `pod_windows` say what they come to over the scrapes, after the rules of Prometheus' engine, `door`
makes the answers.
"""

from simulator.prometheus.door import SimulatedPrometheus

__all__ = ["SimulatedPrometheus"]
