"""A way to a server that a test can cut: what is under way breaks, and what comes is refused.

with Proxy(port) as proxy:
...  # connect to proxy.port
proxy.cut()
proxy.mend()

With several ports it is a balancer: each connection goes to the next of them that takes it.
"""

import itertools
import socket
import threading
from contextlib import suppress
from typing import Self

_PIECE = 1 << 16


class Proxy:
    """Passes connections to a port of this machine on, or to one of several, until it is cut."""

    def __init__(self, *targets: int) -> None:
        self._targets, self._turns = targets, itertools.count()
        self.port = 0
        self._listening: socket.socket | None = None
        self._open = set[socket.socket]()
        self._guard = threading.Lock()

    def __enter__(self) -> Self:
        self.mend()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    def mend(self) -> None:
        """Lets connections through, on the port that it had before."""
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", self.port))
        listening.listen()
        self.port, self._listening = listening.getsockname()[1], listening
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def cut(self) -> None:
        """Ends all connections, and refuses new ones."""
        with self._guard:
            listening, self._listening = self._listening, None
            ended, self._open = self._open, set[socket.socket]()
        if listening is not None:
            with suppress(OSError):  # Wakes who waits for the next connection.
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()
        for each in ended:
            _end(each)

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listening.accept()
                far = self._connect()
                if far is None:
                    near.close()
                    continue
                with self._guard:
                    is_open = self._listening is listening
                    if is_open:
                        self._open |= {near, far}
                if not is_open:
                    _end(near)
                    _end(far)
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _connect(self) -> socket.socket | None:
        first = next(self._turns)
        for each in range(len(self._targets)):
            target = self._targets[(first + each) % len(self._targets)]
            with suppress(OSError):
                return socket.create_connection(("127.0.0.1", target))
        return None

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                target.sendall(piece)
        with self._guard:
            self._open -= {source, target}
        for each in (source, target):
            _end(each)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
