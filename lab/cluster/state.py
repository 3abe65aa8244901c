"""The state file of a cluster: its processes by identity, its addresses, and whether to remove its directory.

`control_plane` writes it whenever a component starts; `python -m lab.cluster down`, `status` and the watchdog read it,
also after the parent died. The file is replaced atomically, so a reader never sees half of it.
"""

import collections.abc
import os
import pathlib
import shutil
import signal
import threading
import time

import msgspec

from lab.cluster import errors, identity

FILE_NAME = "state.json"
GRACE_SECONDS = 8.0
KILLED_SECONDS = 120.0  # nothing survives SIGKILL, and nothing may be removed before what writes there is gone
FOUNDATION = ("kube-apiserver", "etcd")
# What a cluster makes in its directory and `down` removes again; logs and the audit log stay for diagnosis.
TRANSIENT = ("etcd", "prometheus", "pki", "kubeconfigs", "configuration", "kubeconfig")


class Record(msgspec.Struct, frozen=True):
    """One process the cluster started."""

    name: str
    process: identity.Identity
    log_path: str


class State(msgspec.Struct, frozen=True):
    """Everything `down` and `status` need."""

    records: tuple[Record, ...] = ()
    addresses: dict[str, str] = {}
    nodes: int = 0
    temporary: bool = False


def read(directory: pathlib.Path) -> State | None:
    """The recorded state, None when the directory has none; ClusterError when it is not Evenload's."""
    path = directory / FILE_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=State)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.ClusterError(
            f"{path} is not a cluster's state ({error}); nothing was stopped. "
            "Look at it, and remove it if no cluster runs there."
        ) from error


def write(directory: pathlib.Path, state: State) -> None:
    """Replaces the recorded state."""
    unfinished = directory / f"{FILE_NAME}.{os.getpid()}"
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(state)))
    unfinished.rename(directory / FILE_NAME)


def alive(state: State) -> tuple[Record, ...]:
    """The recorded processes that still run."""
    return tuple(record for record in state.records if identity.is_alive(record.process))


def stop(state: State, *, grace_seconds: float = GRACE_SECONDS) -> tuple[str, ...]:
    """Ends exactly the recorded processes: SIGTERM, SIGKILL after the grace; the names of those that were running."""
    running = alive(state)
    for phase in _phases(running):
        for record in phase:
            identity.send(record.process, signal.SIGTERM)
            identity.send(record.process, signal.SIGCONT)  # a paused process acts on SIGTERM only once it goes on
        _wait(phase, grace_seconds)
        for record in phase:
            identity.send(record.process, signal.SIGKILL)
        _wait(phase, KILLED_SECONDS)
    return tuple(record.name for record in running)


def _phases(records: collections.abc.Sequence[Record]) -> list[list[Record]]:
    """Clients first, then the apiserver, then etcd: an apiserver whose etcd is gone takes its whole grace to end."""
    clients = [record for record in records if record.name not in FOUNDATION]
    return [clients, *([record for record in records if record.name == name] for name in FOUNDATION)]


def clean(directory: pathlib.Path) -> None:
    """Removes what a cluster made in its directory, except its logs."""
    for name in (*TRANSIENT, FILE_NAME):
        path = directory / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _wait(records: collections.abc.Sequence[Record], seconds: float) -> None:
    limit = time.monotonic() + seconds
    never = threading.Event()
    while any(identity.is_alive(record.process) for record in records) and time.monotonic() < limit:
        never.wait(0.02)
