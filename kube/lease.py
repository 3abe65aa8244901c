"""Leader election on a Lease: of several replicas at most one acts.

The annotator and the descheduler run an Election on a thread and ask `is_leader()` before every effect; the extender
never elects. docs/decisions/0002-lease-election.md says why this is not the official client's leaderelection.

Never two leaders: a replica calls itself leader only until RENEW_SECONDS after the moment we *sent* the last renewal
that succeeded, by its own monotonic clock, while others wait LEASE_SECONDS (longer) after they *saw* it. Writes carry
the resourceVersion that was read, so that of two who try at once one gets a Conflict. A Lease that was deleted is
created again at once by its holder only; others wait as long as for one that is not renewed.
Times on the Lease are for people; no decision reads another's clock, and one that no clock can show (the year 0) is as
good as none.
"""

import contextlib
import random
import socket
import threading
from collections.abc import Iterator

from kube import errors, kinds
from kube.api.metadata import seconds
from kube.door import KubeDoor
from kube.objects import Lease
from runtime import clock as clocks
from runtime import logs, loop

log = logs.get(__name__)

LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS = 15, 10, 2  # client-go's; lease > renew > 1.2 * retry, or two could lead
RETRY_JITTER_RATIO = 0.2
NEVER = float("-inf")
GIVE_BACK_SECONDS = 5.0
LONGEST_LEASES = 10  # another's Lease counts for at most so many of ours: one of 60 years must not end all elections
MOST_TRANSITIONS = 2**31 - 1  # int32, as the API has it; a Lease that was edited to it can still change hands


def identity(rng: random.Random) -> str:
    """Returns the holder's name of this process: the host, and 64 random bits, as a host name is no name of a process.

    Nodes that boot from one image share theirs, and so may a port behind two networks: two processes of one name would
    both lead. A process that was killed waits for its own Lease to run out, as client-go's do.
    """
    return f"{socket.gethostname()}_{rng.getrandbits(64):016x}"


