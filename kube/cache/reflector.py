"""List and watch one kind, and keep a current picture of it in memory.

The extender's nodes and pods, the annotator's placements and heartbeat each are one Reflector over the door. The
manners are those of client-go's reflector: paged list, watch from its resourceVersion with bookmarks, relist on 410,
Retry-After honoured up to the longest back-off, full-jitter back-off from 0.8 to 30 s that only a watch of over 10 s
resets, so that neither a dead apiserver nor one whose watches end at once is hammered. Unlike client-go's it lists
nothing again where a watch was refused for a while: while apiservers restart, all clients would. But a first watch
after trouble that brings nothing to its end may be of a version that there is not yet: an apiserver whose etcd was
restored from a backup accepts it, and is silent until its versions have come so far. So it is listed again, once.

Its watches are shorter than client-go's (300 s). The apiserver sends a bookmark two seconds before the end of one that
lasts 40 to 50 s, and ends it: one that has brought nothing by then is dead, whatever its connection says. The next goes
on from the bookmark, which costs the apiserver a look at what came since, and no list.

Two threads: the reader on the socket, which calls `on_change` in order, and the caller of `run`, which waits for the
stop and then ends the reader within a second. Handlers take microseconds: passing each change on to a sleeping thread
would cost more.

The first list may be taken from the apiserver's cache (`cached_start`), as client-go does: with 100,000 pods it costs
a quarter, and the watch brings what happened since. If that fails, the next attempt is page by page, and so on in turn.

Where time is simulated nothing may wait: there `catch_up` takes the place of `run`, on the caller's thread. A process
that looks once lists without a watch (`list_once`).
"""

import functools
import random
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar, Unpack

from kube import errors
from kube.cache import store
from kube.cache.store import Change
from kube.door import KubeDoor, Selection, Watch
from kube.kinds import Kind
from kube.objects import IdentifiedObject
from runtime import clock as clocks
from runtime import logs, loop

log = logs.get(__name__)

T = TypeVar("T", bound=IdentifiedObject)
OnChange = Callable[[T | None, T | None], None]

PAGE_ITEMS = 500
WATCH_SECONDS = (40.0, 50.0)  # spread, so that all watches of a fleet do not end together
RESUMED_SECONDS = (12.0, 18.0)  # after a failure: that a short watch ends in its time soon says that contact is back
BACKOFF_FLOOR_SECONDS = 0.8
BACKOFF_CAP_SECONDS = 30.0
LIVED_SECONDS = 10.0  # a watch that lived longer was healthy: its end resets the back-off
# A balancer without an apiserver, one that has not loaded rights yet, or an etcd without a leader. Not 504: so says an
# apiserver that does not know the resourceVersion yet, and may never (etcd was restored).
REFUSED_FOR_A_WHILE = (401, 403, 500, 502, 503)
JOIN_SECONDS = 1.0
FOREVER = float("inf")


