"""Kubernetes quantities as plain numbers: "250m" cores as millicores, "1Gi" as bytes.

`kube.objects` reads requests and allocatable through it. The library's parser does the work; it also takes what
Kubernetes does not ("NaN", "Infinity", "1_0"), which is refused here first. Texts repeat a lot across pods, so results
are remembered.
"""

import functools
import math
import re

REMEMBERED_CHARACTERS = 64  # the apiserver writes some 20; a client may send megabytes of zeros before a 1
_WRITTEN = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3}|[numkMGTPE]|[KMGTPE]i)?", re.ASCII)


def cpu_millicores(text: str) -> float:
    """CPU as millicores: "250m" is 250.0, "2" is 2000.0. ValueError names the text."""
    return _scaled(text, 1000)


def amount(text: str) -> float:
    """Any other resource in its base unit (pieces, bytes): "1Gi" is 1073741824.0. ValueError names the text."""
    return _scaled(text, 1)


def _scaled(text: str, scale: int) -> float:
    """The quantity times `scale`, remembered unless thousands of such texts would fill the memory."""
    return _remembered(text, scale) if len(text) <= REMEMBERED_CHARACTERS else parsed(text, scale)


def parsed(text: str, scale: int) -> float:
    """The quantity times `scale`, multiplied before it becomes a float so that "1.001" cores are 1001.0 millicores.

    Not remembered, for measured amounts: each is another one. ValueError names the text.
    """
    if not _WRITTEN.fullmatch(text):
        raise ValueError(f"quantity {text!r}: expected a number with a Kubernetes suffix, as 250m, 2, 1Gi or 500M")
    from kubernetes.utils import quantity  # half a second: only processes that read quantities pay for it

    scaled = float(quantity.parse_quantity(text) * scale)
    if math.isinf(scaled):
        raise ValueError(f"quantity {text!r}: expected an amount that a machine can have")
    return scaled


_remembered = functools.lru_cache(maxsize=8192)(parsed)
