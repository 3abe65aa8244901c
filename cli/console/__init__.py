"""`evenload console`: the web page of a cluster, or of a simulated one.

`command` wires it: `live` makes the doors of a real cluster, `simulator.commands` those of a simulated day, and the
replays of policies. The page itself is the package `console`.
"""
