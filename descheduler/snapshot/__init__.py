"""Reads the cluster and its usage once per run, as one immutable snapshot."""
