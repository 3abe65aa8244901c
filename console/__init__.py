"""The web page: a live view of nodes, decisions, plans and evictions, and a playground for the policy.

`cli.console` wires it. `polling` asks the services through `sources` and writes what they answer to a `board`,
which sends each change to every browser; `app` serves the page and answers questions about one pod or node;
`access` says who may ask. It reads only: there is no route that changes a cluster, and in a cluster it has no rights,
because a browser can reach it. Events are sent by the server, and scripts need no build step: the page works offline.
"""
