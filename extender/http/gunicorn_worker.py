"""gunicorn's thread worker, whose main thread reads: a thread gets a connection only when a request of it is whole.

`http.gunicorn_server` gives it to gunicorn. Accepting, handshakes, heads, bodies, what is left of replies and the ends
of connections are steps of `connection.Connection`, made in the poller without waiting; `http.connection_limits` says
who may stay and whose turn it is. So clients that are slow, silent or many hold memory within bounds and no thread,
whatever they send.

A stopping worker goes on accepting for `STOP_KEEPALIVE_LINGER` seconds. A connection that the kernel took just before
the signal, or that a Service still sends for a moment after it, would wait in the queue and be reset at the end: a
failed filter. Its answer says `Connection: close` like all late ones.
"""

import collections.abc
import functools
import gc
import math
import select
import selectors
import ssl
import sys
import threading
from concurrent import futures
from typing import Any, Final

from gunicorn.http import errors
from gunicorn.workers import gthread

from extender import deadline
from extender.http import connection, connection_limits, deferred, raw_requests, tls
from runtime import clock, http_exchange, http_limits, logs, loop

log = logs.get(__name__)

# A scheduler that places a pod every few seconds never leaves its thread. With 0.1 s the first request after a pause
# came by way of the main thread: 0.2 ms, in every fiftieth request of bench.
STAY_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.1  # how soon a staying thread heeds a stop, or a request that waits for a thread
STAYING: Final = 2  # of 8 threads
# While one thread decodes a page of pods, others get the interpreter after this long instead of Python's 5 ms.
SWITCH_SECONDS: Final = 0.0005
# The memory of decisions grows with every request, and none of it is garbage. Python's 700 had it looked through in one
# request of 35 for 0.3 ms and in one of 400 for 3 ms; this is one of some thousands.
OBJECTS_BEFORE_COLLECTING: Final = 20_000
ACCEPTED_PER_TURN: Final = 16
SWEEP_SECONDS: Final = 0.5

Connection = connection.Connection


class Exchanges:
    """The part of a worker that its threads run: requests and replies of the connections that they get."""

    def __init__(self, worker: "Worker", turns: connection_limits.Turns) -> None:
        self._worker, self._turns = worker, turns
        self._stays = threading.BoundedSemaphore(STAYING)

    def answer(self, client: Connection) -> bool:
        """Answer a request, and the next ones of the connection as long as they follow within STAY_SECONDS; True when
        the connection stays.

        Otherwise each request of a kept connection wakes the main thread, which hands it to a pool's thread, which
        hands the connection back. A scheduler asks prioritize right after filter and the next pod's filter soon after.
        At most STAYING threads wait like this, blocked in poll and without the GIL, and none while a request waits
        for a thread, so that no other connection finds the pool occupied by idle ones. For the rest of a request that
        has begun they wait for LOOK_SECONDS. A stopping worker ends it as soon and drains as always.
        """
        with deferred.keeping():
            stays = self._answer_one(client)
            while stays and self._follows(client):
                stays = self._answer_one(client)
        return stays

    def _answer_one(self, client: Connection) -> bool:
        """Answer one request; True when the connection is at the next one."""
        now_seconds = self._worker.ticking.monotonic()
        deadline.waited(now_seconds - (client.incoming.begun_seconds or now_seconds))
        stays: list[bool] = []
        work = functools.partial(self._exchange, client, stays)
        loop.attempt(
            "an answer", work, lambda error: self._worker.handle_error(None, client.sock, client.client, error)
        )
        return any(stays) and client.incoming.proceed(self._worker.ticking.monotonic())

    def _exchange(self, client: Connection, stays: list[bool]) -> None:
        """Let the application answer, and note whether the connection may stay."""
        try:
            if self._worker.alive and raw_requests.answer(client, self._worker.wsgi, self._worker.ticking.now()):
                stays.append(True)
            else:
                stays.append(self._worker.handle_request(client.incoming.request(), client))
        except (errors.NoMoreData, StopIteration, ConnectionError, ssl.SSLError) as error:
            log.debug("client gone", client=client.address, error=repr(error))
        except errors.ParseException as error:
            client.sock.sendall(http_exchange.refusal(client.client, error) or b"")

    def _follows(self, client: Connection) -> bool:
        """Whether the client sends its next request in time; False gives the connection back to the main thread."""
        if not self._worker.alive or len(self._turns) or client.sock.unsent or client.incoming.buffer:
            return False
        if not self._stays.acquire(blocking=False):
            return False
        try:
            until_seconds = self._worker.ticking.monotonic() + STAY_SECONDS
            waiting = select.poll()
            waiting.register(client.sock, select.POLLIN)
            while self._comes(waiting, until_seconds):
                ready = client.receive(self._worker.ticking.monotonic())
                if ready or client.large:
                    return bool(ready and self._worker.alive and not client.gone and not client.large)
                until_seconds = min(until_seconds, self._worker.ticking.monotonic() + LOOK_SECONDS)
            return False
        finally:
            self._stays.release()

    def _comes(self, waiting: "select.poll", until_seconds: float) -> bool:
        """Whether bytes arrive before that; deferred work is done meanwhile."""
        while deferred.pending():
            if waiting.poll(0):
                return bool(self._worker.alive)
            deferred.some()
        while self._worker.alive and not len(self._turns):
            left_seconds = until_seconds - self._worker.ticking.monotonic()
            if left_seconds <= 0:
                return False
            if waiting.poll(1000 * min(left_seconds, LOOK_SECONDS)):
                return bool(self._worker.alive)
        return False


