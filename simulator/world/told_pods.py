"""The annotator's pods in a simulation: the whole ones that everybody here has, instead of what a watch would decode.

`world.world` lets it hear of every change, as the extender's `Direct` does, and `services` gives it to the annotator in
place of a reflector, unless a run goes through all doors. What has happened is told when the annotator catches up, one
change after the other, as its watch would.
"""

import threading
from collections.abc import Mapping

from annotator import service
from kube.objects import Pod


class Pods:
    """The annotator's pods: it is told of the whole ones that everybody here has, when it catches up."""

    def __init__(self) -> None:
        self.synced = threading.Event()
        self._pods: dict[str, Pod] = {}
        self._news: list[tuple[Pod | None, Pod | None]] = []
        self._on_change: service.OnChange = lambda _old, _new: None

    def telling(self, on_change: service.OnChange) -> "Pods":
        """Registers a callback for every change of a pod."""
        self._on_change = on_change
        return self

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came, changed or went."""
        self._news.append((old, new))

    def catch_up(self) -> None:
        """Tell what has happened by now."""
        news, self._news = self._news, []
        for old, new in news:
            if new is not None:
                self._pods[new.key] = new
            elif old is not None:
                del self._pods[old.key]
            self._on_change(old, new)
        self.synced.set()

    def snapshot(self) -> Mapping[str, Pod]:
        """All pods at this moment."""
        return dict(self._pods)

    def start(self, stop: threading.Event) -> threading.Thread:
        """Nothing here has a thread."""
        raise NotImplementedError("the pods of a simulation are caught up with, see Reflector.catch_up")
