"""Scheduled pods -> counts per node and window, and the effectiveness figures of placements."""
