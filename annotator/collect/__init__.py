"""Prometheus answers -> the last good value of every metric and node, and the mean use of every owner."""
