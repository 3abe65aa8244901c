"""Which metric is stale or missing for how many nodes, from what is held: pure.

`annotator.service` shows the line in /readyz?verbose, computed when asked, so that it goes on counting while Prometheus
is down and no sync changes anything; `annotator.metrics` counts by it how the nodes stood at the last sync.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from annotator.collect.last_good_values import LastGoodValues


class Unusable(NamedTuple):
    """Of one metric: how many nodes have no value, and how many one that is too old to be used."""

    missing: int
    stale: int


def by_metric(
    book: LastGoodValues, metrics: Sequence[str], *, now_seconds: float, stale_after_seconds: float
) -> Mapping[str, Unusable]:
    """How every metric stands over the nodes of the book; a value is stale from staleAfter on, as in the extender."""
    confirmed_seconds = book.aligned(book.nodes, tuple(metrics)).confirmed_seconds
    missing = np.isnan(confirmed_seconds).sum(axis=0).tolist()
    stale = (confirmed_seconds <= now_seconds - stale_after_seconds).sum(axis=0).tolist()
    return {metric: Unusable(*counts) for metric, *counts in zip(metrics, missing, stale, strict=True)}


def line(unusable: Mapping[str, Unusable], nodes: int) -> str:
    """ "cpu_max_1d stale for 2 of 5 nodes; memory_avg_5m missing for 1 of 5 nodes", or that all are fresh."""
    parts = [
        f"{metric} {word} for {count} of {nodes} nodes"
        for metric, numbers in unusable.items()
        for word, count in (("missing", numbers.missing), ("stale", numbers.stale))
        if count
    ]
    return "; ".join(parts) or f"all {len(unusable)} metrics fresh for all {nodes} nodes"
