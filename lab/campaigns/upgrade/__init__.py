"""Upgrades from the version before and back, rolling, under load, on a real control plane."""
