"""The load of nodes in the hours to come, expected from what owners' pods did at these hours before. Pure."""
