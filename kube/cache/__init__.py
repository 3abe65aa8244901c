"""Reflectors: list and watch one kind, keep its objects in memory, tell how fresh they are."""
