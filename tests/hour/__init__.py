"""An hour of Evenload on a real control plane, under a policy that uses what peers' users would miss: `make hour`."""
