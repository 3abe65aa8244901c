"""True resource usage of simulated nodes and pods over the virtual time."""
