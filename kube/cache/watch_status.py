"""How long each watch of a process has heard nothing, and why: for /readyz, /metrics and what decides by the watches.

Services make one `Watches` of their reflectors. A lost watch never makes a service unready: it answers by what it
knows, which ages, and says so.
"""

import functools
import math
from collections.abc import Mapping
from typing import Any, Final

from kube.cache import reflector
from runtime import health

# A watch ends after 50 s at the latest and its bookmark comes just before. So a silent one is given up after 55 s, and
# what is left is for its successor, which is quick where only a connection was lost.
STALE_SECONDS: Final = 90.0


Watch = reflector.Reflector[Any]


class Watches:
    """The watches of a process by name: nodes, pods, …"""

    def __init__(self, by_name: Mapping[str, Watch]) -> None:
        self.by_name = by_name

    def is_stale(self, name: str) -> bool:
        """Whether it was listed once and nothing has come for so long that its picture may not be trusted."""
        return STALE_SECONDS < self.by_name[name].age_seconds() < math.inf

    def checks(self) -> list[health.Check]:
        """A line of /readyz?verbose for each."""
        by_name = self.by_name.items()
        return [health.Check(f"{name} watch", lambda: None, functools.partial(_line, watch)) for name, watch in by_name]


def _line(watch: Watch) -> str:
    age_seconds = watch.age_seconds()
    heard = f"heard {age_seconds:.0f} s ago" if age_seconds < math.inf else "nothing heard yet"
    return f"{heard}; {watch.problem}" if watch.problem else heard
