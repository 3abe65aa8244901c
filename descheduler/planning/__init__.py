"""One snapshot -> one plan: overloaded nodes, protected pods, limits, verdicts. Pure."""
