"""Columns of the cluster that answers are computed from: nodes, pods, placements, scores."""
