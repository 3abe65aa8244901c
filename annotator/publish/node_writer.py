"""Every write of the annotator passes here: only as the leader, paced, counted, and in a dry run without effect.

`annotator.__main__` puts a `Writer` between the real door and `annotator.node_sync`. It adds:

* the fence: a replica that lost its Lease, or was told to stop, in the middle of a sync writes nothing more;
* the pace: writes begin evenly, at most `WRITES_PER_SECOND`; a 429 (the apiserver's priority and fairness) holds all
  of them for as long as its Retry-After says, and the refused write is sent again, since it did not take place;
* the cost: bytes of request bodies, by kind;
* the dry run: the apiserver checks every write (rights, admission) and stores none; `done` lists them.
"""

import dataclasses
import threading
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from annotator.metrics import Telemetry
from kube import errors
from kube.door import KubeWriter, WriteRequest
from runtime import clock as clocks

WRITES_PER_SECOND: Final = 200.0  # 5,000 nodes in 25 s after a start; a quiet fleet needs 17 a second at the most
ATTEMPTS: Final = 3
LONGEST_HOLD_SECONDS: Final = 10.0  # a longer wish ends this sync's writes; the next sync is the retry
DEFAULT_HOLD_SECONDS: Final = 1.0  # a 429 without Retry-After


class NotAllowedError(errors.KubeError):
    """Nothing was sent: this replica lost its Lease, or is stopping."""


class Write(NamedTuple):
    """One write as it was sent, and why it failed, if it did."""

    kind: str
    name: str
    body: Mapping[str, object]
    error: errors.KubeError | None = None


@dataclasses.dataclass
class Writer(KubeWriter):
    """A KubeWriter for the cycle, see above. `leads` is asked before every write; `stop` ends waiting and writing."""

    door: KubeWriter
    telemetry: Telemetry
    _: dataclasses.KW_ONLY
    clock: dataclasses.InitVar[clocks.Clock]
    stop: threading.Event
    leads: Callable[[], bool] = lambda: True
    dry_run: bool = False
    done: list[Write] = dataclasses.field(init=False, default_factory=list)  # of a dry run; else it would grow for ever

    def __post_init__(self, clock: clocks.Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._next_seconds = 0.0  # monotonic, of the next turn to write

    def write(self, request: WriteRequest) -> None:
        """See KubeWriter."""
        request = request._replace(dry_run=request.dry_run or self.dry_run)
        metadata = request.body.get("metadata")
        name = request.name or (str(metadata.get("name", "")) if isinstance(metadata, Mapping) else "")
        written = Write(request.kind.name, name, request.body)
        try:
            self._send(request, name)
        except errors.KubeError as error:
            written = written._replace(error=error)
            raise
        finally:
            if self.dry_run:
                self.done.append(written)

    def _send(self, request: WriteRequest, name: str) -> None:
        size_bytes = len(msgspec.json.encode(request.body))
        for left in range(ATTEMPTS - 1, -1, -1):
            self._await_turn()
            if self.stop.is_set() or not self.leads():
                what = f"{request.kind.name} {name}"
                raise NotAllowedError(f"{what} not written: this replica lost its Lease, or is stopping")
            self.telemetry.sent_bytes.labels(request.kind.plural).inc(size_bytes)
            try:
                self.door.write(request)
            except errors.TooManyRequests as refusal:
                if not left:
                    raise
                self._hold(refusal)
            else:
                return

    def _await_turn(self) -> None:
        """Return when it is the caller's turn, 1 / WRITES_PER_SECOND after the last one, or when `stop` is set."""
        with self._lock:
            now_seconds = self._clock.monotonic()
            at_seconds = max(now_seconds, self._next_seconds)
            self._next_seconds = at_seconds + 1.0 / WRITES_PER_SECOND
        if at_seconds > now_seconds:
            self._clock.wait(self.stop, at_seconds - now_seconds)

    def _hold(self, refusal: errors.TooManyRequests) -> None:
        """Put all writes off for as long as the apiserver asks; too long a wish is raised."""
        wish = refusal.retry_after_seconds
        hold_seconds = DEFAULT_HOLD_SECONDS if wish is None else wish
        with self._lock:
            until_seconds = self._clock.monotonic() + min(hold_seconds, LONGEST_HOLD_SECONDS)
            self._next_seconds = max(self._next_seconds, until_seconds)
        if hold_seconds > LONGEST_HOLD_SECONDS:
            raise refusal
