"""Outcomes of simulated runs: figures, comparisons, tables."""