class Worker(gthread.ThreadWorker):  # type: ignore[misc]
    """gunicorn's worker with these steps, which run in the main thread but for `handle`."""

    ticking: clock.Clock = clock.WallClock()
    dropped: collections.abc.Callable[[str], None] = staticmethod(lambda _reason: None)  # counts what was ended early
    refusal: tls.Refusal = staticmethod(lambda _client_name: None)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._open = connection_limits.Open()
        self._turns = connection_limits.Turns(self.cfg.threads)
        self.handle = Exchanges(self, self._turns).answer  # on a thread
        self._handshakes = connection_limits.Handshakes()
        self._sweep_seconds = 0.0
        self._drop_log = connection_limits.DropLog()
        self._accepts_until = 0.0  # 0 unless stopping
        self._idle_until = math.inf  # of connections on which nothing is asked
        self._silent_until = math.inf  # the same of those on which nothing ever came

    def init_process(self) -> None:
        """Prepare the interpreter; in the worker, before any thread runs."""
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.set_threshold(OBJECTS_BEFORE_COLLECTING)
        super().init_process()

    # Connections come and go

    def accept(self, listener: Any) -> None:
        """Take new connections in, each in the place of another where there are too many."""
        for _ in range(ACCEPTED_PER_TURN):
            try:
                accepted, client = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            try:
                new = Connection(accepted, client, self.cfg)
            except OSError:  # gone already
                accepted.close()
                continue
            self.nr_conns += 1
            surplus = self._open.add(new)
            if surplus is not None:
                self._drop(surplus, "connections")
            if surplus is not new:
                new.until_seconds = min(self.ticking.monotonic() + self.cfg.keepalive, self._silent_until)
                self._watch(new, selectors.EVENT_READ)

    def _watch(self, client: Connection, events: int) -> None:
        client.watch(self.poller, events, functools.partial(self._step, client))

    def _drop(self, client: Connection, reason: str = "") -> None:
        """Close it now; with a reason, it is counted."""
        if client.closed:
            return
        if reason:
            self.dropped(reason)
            self._drop_log.add(client.address, reason, self.ticking.monotonic())
        self._watch(client, 0)
        self._turns.forget(client)
        self._handshakes.forget(client)
        self._open.remove(client)
        self.nr_conns -= 1
        client.close()

    # One step of a connection for which the poller has something

    def _step(self, client: Connection, _file: object) -> None:
        """Make the next step. An error ends this connection and no other."""
        if client.events:  # else it was dropped in this very turn
            self._attempt(client, self._go_on)

    def _attempt(self, client: Connection, step: collections.abc.Callable[[Connection], None]) -> None:
        def work() -> None:
            try:
                step(client)
            except OSError:
                self._drop(client)

        loop.attempt("a connection's next step", work, lambda _error: self._drop(client))

    def _go_on(self, client: Connection) -> None:
        if client.events & selectors.EVENT_WRITE:
            if client.sock.flush():
                self._replied(client)
            self._hold(client)
        elif client.ending:
            if client.discard():
                self._drop(client)
        elif self.cfg.is_ssl and not client.shaken:
            self._handshakes.wait(client)
        else:
            self._read(client)

    def _read(self, client: Connection) -> None:
        """Read what came of a request, and let it wait for a thread when it is whole."""
        was_idle, now_seconds = client.idle, self.ticking.monotonic()
        ready = client.receive(now_seconds)
        if client.gone:
            self._drop(client)
            return
        if ready:
            client.answered = True
            self._open.renew(client)
            self._turns.wait(client)
        elif was_idle and not client.idle:
            client.until_seconds = now_seconds + http_limits.REQUEST_SECONDS
        self._watch(client, 0 if ready else selectors.EVENT_READ)
        self._hold(client)
        if ready:
            self._dispatch()

    def _hold(self, client: Connection) -> None:
        """Count what it holds, and drop who holds too much for that."""
        while not client.closed and (surplus := self._open.hold(client)) is not None:
            self._drop(surplus, "bytes")

    def _shake(self, client: Connection) -> None:
        """Go on with a handshake: it takes a millisecond of the processor, so that there is one in a turn."""
        now_seconds = self.ticking.monotonic()
        if client.idle:
            client.until_seconds = now_seconds + http_limits.REQUEST_SECONDS
        if client.shake(self.cfg.ssl_context(self.cfg, None), now_seconds, self.refusal):
            client.until_seconds = min(now_seconds + self.cfg.keepalive, self._silent_until)
            self._read(client)

    # From the poller to a thread and back

    def _dispatch(self) -> None:
        while (one := self._turns.take()) is not None:
            one.answering = True
            self.enqueue_req(one)

    def finish_request(self, client: Connection, fs: "futures.Future[bool]") -> None:
        """Take a connection back from its thread."""
        self._turns.done(client)
        client.answering = False
        client.ending = fs.cancelled() or fs.exception() is not None or not fs.result()
        self._attempt(client, self._replied)
        self._hold(client)
        self._dispatch()

    def _replied(self, client: Connection) -> None:
        """Send the rest of the reply, then end the connection or wait for its next request."""
        now_seconds = self.ticking.monotonic()
        if client.sock.unsent:
            client.until_seconds = now_seconds + http_limits.REPLY_SECONDS
            self._watch(client, selectors.EVENT_WRITE)
        elif client.ending:
            client.end()
            client.until_seconds = now_seconds + http_exchange.LINGER_SECONDS
            self._watch(client, selectors.EVENT_READ)
        else:
            limit_seconds = self.cfg.keepalive if client.idle else http_limits.REQUEST_SECONDS
            client.until_seconds = min(now_seconds + limit_seconds, self._idle_until)
            self._watch(client, selectors.EVENT_READ)
            self._read(client)

    def murder_pending(self) -> None:
        """Do what is due in each turn of gunicorn's loop: a handshake, and the ends of what took too long. The first
        turn after the linger of a stop closes the port, so that new connections do not put off the exit.
        """
        if (shaking := self._handshakes.take()) is not None:
            self._attempt(shaking, self._shake)
        now_seconds = self.ticking.monotonic()
        if now_seconds >= self._sweep_seconds:
            self._sweep_seconds = now_seconds + SWEEP_SECONDS
            for one in self._open:
                if one.until_seconds <= now_seconds and not one.answering and one.events:
                    self._drop(one, "" if one.idle or one.ending else "late")
        if self._accepts_until and now_seconds >= self._accepts_until:
            self._accepts_until = 0.0
            super().set_accept_enabled(False)
            self.nr_conns -= 1

    def murder_keepalived(self, force: bool = False) -> None:
        """Close what is still open when gunicorn leaves."""
        for one in self._open if force else ():
            if not one.answering:
                self._drop(one)

    def set_accept_enabled(self, enabled: bool) -> None:
        """As gunicorn wants it; while stopping, off only after the linger."""
        if enabled or self.alive:
            super().set_accept_enabled(enabled)
        else:
            self._accepts_until = self.ticking.monotonic() + gthread.STOP_KEEPALIVE_LINGER
            self.nr_conns += 1  # the open port counts as one: gunicorn leaves as soon as there is none

    def _cap_keepalive(self, deadline: float) -> None:
        """Let connections on which nothing is asked end soon; gunicorn calls it when it begins to stop."""
        self._idle_until = self.ticking.monotonic() + gthread.STOP_KEEPALIVE_LINGER
        self._silent_until = self._idle_until + gthread.STOP_KEEPALIVE_LINGER  # of those that come until then
        for one in self._open:
            if one.idle and one.events:
                one.until_seconds = min(one.until_seconds, self._idle_until)
