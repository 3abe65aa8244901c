"""Reasons for missing, stale or uneven readings, for the log, /metrics and /readyz."""
