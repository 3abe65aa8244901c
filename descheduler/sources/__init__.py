"""Sources of the usage of nodes and pods, each a `snapshot.usage.UsageSource`."""
