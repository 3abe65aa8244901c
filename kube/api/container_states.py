"""Container states of a pod: since when it uses its node, and whether it waits for a reason of failure.

`kube.api.pods` and `kube.pods.compact` decode `status.containerStatuses` by it. Both questions are about the pod's own
containers; of init containers only failures count. A pod's phase is Pending until each of them has started once.
"""

import functools
from typing import Final

import msgspec

from kube.api import metadata

PENDING: Final = "Pending"
# Waiting reasons of kubelets after which nothing starts until a person acts or a back-off ends. Another reason
# (ContainerCreating, PodInitializing, one of another kubelet) is no failure.
FAILURES: Final = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "PostStartHookError",
        "PreCreateHookError",
        "PreStartHookError",
        "RegistryUnavailable",
        "RunContainerError",
        "SignatureValidationFailed",
    }
)
# Without those that a node may have alone, whose disk or login to the registry is broken: were its pods no load at
# once, it would be the idlest node for every pod that follows.
OWN_FAILURES: Final = FAILURES - {"ErrImagePull", "ImageInspectError", "ImagePullBackOff", "RegistryUnavailable"}


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """A container that does not run yet, or not again yet."""

    reason: str = ""


class Run(msgspec.Struct, frozen=True, gc=False):
    """A container's run, which goes on or has ended. Its time stays a text until it is asked for."""

    started_at: str | None = msgspec.field(name="startedAt", default=None)


class State(msgspec.Struct, frozen=True, gc=False):
    """A container's state: one of the three."""

    waiting: Waiting | None = None
    running: Run | None = None
    terminated: Run | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False):
    """One of status.containerStatuses or status.initContainerStatuses."""

    restart_count: int = msgspec.field(name="restartCount", default=0)
    state: State = State()
    last_state: State = msgspec.field(name="lastState", default=State())

    @property
    def first_start_seconds(self) -> float | None:
        """When it first started (Unix seconds); None before that, and after a second restart: two runs are reported."""
        if self.restart_count > 1:
            return None
        run = self.last_state.terminated if self.restart_count else self.state.running or self.state.terminated
        return None if run is None else moment_seconds(run.started_at)

    @property
    def fails(self) -> bool:
        """Whether it waits for a reason of failure."""
        return self.state.waiting is not None and self.state.waiting.reason in FAILURES

    @property
    def fails_itself(self) -> bool:
        """Whether it waits for a reason of failure that would be the same on another node."""
        return self.state.waiting is not None and self.state.waiting.reason in OWN_FAILURES


Statuses = tuple[ContainerStatus, ...]


@functools.lru_cache(maxsize=1024)  # the pods of a workload come together, and their times are of a few seconds
def moment_seconds(text: str | None) -> float | None:
    """Unix seconds of a time as the API writes it; msgspec.ValidationError for a text that is none."""
    return metadata.seconds(msgspec.convert(text, metadata.Moment))


def running_since_seconds(phase: str, containers: Statuses) -> float | None:
    """When the last of a pod's containers first started (Unix seconds); None before that or where it is not known. One
    that waits for a reason of failure holds back none that runs.
    """
    if phase == PENDING and not any(one.fails for one in containers):
        return None
    latest: float | None = None
    for one in containers:  # of every pod that changes
        start = one.first_start_seconds
        if start is not None and (latest is None or start > latest):
            latest = start
    return latest


def failing(containers: Statuses, init_containers: Statuses) -> bool:
    """Returns whether a container waits for a reason of failure that it has on any node, and none runs."""
    fails = runs = False
    for one in containers:
        if one.state.running is not None:
            runs = True
        elif one.fails_itself:
            fails = True
    for one in init_containers:
        fails = fails or one.fails_itself
    return fails and not runs
