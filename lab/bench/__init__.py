"""Measures what docs/why/speed.md has budgets for, beside yardsticks, in one run on one machine.

`python -m lab.bench` (or `make -C lab bench`) runs them and prints one table: `answers` asks the extender and a Go
extender the same questions, `throughput` counts what a real kube-scheduler binds with either, `footprint` starts the
extender against a cluster of 5,000 nodes and 100,000 pods, `annotator` lets the annotator publish 5,000 nodes that play
a trace, `descheduler` makes dry runs over 1,000 nodes and 20,000 pods. Only ratios mean anything on a shared machine.
"""
