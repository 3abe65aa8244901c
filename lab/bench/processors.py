"""Which processors a process of a bench runs on.

`throughput` gives the extender one of its own, as it has in a cluster, where it does not share the control plane's
machine: on two processors that everybody wants, each millisecond of anybody's is everybody's, and the rate says more
about caches than about the extender. What is started inside `only` inherits the choice, also what it starts later.
"""

import collections.abc
import contextlib
import os
import subprocess
import sys
from typing import Final, NamedTuple

SPINNING: Final = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"  # ends with the bench


class Arrangement(NamedTuple):
    """Processors by number: those for the extender, and those for all others."""

    what: str
    extender: frozenset[int]
    others: frozenset[int]


def arrangements() -> list[Arrangement]:
    """The extender on a processor of its own, where there are two or more; and all other processes on all."""
    every = frozenset(os.sched_getaffinity(0))
    shared = Arrangement("sharing all processors", every, every)
    if len(every) == 1:
        return [shared]
    own = frozenset({max(every)})
    return [Arrangement("extender on its own processor", own, every - own), shared]


@contextlib.contextmanager
def only(chosen: collections.abc.Set[int]) -> collections.abc.Iterator[None]:
    """This thread, and what it starts within the block, on these processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, chosen)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def wanted_by_others(count: int) -> collections.abc.Iterator[list[int]]:
    """So many processes, whose ids it gives, take all the processor time that they get within the block."""
    spinning = [subprocess.Popen([sys.executable, "-c", SPINNING]) for _ in range(count)]
    try:
        yield [process.pid for process in spinning]
    finally:
        for process in spinning:
            process.kill()
            process.wait()
