"""An hour on a real control plane, under a policy that uses what peers' users would miss: `make -C lab hour`."""
