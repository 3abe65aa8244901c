"""Growth over a long time: a simulated month, and an hour of real services."""