class Election:
    """One candidate. `identity` must be unique to the process (pod name and uid, or host and a random part)."""

    def __init__(
        self,
        door: KubeDoor,
        *,
        namespace: str,
        name: str,
        identity: str,
        clock: clocks.Clock,
        rng: random.Random,
    ) -> None:
        self._door = door
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._rng = rng
        self._leading_until_seconds = NEVER  # monotonic
        self._told_leading = False
        self._seen_version = ""
        self._seen_at_seconds = NEVER  # monotonic, of the first sight of _seen_version
        self._existed = False  # whether there was ever a Lease
        self._absent_since_seconds: float | None = None  # monotonic, of the first read that did not find it
        self.holder = ""  # as last seen on the Lease
        self.led_until_seconds: float | None = None  # Unix; the last renewal of the previous leader, if there was one

    def is_leader(self) -> bool:
        """Returns whether this replica may act now. False once the Lease could run out."""
        return self._clock.monotonic() < self._leading_until_seconds

    def holds(self) -> bool:
        """Reads the Lease again; returns whether it names this replica. For an effect that cannot be taken back.

        False, too, where it cannot be read: then nothing tells who leads.
        """
        try:
            lease = self._door.get(kinds.LEASES, self._name, namespace=self._namespace)
        except errors.KubeError as error:
            log.warning("lease not read", lease=self._name, error=str(error))
            return False
        return lease.spec.holder_identity == self._identity and self.is_leader()

    def acquire(self, stop: threading.Event) -> bool:
        """Try for as long as another's Lease takes to run out; whether it leads. For a process that acts once."""
        limit_seconds = self._clock.monotonic() + LEASE_SECONDS + RETRY_SECONDS
        self.attempt()
        while not self.is_leader() and self._clock.monotonic() < limit_seconds:
            if self._clock.wait(stop, RETRY_SECONDS):
                break
            self.attempt()
        return self.is_leader()

    def run(self, stop: threading.Event) -> None:
        """Campaign and renew until `stop` is set, then release, so that another takes over at once.

        After a loss it campaigns again.
        """
        try:
            while not stop.is_set():
                loop.attempt("election", self.attempt)  # an exception would end the election thread silently
                pause_seconds = RETRY_SECONDS * (1 + self._rng.uniform(0, RETRY_JITTER_RATIO))
                if self._clock.wait(stop, pause_seconds):
                    return
        finally:
            self._release()

    def attempt(self) -> None:
        """Once: look at the Lease, take or renew it if allowed. Failures of the apiserver are logged.

        The next try follows.
        """
        try:
            self._acquire_or_renew()
        except errors.Conflict:
            self._existed = True
            log.debug("lease changed during the update", lease=self._name)
        except errors.KubeError as error:
            log.warning("lease not renewed", lease=self._name, leading=self.is_leader(), error=str(error))
        self._tell()

    def _acquire_or_renew(self) -> None:
        sent_at_seconds = self._clock.monotonic()
        try:
            lease = self._door.get(kinds.LEASES, self._name, namespace=self._namespace)
        except errors.NotFound:
            self._create(sent_at_seconds)
            return
        self._observe(lease)
        if not self._may_take(lease):
            self._leading_until_seconds = NEVER
            return
        sent_at_seconds, led = self._clock.monotonic(), self.is_leader()
        self._door.replace(kinds.LEASES, self._name, self._body(lease), namespace=self._namespace)
        if not led:
            self.led_until_seconds = seconds(lease.spec.renew_time)
        self._won(sent_at_seconds)

    def _create(self, sent_at_seconds: float) -> None:
        """Create the Lease if no replica can lead by the one that was deleted.

        Only the very first gives leadership by itself, all others with their next renewal: others may not have seen a
        Lease that was deleted again before they looked, and count from when they saw an earlier one to be gone.
        """
        if not (self.is_leader() or self._may_create()):
            return
        self._door.create(kinds.LEASES, self._body(None), namespace=self._namespace)
        self._absent_since_seconds = None
        if self._existed:
            log.warning("lease was deleted and is created again", lease=self._name)
        else:
            self._won(sent_at_seconds)

    def _may_create(self) -> bool:
        """There never was one, or it has been absent for its whole duration by this process's own clock."""
        if not self._existed:
            return True
        if self._absent_since_seconds is None:
            self._absent_since_seconds = self._clock.monotonic()
        return self._clock.monotonic() >= self._absent_since_seconds + LEASE_SECONDS

    def _observe(self, lease: Lease) -> None:
        self._existed, self._absent_since_seconds = True, None
        self.holder = lease.spec.holder_identity or ""
        if lease.resource_version != self._seen_version:
            self._seen_version, self._seen_at_seconds = lease.resource_version, self._clock.monotonic()

    def _may_take(self, lease: Lease) -> bool:
        """Returns whether the Lease is this replica's, released, or expired by this process's own clock."""
        released = not self.holder and not lease.undecodable  # else it may have a holder that cannot be read
        if released or self.holder == self._identity:
            return True
        duration_seconds = max(lease.spec.lease_duration_seconds or 0, LEASE_SECONDS)
        duration_seconds = min(duration_seconds, LONGEST_LEASES * LEASE_SECONDS)
        return self._clock.monotonic() >= self._seen_at_seconds + duration_seconds

    def _won(self, sent_at_seconds: float) -> None:
        self._existed = True
        self._leading_until_seconds = sent_at_seconds + RENEW_SECONDS
        self.holder = self._identity

    def _tell(self) -> None:
        leading = self.is_leader()
        if leading != self._told_leading:
            self._told_leading = leading
            log.info("leading" if leading else "no longer leading", lease=self._name, identity=self._identity)

    def _release(self) -> None:
        """Give the Lease back, if it still names this replica; is_leader() is False from here on."""
        held, self._leading_until_seconds = self.is_leader(), NEVER
        self._tell()
        if not held:
            return
        try:
            lease = self._door.get(kinds.LEASES, self._name, namespace=self._namespace)
            if lease.spec.holder_identity == self._identity:
                self._door.replace(kinds.LEASES, self._name, self._body(lease, free=True), namespace=self._namespace)
        except errors.KubeError as error:
            log.warning("lease not released, it runs out by itself", lease=self._name, error=str(error))

    def _body(self, lease: Lease | None, *, free: bool = False) -> dict[str, object]:
        """Returns the whole Lease: renewed, or free. A change of holder counts one transition and sets acquireTime."""
        now = clocks.to_rfc3339(self._clock.now(), micros=True)
        metadata: dict[str, object] = {"name": self._name, "namespace": self._namespace}
        acquired, transitions = now, 0
        if lease is not None:
            metadata["resourceVersion"] = lease.resource_version
            transitions = lease.spec.lease_transitions or 0
            if lease.spec.holder_identity != self._identity:
                transitions = min(transitions + 1, MOST_TRANSITIONS)
            elif lease.spec.acquire_time is not None:
                acquired = lease.spec.acquire_time.isoformat(timespec="microseconds")
        spec = {
            "holderIdentity": "" if free else self._identity,
            "leaseDurationSeconds": 1 if free else LEASE_SECONDS,
            "acquireTime": acquired,
            "renewTime": now,
            "leaseTransitions": transitions,
        }
        return {"metadata": metadata, "spec": spec}


@contextlib.contextmanager
def campaigning(election: Election | None, *, patience_seconds: float = GIVE_BACK_SECONDS) -> Iterator[None]:
    """Campaigns on a thread while the body runs; None: no election.

    The Lease is given back only after the body, when nothing is being written any more: a new leader must not
    plan while the last eviction or patch of the old one is under way. An apiserver that does not answer holds the end
    up for `patience_seconds` at most; then the Lease runs out by itself.
    """
    done = threading.Event()
    thread = loop.start_thread("election", election.run, done) if election is not None else None
    try:
        yield
    finally:
        done.set()
        if thread is not None:
            thread.join(timeout=patience_seconds)
            if thread.is_alive():
                log.warning("lease not given back in time, it runs out by itself", waited_seconds=patience_seconds)
