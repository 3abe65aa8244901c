"""A TCP address in front of others: what a Service does with replicas, and a wire that a test can freeze."""

import contextlib
import itertools
import socket
import threading
from typing import Final

_CHUNK_BYTES: Final = 65536


class Forwarder:
    """Listens on a `port` of the loopback or of `address` in its `with` block; `connections` counts by target."""

    def __init__(self, *targets: int, address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self._targets = itertools.cycle(targets)
        self._withdrawn: set[int] = set()
        self._flowing = threading.Event()
        self._flowing.set()
        self._listener = socket.create_server(address)
        self._sockets: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self.port: int = self._listener.getsockname()[1]
        self.connections = dict.fromkeys(targets, 0)

    def withdraw(self, target: int) -> None:
        """Sends new connections to the other target; those there are stay, as where a Service loses an endpoint."""
        self._withdrawn.add(target)

    def restore(self, target: int) -> None:
        """New connections go to this one again."""
        self._withdrawn.discard(target)

    def freeze(self) -> None:
        """Nothing passes any more, and nobody is told: connections stay open."""
        self._flowing.clear()

    def thaw(self) -> None:
        """What was held passes, and everything after it."""
        self._flowing.set()

    def __enter__(self) -> "Forwarder":
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.thaw()
        _end(self._listener)
        self._accepting.join()  # after it nobody adds a connection that would stay open
        for one in self._sockets:
            _end(one)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                if self._listener.fileno() < 0:  # closed: the test is over
                    return
                continue
            self._sockets.append(client)
            target = next(one for one in self._targets if one not in self._withdrawn)
            try:
                server = socket.create_connection(("127.0.0.1", target))
            except OSError:  # the target is down: the client sees its connection end
                _end(client)
                continue
            self.connections[target] += 1
            self._sockets.append(server)
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):  # either side went away: so does the other
            while chunk := source.recv(_CHUNK_BYTES):
                self._flowing.wait()
                sink.sendall(chunk)
        for one in (source, sink):
            _end(one)


def _end(item: socket.socket) -> None:
    with contextlib.suppress(OSError):  # closed already
        item.shutdown(socket.SHUT_RDWR)
    item.close()
