"""A Kubernetes apiserver in memory: `door.ApiServer`, whose doors pass the contract suite of the real one.

`state` keeps and tells, `apiserver.storage` is one resource of it, `apiserver.writes` and `apiserver.eviction` change
it by the rules of `admission`, `apiserver.merge_patch` and `refusals`, `door`, `apiserver.watch_log` and
`apiserver.selector_text` read it.
"""

from simulator.apiserver.door import ApiServer

__all__ = ["ApiServer"]
