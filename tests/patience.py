"""A Kubernetes door that waits for an apiserver which stalls.

Our services give up after ten seconds and decide anew; a test that makes one call would fail on a busy machine.
"""

import dataclasses
import os
from collections.abc import Callable, Iterable
from typing import TypeVar

from kube import config
from kube.http import client, transport
from kube.http.request import Request
from runtime import clock
from tests.e2e import waiting

T = TypeVar("T")


class Patient(transport.Transport):
    """Waits for as long as tests wait for anything."""

    def take(self, request: Request, make: Callable[[Iterable[bytes]], T]) -> T:
        """As the door's own, whatever time the request gives."""
        return super().take(dataclasses.replace(request, read_seconds=waiting.LIMIT_SECONDS), make)


def connect(kubeconfig: str | os.PathLike[str]) -> client.Client:
    """`kube.config.connect`, with patience."""
    hasty = config.connect(kubeconfig)
    return client.Client(Patient(hasty._transport._api.configuration, clock=clock.WallClock()), hasty.undecodable)
