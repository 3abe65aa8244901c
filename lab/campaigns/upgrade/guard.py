"""Evictions that the guard has to refuse, and others that it has to pass, all the time while its version changes."""

import collections
import threading
from typing import Final

from kube import errors
from lab import cluster
from lab.cluster.demo import permissions
from tests import patience
from tests.e2e import bodies, waiting

PODS: Final = "api/v1/namespaces/default/pods"
PROTECTED, FREE = "guard-protected", "guard-free"
ACCEPTED: Final = "accepted"
RIGHT: Final = {PROTECTED: "the pod is labelled evenload.io/protected", FREE: ACCEPTED}
EVERY_SECONDS: Final = 0.2


class Attempts:
    """A thread that asks for dry runs of evictions as the descheduler's account; `answers` counts them by pod and
    answer. The pods have no owner, so that no descheduler evicts them.
    """

    def __init__(self, running: cluster.Cluster) -> None:
        self.answers: collections.Counter[tuple[str, str]] = collections.Counter()
        self._door = patience.connect(permissions.kubeconfig(running, "descheduler"))
        labels = {PROTECTED: {"evenload.io/protected": "true"}, FREE: {}}
        self._uids = {
            name: running.api.create(PODS, bodies.pod(name, labels=own))["metadata"]["uid"]
            for name, own in labels.items()
        }
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def start(self) -> None:
        """Begins once the guard is in force and knows both pods."""
        waiting.eventually(self._right, waiting.LIMIT_SECONDS, "the guard to be in force", lambda: self.answers)
        self.answers.clear()
        self._thread.start()

    def end(self) -> None:
        """Ends."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._door.close()

    def verdicts(self) -> list[str]:
        """Sentences about each answer that is not as it has to be."""
        wrong = {one: count for one, count in self.answers.items() if RIGHT[one[0]] not in one[1]}
        return [f"guard: {name} was answered {answer!r} {count} times" for (name, answer), count in wrong.items()]

    def _right(self) -> bool:
        self.answers.clear()
        self._ask()
        return not self.verdicts()

    def _go_on(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            self._ask()

    def _ask(self) -> None:
        for name, uid in self._uids.items():
            try:
                answer = self._door.evict(namespace="default", name=name, uid=uid, dry_run=True)
                self.answers[name, ACCEPTED if answer.accepted else str(answer)] += 1
            except errors.KubeError as error:
                self.answers[name, str(error)] += 1
