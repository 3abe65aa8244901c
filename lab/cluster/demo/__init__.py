"""`make run`: the same arrivals twice on a real control plane, without and with Evenload, live, then one table.

`python -m lab.cluster.demo` wires it. `phases` runs one phase: `services` starts the services, `arriving` plays the
plan of `arrival_plan`, `watching` sees what the screen shows, `budgets` looks for violated disruption budgets.
`measuring` asks Prometheus and the annotator afterwards, `figures` computes, `display` and `table` show;
docs/start/demo.md.
"""
