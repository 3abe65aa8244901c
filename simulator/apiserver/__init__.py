"""A Kubernetes apiserver in memory: `server.ApiServer`, whose doors pass the contract suite of the real one.

`state` keeps and tells, `shelf` is one resource of it, `writing` and `evicting` change it by the rules of `admission`,
`merging` and `refusals`, `door`, `watching` and `selecting` read it.
"""

from simulator.apiserver.server import ApiServer

__all__ = ["ApiServer"]
