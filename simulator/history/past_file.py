"""A past in one file, to be replayed without the Prometheus it came from.

`evenload whatif --save` writes it, `--history` of `simulate`, `whatif` and `tune` reads it: numpy's .npz with the use
of pods and nodes, and MessagePack with everything else (JSON has no infinity). Nothing in it is code, and what is not
such a file is refused with the file's name.
"""

import dataclasses
import io
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from simulator import load_curves
from simulator.history.rebuilding import Past
from simulator.results.outcome import Timeline
from simulator.scenario import Machine, Owner, Replica, Scenario, Usage

VERSION = 1
MOST_STEPS = 1_000_000  # 9.5 years of steps of five minutes
MOST_DOCUMENT_BYTES = 64 << 20  # a million replicas; each takes some 200 bytes of memory
_ARRAYS = ("cpu_millicores", "memory_bytes", "node_cpu_ratio", "node_memory_ratio")

_SETTINGS = tuple(field.name for field in dataclasses.fields(Scenario) if field.name != "usage")

_WRONG = (*load_curves.UNREADABLE, AttributeError, msgspec.MsgspecError)


class HistoryError(ValueError):
    """A file that is no recorded past; the text names it, what is wrong, and how to get one."""


class _Document(msgspec.Struct):
    """Everything but the arrays."""

    version: int
    name: str
    start_seconds: float
    step_seconds: float
    steps: int
    machines: tuple[Machine, ...]
    owners: tuple[Owner, ...]
    replicas: tuple[Replica, ...]
    assumptions: tuple[str, ...]
    measured_nodes: tuple[str, ...]


def save(past: Past, path: Path) -> None:
    """Write the file; OSError when it cannot be, ValueError for one that `load` would refuse as too large."""
    scenario = past.scenario
    settings = {name: getattr(scenario, name) for name in _SETTINGS}
    document = _Document(version=VERSION, measured_nodes=past.measured.nodes, **settings)
    arrays = (
        scenario.usage.cpu_millicores,
        scenario.usage.memory_bytes,
        past.measured.cpu_ratio,
        past.measured.memory_ratio,
    )
    load_curves.check_size(sum(one.size * 4 for one in arrays))
    document_bytes = np.frombuffer(msgspec.msgpack.encode(document), np.uint8)
    packed = io.BytesIO()  # first, as it takes a while: an older file of the name is not lost meanwhile
    named: dict[str, Any] = dict(zip(_ARRAYS, arrays, strict=True))
    np.savez_compressed(packed, document=document_bytes, **named)
    path.write_bytes(packed.getbuffer())


def load(path: Path) -> Past:
    """Read the file; HistoryError when it is not what `save` wrote, or damaged."""
    try:
        with load_curves.opened(path) as archive:
            packed = archive["document"]
            if packed.nbytes > MOST_DOCUMENT_BYTES:
                raise ValueError(f"its document is larger than {MOST_DOCUMENT_BYTES >> 20} MiB")
            document = msgspec.msgpack.decode(packed.tobytes(), type=_Document)
            arrays = {name: np.asarray(archive[name], np.float32) for name in _ARRAYS}
        return _past(document, arrays)
    except _WRONG as error:
        raise HistoryError(
            f"{path}: not a recorded history ({error}); expected a file that `evenload whatif --save` wrote"
        ) from error


def _past(document: _Document, arrays: dict[str, Any]) -> Past:
    if document.version != VERSION:
        raise ValueError(f"version {document.version}, expected {VERSION}")
    settings: dict[str, Any] = {name: getattr(document, name) for name in _SETTINGS}
    scenario = Scenario(usage=Usage(arrays["cpu_millicores"], arrays["memory_bytes"]), **settings)
    _check(scenario)
    measured = arrays["node_cpu_ratio"], arrays["node_memory_ratio"]
    if any(one.shape != (document.steps, len(document.measured_nodes)) for one in measured):
        raise ValueError(f"measured nodes of shape {measured[0].shape}, expected steps x nodes")
    timeline = Timeline(document.start_seconds, document.step_seconds, document.measured_nodes, *measured)
    return Past(scenario, timeline)


def _check(scenario: Scenario) -> None:
    """Every index of a replica lies in what it points to."""
    size, steps = len(scenario.usage.cpu_millicores), scenario.steps
    if not (scenario.step_seconds > 0 and 0 < steps <= MOST_STEPS and len(scenario.usage.memory_bytes) == size):
        raise ValueError(f"no steps, over {MOST_STEPS}, or use of different lengths for CPU and memory")
    for replica in scenario.replicas:
        first = max(0.0, (replica.arrives_seconds - scenario.start_seconds) // scenario.step_seconds)
        last = min(steps, (replica.leaves_seconds - scenario.start_seconds) / scenario.step_seconds)
        inside = replica.offset + first >= 0 and replica.offset + last <= size
        if not (0 <= replica.owner < len(scenario.owners) and inside):
            raise ValueError(f"replica {replica.ordinal} of owner {replica.owner} points outside of the file")
