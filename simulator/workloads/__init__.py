"""Sources of scenarios: generators, traces, load curves, owners."""
