"""Faults, one after the other, in a real control plane with all services, judged by what does not come from them."""
