"""`evenload console`: the web page of a cluster, or of a simulated one.

`command` wires it: `live` makes the doors of a real cluster, `simulated` those of a simulated day, `playground` judges
and replays policies. The page itself is the package `console`.
"""
