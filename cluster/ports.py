"""Free loopback ports, one per listener of a cluster.

`control_plane` asks for each by name and renders it into the argument lists. Ports lie below the range the kernel
hands out to outgoing connections, start at a random place and are bound once to see that they are free. Between that
and the component's own bind, and while a component is restarted, nobody listens there: so whoever chooses a port here
also binds the UDP port of that number and keeps it until the process ends, and others who choose here pass it by. A
stranger may still take one: the component then dies with "address already in use", and `processes` asks for another
port and starts it again.
"""

import random
import socket

FIRST, LAST = 20_000, 32_000
CLASH = ("address already in use", "Address already in use", "EADDRINUSE")
ATTEMPTS = 500


class Ports:
    """Names to ports; a name keeps its port until `renew`."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._by_name: dict[str, int] = {}

    def of(self, name: str) -> int:
        """The port of a listener, chosen when it is first asked for."""
        if name not in self._by_name:
            self._by_name[name] = self._free()
        return self._by_name[name]

    def renew(self, name: str) -> None:
        """Forgets a port that turned out to be taken."""
        self._by_name.pop(name, None)

    def _free(self) -> int:
        for _ in range(ATTEMPTS):
            port = self._rng.randrange(FIRST, LAST)
            if is_free(port) and _reserved(port):
                return port
        raise OSError(f"no free loopback port between {FIRST} and {LAST} after {ATTEMPTS} attempts")


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


def _reserved(port: int) -> bool:
    """Whether the port is ours from now on, among all that choose by this module, until this process ends."""
    with socket.socket(type=socket.SOCK_DGRAM) as held:
        try:
            held.bind(("127.0.0.1", port))
        except OSError:
            return False
        held.detach()  # the bare descriptor stays open, and children do not inherit it
    return True
