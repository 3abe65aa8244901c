"""How a process of ours lives: clock, loop, signals, logs, health, files that reload.

The lowest layer: it imports nothing else of Evenload, knows neither Kubernetes nor Prometheus, and the three services
and the command line are built on it. Whoever needs the time, a log line or a place to stop asks here, so that tests can
replace each.
"""
