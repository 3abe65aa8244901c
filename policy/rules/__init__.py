"""Formulas of the policy: metrics, filter, score, hot-spot penalties, expected load."""
