"""The client: every byte that comes back, as it was sent, and none of it in another exchange."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from containers.client import Connection, NoAnswer
from containers.exchange import Request, Response

if TYPE_CHECKING:
    import socket
    import threading
    from collections.abc import Callable, Iterator

LENGTH_4 = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
SEEN_WITHIN_S = 5.0


def request(method: str = "POST", body: bytes = b"") -> Request:
    return Request(method=method, target="/a", headers=(("host", "x.example"),), body=body)


@pytest.fixture
def connected() -> Iterator[Callable[..., Connection]]:
    """Give a function that connects to a server."""
    made: list[Connection] = []

    def connection(url: str, limit_s: float = 5.0) -> Connection:
        made.append(Connection(url, limit_s))
        return made[-1]

    yield connection
    for each in made:
        each.close()


@pytest.fixture
def got(serve: Any, connected: Any) -> Callable[[bytes], tuple[Response, Connection]]:
    """Give a function that makes one exchange, in which the server sends some bytes."""

    def exchanged(sent: bytes) -> tuple[Response, Connection]:
        server = serve(lambda connection, _over: connection.sendall(sent))
        connection = connected(server.url)
        return connection.exchange(request()), connection

    return exchanged


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "none such"])
def test_t25_a_body_is_what_was_sent_whatever_its_content_encoding(got: Any, coding: str) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {coding}\r\ncontent-length: 4\r\n\r\n"
    response, _ = got(head.encode() + b"\x1f\x8bno")
    assert response.body == b"\x1f\x8bno"
    assert ("content-encoding", coding) in response.headers


def test_repeated_headers_stay_repeated(got: Any) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\ncontent-encoding: br\r\n"
    response, _ = got(head + b"x-a: \xc3\xa9\r\nx-b: \xe9\r\ncontent-length: 0\r\n\r\n")
    assert response.headers[:4] == (
        *(("content-encoding", "gzip"), ("content-encoding", "br")),
        *(("x-a", "\u00e9"), ("x-b", "\u00e9")),
    )


@pytest.mark.parametrize("answer", [LENGTH_4, CHUNKED], ids=["content-length", "chunked"])
@pytest.mark.parametrize("more", [b"", b" and more", LENGTH_4, b"\x00" * 300_000])
def test_t36_what_follows_the_end_is_kept_apart_from_the_body(
    got: Any, answer: bytes, more: bytes
) -> None:
    response, connection = got(answer + more)
    assert response.body == b"body"
    deadline = time.monotonic() + SEEN_WITHIN_S
    while len(connection.trailing()) < len(more) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert connection.trailing() == more
    assert more.startswith(response.trailing)


@pytest.mark.parametrize("status", [204, 304])
def test_t36_a_body_where_the_status_has_none_follows_the_end(got: Any, status: int) -> None:
    response, connection = got(f"HTTP/1.1 {status} X\r\ncontent-length: 4\r\n\r\nbody".encode())
    assert (response.status, response.body) == (status, b"")
    assert connection.trailing() == b"body"


def test_t36_a_body_after_a_head_request_follows_the_end(serve: Any, connected: Any) -> None:
    connection = connected(serve(lambda peer, _over: peer.sendall(LENGTH_4)).url)
    assert connection.exchange(request("HEAD")).body == b""
    assert connection.trailing() == b"body"


def test_t36_what_follows_later_is_there_when_it_is_asked_for(serve: Any, connected: Any) -> None:
    def late(peer: socket.socket, over: threading.Event) -> None:
        peer.sendall(LENGTH_4)
        over.wait(0.1)
        peer.sendall(b"more")

    connection = connected(serve(late).url)
    assert connection.exchange(request()).trailing == b""
    assert connection.trailing() == b"more"


def test_interim_responses_are_not_the_response(got: Any) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n"
    response, _ = got(interim + LENGTH_4)
    assert (response.status, response.body, response.trailing) == (200, b"body", b"")


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\n", "without a response"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nbody", "received 4 bytes, expected 9"),
        (CHUNKED[:-5], "incomplete chunked read"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\ncontent-length: 9\r\n\r\nbody", "conflicting"),
    ],
)
def test_a_response_that_is_none_says_what_is_wrong(got: Any, sent: bytes, said: str) -> None:
    with pytest.raises(NoAnswer, match=said) as caught:
        got(sent)
    assert not caught.value.waited


def test_a_response_that_ends_before_its_content_length_says_how_much_came(
    serve: Any, connected: Any
) -> None:
    def short(peer: socket.socket, over: threading.Event) -> None:
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 23\r\n\r\n{}")
        over.wait(5)

    with pytest.raises(NoAnswer, match="2 of the 23 bytes") as caught:
        connected(serve(short).url, 0.2).exchange(request())
    assert caught.value.waited


def test_t24_a_large_body_goes_and_comes_whole(serve: Any, connected: Any) -> None:
    body = bytes(range(256)) * 40_000
    sent = b"POST /a HTTP/1.1\r\nhost: x.example\r\n\r\n" + body

    def echo(peer: socket.socket, _over: threading.Event) -> None:
        seen = bytearray(server.requests[0])
        while len(seen) < len(sent):
            seen += peer.recv(1 << 20)
        assert seen == sent
        peer.sendall(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)

    server = serve(echo)
    assert connected(server.url, 30).exchange(request(body=body)).body == body


def test_an_answer_to_half_a_request_is_the_answer(serve: Any, connected: Any) -> None:
    """As a gateway does that refuses a body for its size."""

    def refuse(peer: socket.socket, _over: threading.Event) -> None:
        peer.sendall(b"HTTP/1.1 413 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        while peer.recv(1 << 20):
            pass

    response = connected(serve(refuse).url).exchange(request(body=b"x" * 10_000))
    assert response.status == 413
