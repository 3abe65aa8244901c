"""Two digests by which replicas are compared: what answers are made from, as far as it comes from outside.

`verbs.explain` shows them in GET /nodes, `service` in /readyz?verbose; people and tests compare them between replicas.
Same digests mean the same inputs; then answers differ at most by the moment they are made in (expected load decays)
and by the winners that each replica assumes until they are bound, which are its own and therefore in neither digest.
"""

import collections.abc
import hashlib
from typing import Final, NamedTuple

import numpy as np

from extender.state import cluster_view, expected_load_table, node_cache
from policy.contract import owner_usage, relief_hint

_PREFIX: Final = "sha256:"


class Digests(NamedTuple):
    """`view` covers policy, nodes, readings, effective times, allocatable, own thresholds, pools, relief hints and
    which state of owners' usage is known.

    `placements` covers the confirmed ones that still count in some window. Both are `sha256:` + hex.
    """

    view: str
    placements: str


def digests(view: cluster_view.ClusterView, now_seconds: float) -> Digests:
    """The digests of a view. Those of placements change by themselves when a pod leaves the longest window."""
    empty = view.candidates((), now_seconds)  # policy and columns of one moment
    confirmed = [one for one in view.placements.current(now_seconds) if not one.is_assumption]
    usage = view.placements.estimates.published
    return Digests(of_view(empty.in_force.content_hash, empty.loads, usage), of_placements(confirmed))


def line(view: cluster_view.ClusterView, now_seconds: float) -> str:
    """The digests in /readyz, by which replicas are compared."""
    return "{}; placements {}".format(*digests(view, now_seconds))


def of_view(
    policy_hash: str, loads: node_cache.NodeLoads, usage: owner_usage.PublishedUsage = owner_usage.NOTHING
) -> str:
    """Over the policy's hash, then by name and not by row: names, columns bit by bit, hints, own thresholds, pools
    where the policy has some; then the time and number of the owners' means: the annotator writes no two states of one
    second.
    """
    names = sorted(loads.index)
    rows = loads.rows(names)
    hints = (
        _hint(name, loads.reliefs[row]) for name, row in zip(names, rows.tolist(), strict=True) if row in loads.reliefs
    )
    columns = [loads.values[rows], loads.effective_seconds[rows], loads.per_allocatable[rows]]
    if loads.own_limits is not None and not np.isnan(loads.own_limits[rows]).all():
        columns.append(loads.own_limits[rows])
    if loads.pools is not None:
        columns.append(loads.pools[rows].astype(np.float64))
    text = "".join(f"{name}\n" for name in names), "".join(hints), f"{usage.at_seconds!r} {len(usage.means)}"
    return _sha256(policy_hash.encode(), *(part.encode(errors="surrogatepass") for part in text), *map(_bits, columns))


def of_placements(confirmed: collections.abc.Iterable[expected_load_table.Placement]) -> str:
    """Over one line a placement, by uid: pod, node, moments of binding and start, expected millicores and bytes."""
    lines = sorted(
        f"{one.binding.uid} {one.binding.node} {one.binding.at_seconds!r} {one.began_at_seconds!r} "
        f"{one.load.cpu_millicores!r} {one.load.memory_bytes!r}\n"
        for one in confirmed
    )
    return _sha256("".join(lines).encode(errors="surrogatepass"))


def _hint(name: str, hint: relief_hint.Relief) -> str:
    return f"{name} {' '.join(f'{uid} {until!r}' for uid, until in sorted(hint.untils_seconds.items()))}\n"


def _bits(column: node_cache.Floats) -> bytes:
    """Little-endian on every machine, and one NaN for all."""
    return np.where(np.isnan(column), np.nan, column).astype("<f8").tobytes()


def _sha256(*parts: bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little"))
        whole.update(part)
    return _PREFIX + whole.hexdigest()
