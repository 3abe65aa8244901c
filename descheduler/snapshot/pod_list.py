"""The list of pods, asked for on a thread of its own: it takes as long as everything else that a run reads together.

It comes in one piece, decoded while it arrives. It is as current as pages are, but an apiserver since 1.31 takes it
from its cache, and reads what follows a first page from etcd: ten pages of 20,000 pods cost it four times as much. One
that cannot send so long an answer (an older one, or it cuts after a minute) is asked for pages.

`cluster_reader.Reader` begins it first and needs it last. A process that makes one run (`--once`) begins it before its
libraries are loaded, so that the apiserver works meanwhile; then the pods are some moments older than the rest, which
they may be of either in any case, since a cluster is listed kind by kind. This module imports no rules, for that
reason.
"""

import functools
from concurrent import futures
from typing import TYPE_CHECKING, Final, NamedTuple

from descheduler.snapshot import interned_pods
from kube import errors
from kube.door import KubeDoor
from runtime import logs

if TYPE_CHECKING:
    from kube.http.client import Client

log = logs.get(__name__)

PODS_A_PAGE: Final = 2000
UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"  # a finished pod neither uses nor holds anything
LONGEST_SECONDS: Final = 10.0  # a list that was begun longer ago is not of this moment any more


class Pods:
    """A list that has begun; `begun_at_seconds` is Unix time."""

    def __init__(self, kube: KubeDoor, *, begun_at_seconds: float) -> None:
        self._begun_at_seconds = begun_at_seconds
        pool = futures.ThreadPoolExecutor(1, thread_name_prefix="list-pods")
        self._found = pool.submit(unfinished, kube)
        pool.shutdown(wait=False)  # nothing else is submitted; the thread ends with the list

    def usable(self, now_seconds: float) -> bool:
        """Whether a snapshot of that time may hold these pods."""
        return 0.0 <= now_seconds - self._begun_at_seconds <= LONGEST_SECONDS

    def wait(self) -> None:
        """Until the apiserver has answered, whatever it said."""
        futures.wait([self._found])

    def items(self) -> tuple[interned_pods.Pod, ...]:
        """The unfinished pods, when they are there; raises KubeError."""
        return self._found.result()


class Late:
    """Lists pods on demand and without a thread: where a list takes no time (a simulation's)."""

    def __init__(self, kube: KubeDoor, *, begun_at_seconds: float) -> None:
        self._kube = kube

    def usable(self, now_seconds: float) -> bool:
        """Always: nothing has been listed yet."""
        return True

    def wait(self) -> None:
        """Nothing is under way."""

    def items(self) -> tuple[interned_pods.Pod, ...]:
        """The unfinished pods; raises KubeError."""
        return unfinished(self._kube)


def unfinished(kube: KubeDoor, *, namespace: str = "") -> tuple[interned_pods.Pod, ...]:
    """The unfinished pods of a namespace, "" for all; raises KubeError."""
    asked = functools.partial(kube.list, interned_pods.PODS, namespace=namespace, field_selector=UNFINISHED)
    try:
        return asked(limit=0).items
    except (errors.Unreachable, errors.ServerError) as error:
        log.warning("pods could not be listed in one piece, asking for pages", error=str(error))
        return asked(limit=PODS_A_PAGE).items


class Begun(NamedTuple):
    """Start of `--once`: the door, and the pods already requested from it."""

    door: "Client"
    pods: Pods