class Reflector(Generic[T]):
    """See the module. Constructing starts nothing; `start` or `run` does, once."""

    def __init__(
        self,
        door: KubeDoor,
        kind: Kind[T],
        *,
        clock: clocks.Clock,
        rng: random.Random,
        on_change: OnChange[T] | None = None,
        cached_start: bool = False,
        **selection: Unpack[Selection],
    ) -> None:
        self._door = door
        self.kind = kind
        self._on_change = on_change
        self._handling = f"handle {kind.plural}"
        self._clock = clock
        self._rng = rng
        self._selection = selection
        self._cached_start = cached_start
        self._store: store.Store[T] = store.Store()
        self._lock = threading.Lock()
        self._stopping = False
        self._watch: Watch[T] | None = None
        self._version = ""  # where to watch on; "" means list first
        self._failures = 0
        self._pause_seconds = 0.0
        self._opened_seconds = FOREVER  # when the watch began
        self._contact_seconds: float | None = None
        self.synced = threading.Event()  # the first list is in the snapshot and went through on_change
        self.problem: str | None = None  # why there is no contact now, for /readyz and logs
        self.lists = 0  # lists done: more than one means relists

    def start(self, stop: threading.Event) -> threading.Thread:
        """Run on a thread of its own."""
        return loop.start_thread(f"reflect-{self.kind.plural}", self.run, stop)

    def run(self, stop: threading.Event) -> None:
        """Reflect until `stop` is set; returns within about a second of it."""
        reader = loop.start_thread(f"read-{self.kind.plural}", self._read, stop)
        stop.wait()
        with self._lock:
            self._stopping = True
            if self._watch is not None:
                self._watch.close()
        reader.join(JOIN_SECONDS)

    def catch_up(self) -> None:
        """One turn without threads and pauses: a list, if there is none to go on from, then what the watch has to tell.

        For a door whose watches end when everything is told, as the simulated one's; `on_change` has been called for
        all of it when this returns. A reflector is either run or caught up. What fails is logged and in `problem`;
        where that means to list again, as after Gone, it is done once.
        """
        self._turn()
        if not self._version:
            self._turn()

    def list_once(self) -> None:
        """One list on the caller's thread, as current as the apiserver's answer, and no watch. Raises KubeError.

        It comes in one piece, which costs the apiserver a quarter of what pages cost; one that cannot send so long an
        answer (it is too old, or cuts after a minute) is asked for pages.
        """
        try:
            self._list(limit=0)
        except (errors.Unreachable, errors.ServerError) as error:
            log.warning("not listed in one piece, asking for pages", kind=self.kind.plural, error=str(error))
            self._list()

    def snapshot(self) -> Mapping[str, T]:
        """Everything known at one moment, by "name" or "namespace/name"; the mapping never changes."""
        return self._store.snapshot()

    def get(self, key: str) -> T | None:
        """The object of "name" or "namespace/name" now, None if there is none."""
        return self._store.get(key)

    def age_seconds(self) -> float:
        """Seconds since the apiserver last sent a list, an event or a bookmark, or ended a watch in its time; infinite
        before the first list. That a watch was accepted is no contact: a proxy may accept watches and bring nothing.
        """
        if self._contact_seconds is None:
            return FOREVER
        return max(0.0, self._clock.monotonic() - self._contact_seconds)

    def _read(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._pause_seconds = BACKOFF_CAP_SECONDS  # stands if the cycle dies of a bug
            loop.attempt(f"reflect {self.kind.plural}", self._cycle, self._broke)
            if self._pause_seconds and self._clock.wait(stop, self._pause_seconds):
                return

    def _cycle(self) -> None:
        """One turn; says how long to pause after it."""
        if self._turn():
            self._ended()

    def _turn(self) -> bool:
        """One list, if there is none to go on from, and one watch; whether the door answered."""
        self._opened_seconds = FOREVER
        try:
            if not self._version:
                self._list()
            self._follow()
        except errors.KubeError as error:
            self._failed(error)
            return False
        return True

    def _list(self, limit: int = PAGE_ITEMS) -> None:
        from_cache = bool(limit) and self._cached_start and not self.lists and self._failures % 2 == 0
        listing = self._door.list(self.kind, limit=limit, from_cache=from_cache, **self._selection)
        self._touch()
        changes = self._store.replace(listing.items)
        self._version = listing.resource_version
        self.lists += 1
        self._deliver(changes)
        self.synced.set()
        log.debug("listed", kind=self.kind.plural, items=len(listing.items), changes=len(changes))

    def _follow(self) -> None:
        watch = self._door.watch(
            self.kind,
            resource_version=self._version,
            timeout_seconds=self._rng.uniform(*(RESUMED_SECONDS if self._failures else WATCH_SECONDS)),
            **self._selection,
        )
        with self._lock:
            self._watch = watch
            if self._stopping:
                watch.close()
        self._opened_seconds = self._clock.monotonic()
        try:
            for event in watch:
                self._touch()
                if store.is_newer(event.resource_version, self._version):
                    self._version = event.resource_version
                self._deliver(self._store.apply(event))
        finally:
            watch.close()
            with self._lock:
                self._watch = None

    def _deliver(self, changes: Iterable[Change[T]]) -> None:
        if self._on_change is None:
            return
        for change in changes:
            loop.attempt(self._handling, functools.partial(self._on_change, change.old, change.new))

    def _touch(self) -> None:
        self._contact_seconds = self._clock.monotonic()
        self.problem = None

    def _ended(self) -> None:
        """The server ended the watch, as it does every few minutes; ending at once is a failure of sorts."""
        if self._clock.monotonic() - self._opened_seconds > LIVED_SECONDS:
            if self._failures and (self._contact_seconds or 0.0) < self._opened_seconds:
                self._version = ""  # it brought nothing: etcd may have been restored to an older version
            self._touch()
            self._failures, self._pause_seconds = 0, 0.0
            return
        self._failures += 1
        self._pause_seconds = _backoff_seconds(self._rng, self._failures)

    def _failed(self, error: errors.KubeError) -> None:
        """After a broken connection, 429 or a refusal for a while watch on; after all else, garbage too, list again."""
        if self._clock.monotonic() - self._opened_seconds > LIVED_SECONDS:
            self._failures = 0
        self._failures += 1
        wish_seconds = error.retry_after_seconds if isinstance(error, errors.ApiError) else None
        self._pause_seconds = max(_backoff_seconds(self._rng, self._failures), wish_seconds or 0.0)
        may_go_on = isinstance(error, errors.Unreachable | errors.TooManyRequests)
        if self._opened_seconds == FOREVER and isinstance(error, errors.ApiError):
            may_go_on |= error.status in REFUSED_FOR_A_WHILE
        if isinstance(error, errors.Undecodable) or not may_go_on:
            self._version = ""
        self.problem = str(error)
        log.warning(
            "lost contact", kind=self.kind.plural, error=str(error), pause_seconds=round(self._pause_seconds, 1)
        )

    def _broke(self, error: BaseException) -> None:
        """After an exception of no door: what is known may be in pieces, so list again, and say so in /readyz."""
        self._version, self.problem = "", f"{type(error).__name__}: {error}"


def _backoff_seconds(rng: random.Random, failures: int) -> float:
    """Anywhere between 0.8 s and min(30 s, 0.8 s * 2^failures)."""
    ceiling_seconds = min(BACKOFF_CAP_SECONDS, BACKOFF_FLOOR_SECONDS * 2.0 ** min(failures, 16))
    return rng.uniform(BACKOFF_FLOOR_SECONDS, ceiling_seconds)
