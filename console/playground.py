"""The policy playground's long work: one replay at a time, its progress and result as the topic `whatif`."""

import threading
from typing import Final

import msgspec

from console import board
from console.sources import Json, Replay, SourceError
from runtime import loop

STEP: Final = 0.02  # of the whole, between two reports of progress


class Busy(Exception):
    """A replay is going on."""


class Playground:
    """Replays a day under a policy, on a thread; any thread may ask."""

    def __init__(self, replay: Replay, topics: board.Board) -> None:
        self._what_if, self._topics = replay, topics
        self._running = threading.Lock()
        self._share = 0.0

    def begin(self, text: str, in_force: Json) -> None:
        """Start a replay beside the policy in force; Busy while another one goes on."""
        if not self._running.acquire(blocking=False):
            raise Busy
        self._share = 0.0
        self._publish({"state": "running", "share": 0.0})
        once = threading.Event()
        once.set()  # not begun again, whatever it ends with
        loop.start_thread("what if", lambda _stop: self._run(text, in_force), once)

    def _run(self, text: str, in_force: Json) -> None:
        try:
            loop.attempt("replay a day", lambda: self._replay(text, in_force), lambda error: self._fail(str(error)))
        finally:
            self._running.release()

    def _replay(self, text: str, in_force: Json) -> None:
        try:
            result = self._what_if(text, in_force, self._report)
        except SourceError as error:
            self._fail(str(error))
        else:
            self._publish({"state": "done", "result": result})

    def _report(self, share: float) -> None:
        if share >= self._share + STEP:
            self._share = share
            self._publish({"state": "running", "share": round(share, 3)})

    def _fail(self, message: str) -> None:
        self._publish({"state": "failed", "message": message})

    def _publish(self, document: object) -> None:
        self._topics.publish("whatif", msgspec.json.encode(document))
