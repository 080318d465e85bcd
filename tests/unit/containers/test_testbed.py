"""What a testbed sends and asks, and what it says when nothing comes back."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from containers.client import NoAnswer
from containers.endings import Ending
from containers.exchange import Request
from containers.records import Cleanup, Limits, ProcessSeen, TestbedFacts
from containers.testbed import FileLog, Testbed
from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from containers.listeners import Listeners

REFUSING = "http://127.0.0.1:1"


@pytest.fixture
def testbed(tmp_path: Path) -> Iterator[Callable[..., Testbed]]:
    """Give a function that makes a testbed of two addresses."""
    made: list[Testbed] = []

    def make(
        gateway: str = REFUSING,
        control: str = REFUSING,
        exchange_s: float = 5.0,
        look_for_end: Callable[[], str | None] = lambda: None,
    ) -> Testbed:
        made.append(
            Testbed(
                facts=cast("TestbedFacts", None),
                limits=Limits(exchange_s=exchange_s),
                gateway_urls={"one": gateway},
                control_url=control,
                upstream_address="127.0.0.1:2",
                listeners=cast("Listeners", None),
                gateway_log=FileLog(tmp_path / "gateway.log"),
                access_log=FileLog(tmp_path / "access.log"),
                look_for_end=look_for_end,
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.close_clients()


def request(target: str = "/v1/videos", body: bytes = b"") -> Request:
    return Request(method="POST", target=target, headers=(("x-request-id", "a/1"),), body=body)


# --- The client's side --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    ["/v1/videos?trace=1", "/a/../b//c", "/a?x=%41%2f&y=|{}\"'", "/a#b", "/a?", "/%zz"],
)
def test_a_target_reaches_the_gateway_as_it_is_written(
    serve: Any, answering: Any, testbed: Any, target: str
) -> None:
    server = serve(answering("200 OK", b"{}"))
    testbed(server.url).send("one", request(target))
    assert server.requests[0].split(b"\r\n")[0] == f"POST {target} HTTP/1.1".encode()


def test_exactly_the_recorded_request_is_sent_and_no_header_on_top(
    serve: Any, answering: Any, testbed: Any
) -> None:
    """What a run records as sent is what the gateway gets."""
    server = serve(answering("200 OK", b"{}"))
    headers = (("host", "x.example"), ("accept", "*/*"), ("content-length", "2"), ("x-a", "1"))
    sent = Request(method="POST", target="/a", headers=(*headers, ("x-a", "2")), body=b"{}")
    testbed(server.url).send("one", sent)
    head, _, _ = server.requests[0].partition(b"\r\n\r\n")
    assert head == (
        b"POST /a HTTP/1.1\r\nhost: x.example\r\naccept: */*\r\ncontent-length: 2\r\n"
        b"x-a: 1\r\nx-a: 2"
    )


def test_a_response_is_kept_whole(serve: Any, testbed: Any) -> None:
    body = bytes(range(256)) * 1000
    head = (
        f"HTTP/1.1 503 No\r\nSet-Cookie: a\r\nset-cookie: b\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    server = serve(lambda connection, _over: connection.sendall(head.encode() + body))
    response = testbed(server.url).send("one", request())
    assert response.status == 503
    assert response.headers[:2] == (("set-cookie", "a"), ("set-cookie", "b"))
    assert response.body == body
    assert response.body_sha256 == hashlib.sha256(body).hexdigest()
    assert 0 < response.seconds < 5


def test_a_redirect_is_the_response_and_is_not_followed(serve: Any, testbed: Any) -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
    server = serve(lambda connection, _over: connection.sendall(answer))
    assert testbed(server.url).send("one", request()).status == 302
    assert len(server.requests) == 1


def test_a_proxy_of_the_environment_is_not_used(
    serve: Any, answering: Any, testbed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, REFUSING)
    server = serve(answering("200 OK", b"{}"))
    assert testbed(server.url).send("one", request()).status == 200


def silence(testbed: Testbed) -> tuple[str, float]:
    start = time.monotonic()
    with pytest.raises(NoAnswer) as caught:
        testbed.send("one", request())
    return str(caught.value), time.monotonic() - start


def test_no_response_within_the_limit_is_no_answer(serve: Any, testbed: Any) -> None:
    server = serve(lambda _connection, over: over.wait(20))
    said, took_s = silence(testbed(server.url, exchange_s=0.5))
    assert said == "no response within 0.5 s"
    assert 0.5 <= took_s < 3


def test_a_response_that_trickles_in_is_no_answer_either(serve: Any, testbed: Any) -> None:
    def trickling(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while not over.wait(0.1):
            connection.sendall(b"x")

    said, took_s = silence(testbed(serve(trickling).url, exchange_s=0.5))
    assert said.startswith("no complete response within 0.5 s, ")
    assert said.endswith(" of the 1000 bytes that its content-length announces")
    assert took_s < 3


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "RemoteProtocolError: the gateway closed the connection without a response"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "RemoteProtocolError: peer closed"),
        (b"garbage\r\n\r\n", "RemoteProtocolError: "),
    ],
)
def test_a_broken_response_is_no_answer(serve: Any, testbed: Any, answer: bytes, said: str) -> None:
    server = serve(lambda connection, _over: connection.sendall(answer))
    assert silence(testbed(server.url))[0].startswith(said)


def test_a_gateway_that_refuses_is_no_answer(testbed: Any) -> None:
    assert silence(testbed(REFUSING))[0] == "ConnectionRefusedError: [Errno 111] Connection refused"


# --- The upstream's side ------------------------------------------------------------------------


def test_installing_a_script_gives_the_epoch(serve: Any, answering: Any, testbed: Any) -> None:
    server = serve(answering("200 OK", b'{"epoch": 7}'))
    assert testbed(control=server.url).install({"steps": []}) == 7
    assert server.requests[0].startswith(b"PUT /script HTTP/1.1\r\n")


def test_a_refusal_of_the_upstream_is_told_in_its_words(
    serve: Any, answering: Any, testbed: Any
) -> None:
    server = serve(answering("409 No", b'{"error": "epoch 3 is over"}'))
    with pytest.raises(GatewayError) as caught:
        testbed(control=server.url).journal(3)
    assert caught.value.sentence == (
        "the upstream refused GET /journal?epoch=3&settle_ms=2000: epoch 3 is over"
    )


def test_an_upstream_that_is_gone_is_told_by_what_ended(testbed: Any) -> None:
    said = "the upstream exited with status 3 before the matrix was done"
    with pytest.raises(GatewayError) as caught:
        testbed(look_for_end=lambda: said).install({})
    assert caught.value.sentence == said


def test_what_ended_is_asked_for_until_something_has_and_then_nobody_is_asked_any_more(
    serve: Any, answering: Any, testbed: Any
) -> None:
    server = serve(answering("200 OK", b'{"epoch": 7}'))
    said = iter([None, "the gateway exited with status 3"])
    bed = testbed(control=server.url, look_for_end=lambda: next(said))
    assert bed.trouble() is None
    assert bed.install({}) == 7
    assert [bed.trouble(), bed.trouble()] == ["the gateway exited with status 3"] * 2
    for ask, of in ((bed.install, {}), (bed.journal, 7)):
        with pytest.raises(GatewayError) as caught:
            ask(of)
        assert caught.value.sentence == "the gateway exited with status 3"
    assert len(server.requests) == 1


def test_an_upstream_that_is_silent_is_told_as_that(testbed: Any) -> None:
    with pytest.raises(GatewayError) as caught:
        testbed().install({})
    assert caught.value.sentence == (
        "the upstream's control port did not answer (ConnectionRefusedError); expected it to live "
        "as long as the gateway; see logs/upstream.log of this run"
    )


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"other": 1}'])
def test_an_answer_that_is_not_the_upstreams_is_an_error_of_the_testbed(
    serve: Any, answering: Any, testbed: Any, body: bytes
) -> None:
    server = serve(answering("200 OK", body))
    with pytest.raises(GatewayError) as caught:
        testbed(control=server.url).install({})
    assert caught.value.sentence.startswith(
        "the upstream's control port gave no answer of ours to PUT /script"
    )
    with pytest.raises(GatewayError, match="no answer of ours to GET /journal"):
        testbed(control=server.url).journal(1)


# --- The log ------------------------------------------------------------------------------------


def test_the_log_since_a_position_is_what_came_after_it(testbed: Any) -> None:
    bed = testbed()
    assert bed.log_position() == 0
    assert bed.log_since(0) == ""
    bed.gateway_log.path.write_bytes(b"before\n")
    position = bed.log_position()
    with bed.gateway_log.path.open("ab") as log:
        log.write(b"after \xff\n")
    assert bed.log_since(position) == "after \ufffd\n"


LINE = '{"request_id":"a/1","flags":"-","details":"via_upstream","status":200}\n'
OTHERS = '{"request_id":"b/1","flags":"UH","details":"no_healthy_upstream"}\n{"request_id":null,"fl'


def test_how_a_request_ended_is_in_its_line_of_the_access_log(
    serve: Any, answering: Any, testbed: Any
) -> None:
    bed = testbed(serve(answering("200 OK", b"{}")).url)
    bed.access_log.path.write_text(LINE.replace("via_upstream", "an earlier cell's"))
    bed.send("one", request())
    with bed.access_log.path.open("a") as log:
        log.write(LINE + OTHERS)
    assert bed.ending("a/1") == Ending(flags="-", details="via_upstream")


def test_a_line_that_comes_a_little_later_is_waited_for(
    serve: Any, answering: Any, testbed: Any
) -> None:
    bed = testbed(serve(answering("200 OK", b"{}")).url)
    bed.send("one", request())
    later = threading.Timer(0.1, lambda: bed.access_log.path.write_text(LINE))
    later.start()
    assert bed.ending("a/1") == Ending(flags="-", details="via_upstream")
    later.join()


def test_without_a_line_nothing_is_known_of_a_request_s_end(
    serve: Any, answering: Any, testbed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("containers.testbed._LOGGED_WITHIN_S", 0.05)
    bed = testbed(serve(answering("200 OK", b"{}")).url)
    bed.send("one", request())
    bed.access_log.path.write_text(OTHERS)
    assert bed.ending("a/1") is None


def test_t36_no_connection_is_used_for_two_requests(serve: Any, testbed: Any) -> None:
    def longer(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}data: usage")
        over.wait(5)

    server = serve(longer)
    bed = testbed(server.url)
    for _ in range(3):
        assert bed.send("one", request()).body == b"{}"
        assert bed.trailing() == b"data: usage"
    assert len(server.requests) == 3


# --- The proof of clean-up ----------------------------------------------------------------------

GONE = ProcessSeen(name="gateway", pid=4, exit_status=0, ended=True)
ALIVE = ProcessSeen(name="upstream", pid=5, exit_status=None, ended=False)


def test_clean_up_is_complete_when_all_was_looked_for_and_all_is_gone() -> None:
    cleanup = Cleanup(processes=[GONE], refused={"gateway one 127.0.0.1:1": True})
    assert cleanup.complete
    assert cleanup.leftovers == ()


def test_what_is_left_is_named() -> None:
    cleanup = Cleanup(
        processes=[GONE, ALIVE], refused={"gateway one 127.0.0.1:1": False, "other": True}
    )
    assert not cleanup.complete
    assert cleanup.leftovers == ("upstream (process 5)", "port of gateway one 127.0.0.1:1")


@pytest.mark.parametrize(
    "cleanup", [Cleanup(), Cleanup(processes=[GONE]), Cleanup(refused={"one": True})]
)
def test_clean_up_that_nobody_looked_at_is_not_complete(cleanup: Cleanup) -> None:
    assert not cleanup.complete
