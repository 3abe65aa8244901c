"""filter, prioritize and preempt, the log of their decisions, and the explanation of each."""
