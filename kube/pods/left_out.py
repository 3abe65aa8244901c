"""Pods of which a part is not kept because it is too long or cannot be: how many there are, and which.

`kube.pods.compact` leaves such parts out while it decodes. The services that watch pods
hand every change to `PodsLeftOut` and list its `check` and its metric; the descheduler gives such pods a verdict
instead. Anyone who may create pods can make any number of them: one log line is written when the first comes.
"""

import collections
import collections.abc
from typing import Final

from prometheus_client import core, registry

from kube.pods import compact
from kube.pods.pod_view import PodView
from runtime import health, logs

log = logs.get(__name__)

SHOWN: Final = 3


class PodsLeftOut(registry.Collector):
    """Those of one watch. `changed` belongs to one thread; the rest may be asked from any."""

    def __init__(self) -> None:
        self._parts: dict[str, str] = {}  # by "namespace/name"

    def changed(self, old: PodView | None, new: PodView | None) -> None:
        """A change from the watch; `new` None: the pod is gone."""
        if old is not None and old.left_out and (new is None or not new.left_out):
            self._parts.pop(old.key, None)
        if new is not None and new.left_out:
            if not self._parts:
                log.warning(
                    "part of a pod is left out",
                    pod=new.key,
                    part=new.left_out,
                    expected="values that Kubernetes' own objects can have, and no more containers than a node starts",
                )
            self._parts[new.key] = new.left_out

    def check(self) -> health.Check:
        """A line of /readyz?verbose, and never a reason to be unready."""
        return health.Check("pods left out in part", lambda: None, self.line)

    def line(self) -> str:
        """How many pods are not kept whole, and the first of them."""
        entries = sorted(self._parts.copy().items())
        if not entries:
            return "none"
        texts = ", ".join(f"{key} ({part})" for key, part in entries[:SHOWN])
        return f"{len(entries)}: {texts}" + (" …" if len(entries) > SHOWN else "")

    def collect(self) -> collections.abc.Iterator[core.Metric]:
        """How many there are now, by part."""
        text = "Pods of which a part is too long or impossible and not kept; they count without it."
        family = core.GaugeMetricFamily("evenload_pods_left_out", text, labels=["part"])
        counts = collections.Counter(self._parts.copy().values())
        for part in (compact.OWNER, compact.CONTAINERS, *sorted(counts.keys() - {compact.OWNER, compact.CONTAINERS})):
            family.add_metric([part], counts[part])
        yield family
