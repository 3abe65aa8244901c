"""Free loopback ports, one per listener of a cluster.

`control_plane` asks for each by name and renders it into the argument lists; the end-to-end tests ask for those of the
services. Ports lie below the range the kernel hands out to outgoing connections and start at a random place. Each is
claimed for as long as its `Ports` lives, so that no cluster beside this one chooses it before its component has bound
it, or while that is being restarted. Another process may still take one in between: the component then dies
with "address already in use", and `processes` asks for another port and starts it again.
"""

import collections.abc
import os
import random
import socket
import typing
import weakref

FIRST, LAST = 20_000, 32_000
CLASH = ("address already in use", "Address already in use", "EADDRINUSE")
ATTEMPTS = 500


class _Claim(typing.NamedTuple):
    port: int
    descriptor: int


class Ports:
    """Names to ports; a name keeps its port until `renew`, and the claim on it until the object or process is gone."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._by_name: dict[str, _Claim] = {}
        weakref.finalize(self, _give_back, self._by_name)

    def of(self, name: str) -> int:
        """The port of a listener, chosen when it is first asked for."""
        if name not in self._by_name:
            self._by_name[name] = self._free()
        return self._by_name[name].port

    def renew(self, name: str) -> None:
        """Forgets a port that turned out to be taken."""
        if name in self._by_name:
            os.close(self._by_name.pop(name).descriptor)

    def _free(self) -> _Claim:
        for _ in range(ATTEMPTS):
            port = self._rng.randrange(FIRST, LAST)
            if (descriptor := _claimed(port)) is None:
                continue
            if is_free(port):
                return _Claim(port, descriptor)
            os.close(descriptor)
        raise OSError(f"no free loopback port between {FIRST} and {LAST} after {ATTEMPTS} attempts")


class FixedPorts(Ports):
    """Ports that are given, for components that have a network of their own."""

    def __init__(self, by_name: collections.abc.Mapping[str, int]) -> None:
        super().__init__(random.SystemRandom())  # never asked
        self._ports_by_name = by_name

    def of(self, name: str) -> int:
        """The port given to a listener."""
        return self._ports_by_name[name]


def own_address() -> str:
    """This machine's address beside loopback, to which kube-apiserver never proxies. OSError without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # for documentation only (RFC 5737); connecting sends nothing
        return str(probe.getsockname()[0])


def is_free(port: int) -> bool:
    """Whether the loopback port can be bound now."""
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # a socket in TIME_WAIT is no obstacle for Go's listeners
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _claimed(port: int) -> int | None:
    """Claims a port: the descriptor that holds the claim, None when another `Ports` of this machine has it.

    The claim is an abstract Unix socket named after the port (unix(7)): one holder per network namespace, as with the
    port itself, nothing on disk, and the kernel ends it with the process.
    """
    with socket.socket(socket.AF_UNIX) as claim:
        try:
            claim.bind(f"\0evenload-port-{port}")
        except OSError:
            return None
        return claim.detach()


def _give_back(claims: dict[str, _Claim]) -> None:
    while claims:
        os.close(claims.popitem()[1].descriptor)
