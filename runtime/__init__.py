"""The frame of a process: clock, loop, signals, logs, health, files that reload.

The lowest layer: it imports nothing else of Evenload, knows neither Kubernetes nor Prometheus, and the three services
and the command line are built on it. Every module takes the time, log lines and stops from here, so that tests can
replace each.
"""
