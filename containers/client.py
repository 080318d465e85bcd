"""The client of a cell: one request on a connection of its own, and every byte that comes back.

A plugin that lengthens an answer and leaves its content-length sends bytes beyond the end of it. On
a connection that is used again these would be the beginning of the next answer. Nothing is decoded:
a body is recorded as it was sent.
"""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING

import h11

from containers.exchange import Response
from wasm.records import sha256_of

if TYPE_CHECKING:
    from containers.exchange import Headers, Request

_PART_BYTES = 1 << 18
_CLOSED_WITHIN_S = 0.5
# More than Envoy takes of a plugin's headers (60 KiB).
_HEAD_BYTES = 1 << 20


class NoAnswer(Exception):  # noqa: N818 - it is an observation, not an error of ours
    """A client request that got no response: what was seen instead, in a sentence.

    Attributes:
        waited: Whether the time limit ran out, rather than the connection.
    """

    def __init__(self, sentence: str, *, waited: bool = False) -> None:
        super().__init__(sentence)
        self.waited = waited


class Connection:
    """A connection to a listener of the gateway, for one exchange.

    Args:
        url: The listener's.
        limit_s: For the exchange, in seconds.
    """

    def __init__(self, url: str, limit_s: float) -> None:
        self._limit_s = limit_s
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
        self._head: h11.Response | None = None
        self._body = bytearray()
        self._trailing = bytearray()
        self._deadline = time.perf_counter() + limit_s
        host, _, port = url.removeprefix("http://").rpartition(":")
        self._socket = socket.socket()
        self._socket.settimeout(limit_s)
        try:
            self._socket.connect((host, int(port)))
        except OSError as error:
            self._socket.close()
            raise NoAnswer(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def exchange(self, request: Request) -> Response:
        """Send a request, these headers and no others, and read the response to its end.

        Raises:
            NoAnswer: There was no complete response within the time limit.
        """
        start = time.perf_counter()
        try:
            self._send(request)
            head = self._read()
        except TimeoutError as error:
            raise NoAnswer(self._so_far(), waited=True) from error
        except (OSError, h11.RemoteProtocolError) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        self._trailing += self._parser.trailing_data[0]
        body = bytes(self._body)
        return Response(
            status=head.status_code,
            headers=_headers(head),
            body=body,
            body_sha256=sha256_of(body),
            trailing=bytes(self._trailing),
            seconds=time.perf_counter() - start,
        )

    def trailing(self) -> bytes:
        """Return what has come by now after the end of the response."""
        # The gateway closes a connection that its client has closed, once it has written all of it.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(_CLOSED_WITHIN_S)
            while part := self._socket.recv(_PART_BYTES):
                self._trailing += part
        return bytes(self._trailing)

    def _send(self, request: Request) -> None:
        # The parser has to know what it was that is answered; what is sent it need not judge.
        self._parser.send(h11.Request(method=request.method, target="/", headers=[("host", "x")]))
        self._parser.send(h11.EndOfMessage())
        lines = [f"{request.method} {request.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in request.headers]
        head = "\r\n".join([*lines, "", ""]).encode()
        # A gateway that refuses a body answers before it has read it all, and closes.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(head + request.body)

    def _read(self) -> h11.Response:
        while True:
            event = self._parser.next_event()
            if event is h11.NEED_DATA:
                self._parser.receive_data(self._received())
            elif isinstance(event, h11.Response):
                self._head = event
            elif isinstance(event, h11.Data):
                self._body += event.data
            elif isinstance(event, h11.EndOfMessage) and self._head is not None:
                return self._head

    def _received(self) -> bytes:
        left_s = self._deadline - time.perf_counter()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)
        part = self._socket.recv(_PART_BYTES)
        if not part and self._head is None:
            raise h11.RemoteProtocolError("the gateway closed the connection without a response")
        return part

    def _so_far(self) -> str:
        if self._head is None:
            return f"no response within {self._limit_s:g} s"
        announced = dict(_headers(self._head)).get("content-length")
        got = f"{len(self._body)} bytes so far"
        if announced:
            got = f"{len(self._body)} of the {announced} bytes that its content-length announces"
        return f"no complete response within {self._limit_s:g} s, {got}"


def _headers(head: h11.Response) -> Headers:
    return tuple((_text(name), _text(value)) for name, value in head.headers)


def _text(value: bytes) -> str:
    """Return a header's name or value; every byte is a character where it is no UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
