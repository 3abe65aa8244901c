"""Pages of /metrics: what a process counted between two readings, and quantiles of its histograms."""

import collections
import math

import requests
from prometheus_client import parser

Labels = frozenset[tuple[str, str]]


class Page:
    """The samples of one page by name and labels."""

    def __init__(self, text: str) -> None:
        self._samples: dict[str, dict[Labels, float]] = {}
        for family in parser.text_string_to_metric_families(text):
            for sample in family.samples:
                self._samples.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value

    def total(self, name: str, **labels: str) -> float:
        """Returns the sum of the samples of that name with these labels among theirs; 0 where there are none."""
        wanted = labels.items()
        return sum(value for own, value in self._samples.get(name, {}).items() if own >= wanted)

    def buckets(self, histogram: str, **labels: str) -> dict[float, float]:
        """Returns the counts up to each upper bound, added up over the labels that are not given."""
        buckets: dict[float, float] = collections.defaultdict(float)
        for own, value in self._samples.get(f"{histogram}_bucket", {}).items():
            if own >= labels.items():
                buckets[float(dict(own)["le"])] += value
        return dict(sorted(buckets.items()))


def read(session: requests.Session, url: str) -> Page:
    """Reads the page of a process. Raises requests.RequestException."""
    answer = session.get(f"{url}/metrics", timeout=60)
    answer.raise_for_status()
    return Page(answer.text)


def quantile(before: Page, after: Page, histogram: str, share: float, **labels: str) -> float:
    """Returns the quantile of what was observed between two pages, as PromQL's histogram_quantile has it: linear
    within a bucket, the last finite bound for what is beyond; NaN if nothing was observed.
    """
    earlier = before.buckets(histogram, **labels)
    counts = {bound: value - earlier.get(bound, 0.0) for bound, value in after.buckets(histogram, **labels).items()}
    wanted, low, below = share * max(counts.values(), default=0.0), 0.0, 0.0
    if not wanted:
        return math.nan
    for bound, count in counts.items():
        if count >= wanted:
            return low if math.isinf(bound) else low + (bound - low) * (wanted - below) / (count - below)
        low, below = bound, count
    return math.nan
