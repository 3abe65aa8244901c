"""Fit of a pod on another node: requests, scheduling rules, volumes, expected load."""
