"""A Kubernetes door that waits for an apiserver which stalls.

Our services give up on a request after ten seconds and decide anew in their next run. A test that makes one call and
says what must come of it would fail by that only because the machine is busy: the `admin` fixture and the suites that
drive the descheduler's own parts connect through here.
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
