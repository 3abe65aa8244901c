"""The past of a real cluster as a scenario: what its Prometheus still knows of nodes, pods, requests and use.

`queries` is what is asked, `history.reader` asks it page by page and keeps the pages on disk, `grids` puts series on
the steps, `history.nodes` and `pods` make machines, owners and replicas of them, and `rebuilding` joins them and says
what was missing or odd. `evenload whatif` replays the scenario under each policy.
"""
