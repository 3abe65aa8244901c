"""The objects that could not be decoded: counted once each by kind and reason, shown in /readyz, one line a kind.

`kube.http.client` reports every list, watch event and single read; services list its `check`,
`kube.http.client_metrics` exports it. A tenant may make any number of such objects: what is remembered has a limit, and
of each kind there is one log line a minute, with the number of new ones and an example.
"""

import collections
import threading
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kube.api.salvage import UndecodableObject
from runtime import clock as clocks
from runtime import health, logs

log = logs.get(__name__)

NAMED_MOST: Final = 4096  # objects remembered as logged and counted; the oldest go first
LINE_SECONDS: Final = 60.0
SHOWN_MOST: Final = 5


class Source(NamedTuple):
    """Source of objects: a kind under a selection."""

    kind: str
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""


class UndecodableObjects:
    """Those of one door. Thread-safe."""

    def __init__(self, clock: clocks.Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._now: dict[Source, dict[str, UndecodableObject]] = {}
        self._named: collections.OrderedDict[tuple[str, str, str], None] = collections.OrderedDict()
        self._counts: collections.Counter[tuple[str, str]] = collections.Counter()
        self._line_due_seconds: dict[str, float] = {}  # monotonic, by kind
        self._unnamed: collections.Counter[str] = collections.Counter()  # by kind, since its last line

    def listed(self, source: Source, objects: Sequence[UndecodableObject]) -> None:
        """A whole list: these could not be decoded, and no others of it."""
        if not objects and source not in self._now:
            return
        with self._lock:
            self._now[source] = {one.key: one for one in objects}
            if not objects:
                del self._now[source]
            self._name(source.kind, objects)

    def changed(self, source: Source, key: str, undecodable: UndecodableObject | None) -> None:
        """A watch event about one object, which could be decoded (None) or could not."""
        if undecodable is None and source not in self._now:
            return  # nearly always
        with self._lock:
            here = self._now.setdefault(source, {})
            here.pop(key, None)
            if undecodable is not None:
                here[key] = undecodable
                self._name(source.kind, [undecodable])
            if not here:
                del self._now[source]

    def read(self, kind: str, undecodable: UndecodableObject) -> None:
        """A single object that was asked for by name."""
        with self._lock:
            self._name(kind, [undecodable])

    def check(self) -> health.Check:
        """A line of /readyz?verbose, and never a reason to be unready: the rest of the cluster is served."""
        return health.Check("objects", lambda: None, self.line)

    def line(self) -> str:
        """How many objects cannot be decoded now, and the first of them."""
        entries = sorted(self._left_out())
        if not entries:
            return "all decoded"
        texts = [f"{kind} {one.key}{f' on {one.node}' if one.node else ''} ({one.reason})" for kind, one in entries]
        more = f" and {len(entries) - SHOWN_MOST} more" if len(entries) > SHOWN_MOST else ""
        return f"{len(entries)} cannot be decoded: {', '.join(texts[:SHOWN_MOST])}{more}"

    def counts(self) -> Mapping[tuple[str, str], int]:
        """Objects that could not be decoded, each once, by kind and reason."""
        with self._lock:
            return dict(self._counts)

    def present(self) -> Mapping[str, int]:
        """Objects that cannot be decoded now, by kind; 0 where some could not be before."""
        kinds = {kind: 0 for kind, _ in self.counts()}
        return kinds | collections.Counter(kind for kind, _ in self._left_out())

    def _left_out(self) -> list[tuple[str, UndecodableObject]]:
        with self._lock:
            entries = {(source.kind, key): one for source, here in self._now.items() for key, one in here.items()}
        return [(kind, one) for (kind, _), one in entries.items()]

    def _name(self, kind: str, items: Sequence[UndecodableObject]) -> None:
        """Count those that are not remembered, and log the first of them, unless the kind had a line lately."""
        new = [item for item in items if self._is_new(kind, item)]
        self._unnamed[kind] += len(new)
        now_seconds = self._clock.monotonic()
        if not new or now_seconds < self._line_due_seconds.get(kind, now_seconds):
            return
        self._line_due_seconds[kind] = now_seconds + LINE_SECONDS
        log.warning(
            "objects cannot be decoded",
            kind=kind,
            count=self._unnamed.pop(kind),
            name=new[0].key,
            node=new[0].node,
            uid=new[0].uid,
            resource_version=new[0].resource_version,
            reason=new[0].reason,
            error=new[0].error,
        )

    def _is_new(self, kind: str, item: UndecodableObject) -> bool:
        name = kind, item.key, item.uid
        known = name in self._named
        self._named[name] = None
        self._named.move_to_end(name)
        if known:
            return False
        if len(self._named) > NAMED_MOST:
            self._named.popitem(last=False)
        self._counts[kind, item.reason] += 1
        return True
