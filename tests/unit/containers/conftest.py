"""A local server whose every answer a test writes itself, byte by byte."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Behaviour = Callable[[socket.socket, threading.Event], None]


class Server:
    """Takes connections and hands each to a behaviour, with the event that says the test is over.

    Attributes:
        requests: What the first read of each connection gave.
    """

    def __init__(self, listener: socket.socket, behaviour: Behaviour) -> None:
        self.url = "http://{}:{}".format(*listener.getsockname())
        self.requests: list[bytes] = []
        self._listener = listener
        self._behaviour = behaviour
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        """End every connection, then the server."""
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(5)
            self.requests.append(connection.recv(65536))
            self._behaviour(connection, self._over)


@pytest.fixture
def serve() -> Iterator[Callable[[Behaviour], Server]]:
    """Give a function that starts a server with a behaviour."""
    with contextlib.ExitStack() as stack:

        def started(behaviour: Behaviour) -> Server:
            listener = socket.create_server(("127.0.0.1", 0))
            server = Server(listener, behaviour)
            stack.callback(server.close)
            return server

        yield started


@pytest.fixture
def answering() -> Callable[[str, bytes], Behaviour]:
    """Give a function that makes the behaviour of one whole HTTP answer."""

    def behaviour(status: str, body: bytes) -> Behaviour:
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        return lambda connection, _over: connection.sendall(head.encode() + body)

    return behaviour
