"""Relief of overloaded nodes: usage -> plan -> eviction -> history.

`__main__.py` wires it, `service.py` runs it. Pure and to be read first: `planning.py` with `protections.py`,
`limits.py`, `budgets.py`, `destinations.py` and `ordering.py`. Effects: `reading.py` (what is), `evicting.py` (what
is done), `ledger.py` (what was).
"""
