"""An hour of real services on a control plane with many nodes: pods come and go, nodes are hot, pods are evicted.

Samples every service from outside: its own memory, threads and open files from /proc, its series from /metrics.
"""

import pathlib
import random
import time
from collections.abc import Iterator
from typing import Final

from lab.bench import contestants
from lab.campaigns.chaos import sabotages, site
from lab.campaigns.chaos.site import Process, Site, Terms
from lab.campaigns.soak.growth import FILES, LEDGER, MEMORY, SERIES, THREADS, Sample
from lab.campaigns.upgrade.arrivals import Arrivals
from lab.cluster import cache
from tests.e2e import services

OWN: Final = "Pss_Anon"  # a share in libraries grows when other processes that have them end
SCALE_SAMPLES: Final = 3  # a workload gets another size after so many samples
SIZES: Final = (4, 5, 6)


def play(
    directory: pathlib.Path, *, nodes: int, minutes: float, every_seconds: float, pods_per_second: float
) -> tuple[Site, dict[str, list[Sample]], int]:
    """Plays the hour; the site, which has ended, the samples by process, and how many pods were placed."""
    rng = random.Random(1)
    with site.started(directory, rng, Terms(nodes=nodes, tree=services.ROOT)) as here:
        arrivals = Arrivals(here.cluster.api, every_seconds=1.0 / pods_per_second)
        arrivals.start()
        samples: dict[str, list[Sample]] = {name: [] for name in here.services}
        try:
            for number, at_seconds in enumerate(_moments(minutes * 60.0, every_seconds)):
                for name, process in here.services.items():
                    samples[name].append(Sample(at_seconds, amounts(process, here)))
                if number % SCALE_SAMPLES == 0:
                    here.scale(f"{sabotages.BUDGETED}{rng.randrange(site.WORKLOADS)}", rng.choice(SIZES))
                cache.say(f"{at_seconds:.0f} s: {arrivals.bound} pods placed; {_memory(samples)}")
        finally:
            arrivals.end()
        here.end()
        here.violations += [*arrivals.late, *here.verdicts()]
    return here, samples, arrivals.bound


def _moments(span_seconds: float, every_seconds: float) -> Iterator[float]:
    begun = time.monotonic()
    while (at_seconds := time.monotonic() - begun) < span_seconds:
        yield at_seconds
        time.sleep(every_seconds)


def _memory(samples: dict[str, list[Sample]]) -> str:
    return ", ".join(f"{name} {rows[-1].amounts[MEMORY]:.0f}" for name, rows in samples.items())


def amounts(process: Process, here: Site) -> dict[str, float]:
    """Own memory, open files, threads, series and the ledger's size of a service; memory with that of its children."""
    status = pathlib.Path(f"/proc/{process.pid}")
    series = [line for line in process.text("/metrics").splitlines() if line and not line.startswith("#")]
    found = {
        MEMORY: contestants.pss_mebibytes(process.pid, OWN),
        FILES: float(len(list((status / "fd").iterdir()))),
        THREADS: float(len(list((status / "task").iterdir()))),
        SERIES: float(len(series)),
    }
    if process in here.deschedulers():
        found[LEDGER] = here.ledger.stat().st_size / 1024
    return found
