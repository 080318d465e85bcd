"""When a gateway is ready, when it is not, and that waiting for it always ends."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from containers import readiness
from containers.process import processes
from containers.records import Limits
from wasm.foundation import signals
from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    import socket
    import threading
    from pathlib import Path

LIVE = b"LIVE\n"


def wait_for(url: str | None, ready_s: float = 5.0, probe_s: float = 1.0) -> float:
    limits = Limits(ready_s=ready_s, probe_s=probe_s)
    return readiness.await_live(lambda: url, lambda: None, lambda: "last line", limits)


def refusal(url: str | None, ready_s: float, probe_s: float) -> tuple[GatewayError, float]:
    """Wait for what never gets ready; return the error and the seconds it took."""
    start = time.monotonic()
    with pytest.raises(GatewayError) as caught:
        wait_for(url, ready_s, probe_s)
    return caught.value, time.monotonic() - start


def test_live_is_ready_at_the_first_probe(serve: Any, answering: Any) -> None:
    server = serve(answering("200 OK", LIVE))
    assert 0 <= wait_for(server.url) < 1
    assert len(server.requests) == 1
    assert server.requests[0].startswith(b"GET /ready HTTP/1.1\r\n")


def test_the_seconds_returned_are_those_it_took(serve: Any, answering: Any) -> None:
    start = time.monotonic()

    def later(connection: socket.socket, over: threading.Event) -> None:
        ready = time.monotonic() - start > 0.5
        answering(*(("200 OK", LIVE) if ready else ("503 No", b"INITIALIZING\n")))(connection, over)

    url = serve(later).url
    began = time.monotonic()
    took_s = wait_for(url)
    assert 0.5 - (began - start) <= took_s <= time.monotonic() - began


def test_t11_a_mute_admin_port_is_asked_again_until_it_says_live(
    serve: Any, answering: Any
) -> None:
    start = time.monotonic()

    def mute_at_first(connection: socket.socket, over: threading.Event) -> None:
        if time.monotonic() - start < 2.0:
            over.wait(20)
        else:
            answering("200 OK", LIVE)(connection, over)

    server = serve(mute_at_first)
    began = time.monotonic()
    took_s = wait_for(server.url, ready_s=20, probe_s=0.4)
    assert 2.0 - (began - start) <= took_s < 10
    assert len(server.requests) >= 4


def test_t1_what_never_gets_ready_is_given_up_within_the_limit_and_one_probe(
    serve: Any,
) -> None:
    error, took_s = refusal(
        serve(lambda _connection, over: over.wait(20)).url, ready_s=3, probe_s=0.5
    )
    assert 3.0 <= took_s < 4.5
    assert error.sentence == (
        "the gateway was not ready after 3 s; expected LIVE from its admin interface, the last "
        "answer was: none within 0.5 s; its last log lines are above"
    )
    assert error.detail == "last line"


def test_an_answer_that_trickles_in_does_not_prolong_a_probe(serve: Any) -> None:
    def trickling(connection: socket.socket, over: threading.Event) -> None:
        for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"y" * 1000:
            connection.sendall(bytes([byte]))
            if over.wait(0.05):
                return

    error, took_s = refusal(serve(trickling).url, ready_s=0.3, probe_s=0.5)
    assert took_s < 2.0
    assert "none within 0.5 s" in error.sentence


def test_an_answer_without_end_is_not_read_to_its_end(serve: Any) -> None:
    def endless(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not over.is_set():
            connection.sendall(b"LIVE" * 1000)

    error, took_s = refusal(serve(endless).url, ready_s=0.3, probe_s=5)
    assert took_s < 2.0
    assert "the last answer was: status 200, 'LIVELIVE" in error.sentence
    assert len(error.sentence) < 500


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        ("200 OK", b"PRE_INITIALIZING\n", "status 200, 'PRE_INITIALIZING'"),
        ("200 OK", b"", "status 200, ''"),
        ("200 OK", b"ALIVE", "status 200, 'ALIVE'"),
        ("200 OK", b"live", "status 200, 'live'"),
        ("200 OK", b"\xff", "status 200, '\ufffd'"),
        ("503 No", LIVE, "status 503, 'LIVE'"),
        ("204 No Content", b"", "status 204, ''"),
        ("301 Moved", LIVE, "status 301, 'LIVE'"),
    ],
)
def test_anything_but_200_with_live_is_not_ready(
    serve: Any, answering: Any, status: str, body: bytes, said: str
) -> None:
    server = serve(answering(status, body))
    error, _ = refusal(server.url, ready_s=0.2, probe_s=1)
    assert f"the last answer was: {said};" in error.sentence
    assert len(server.requests) >= 2


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "RemoteProtocolError: "),
        (b"\x00\x01\x02 LIVE\r\n\r\n", "RemoteProtocolError: "),
        (b"LIVE", "RemoteProtocolError: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nLIVE", "RemoteProtocolError: "),
    ],
)
def test_garbage_is_not_ready_and_is_asked_again(serve: Any, answer: bytes, said: str) -> None:
    server = serve(lambda connection, _over: connection.sendall(answer))
    error, _ = refusal(server.url, ready_s=0.2, probe_s=1)
    assert f"the last answer was: {said}" in error.sentence
    assert len(server.requests) >= 2


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (None, "the last answer was: the admin interface is not open yet;"),
        ("http://127.0.0.1:1", "the last answer was: ConnectError: "),
        ("http://", "the last answer was: "),
    ],
)
def test_an_address_that_is_not_there_yet_is_waited_for(url: str | None, said: str) -> None:
    error, took_s = refusal(url, ready_s=0.2, probe_s=1)
    assert said in error.sentence
    assert took_s < 1.5


def test_a_gateway_that_has_ended_is_not_asked(serve: Any, answering: Any) -> None:
    server = serve(answering("200 OK", LIVE))
    with pytest.raises(GatewayError) as caught:
        readiness.await_live(
            lambda: server.url, lambda: "exited with status 3", lambda: "line\nlast", Limits()
        )
    assert caught.value.sentence == (
        "the gateway exited with status 3 before it was ready; expected LIVE from its admin "
        "interface; its last log lines are above"
    )
    assert caught.value.detail == "line\nlast"
    assert server.requests == []


def test_t2_waiting_ends_with_the_process_and_names_its_status_and_last_lines(
    tmp_path: Path,
) -> None:
    lines = "import sys, time; time.sleep(0.3); print(*range(99), sep='\\n', file=sys.stderr)"
    argv = [sys.executable, "-c", f"{lines}; sys.exit(3)"]
    start = time.monotonic()
    with (
        pytest.raises(GatewayError) as caught,
        processes.running("gateway", argv, tmp_path / "gateway.log", 1, []) as child,
    ):
        readiness.await_live(lambda: None, lambda: child.end, child.last_lines, Limits(ready_s=60))
    assert time.monotonic() - start < 10
    assert "the gateway exited with status 3 before it was ready" in caught.value.sentence
    assert caught.value.detail.splitlines() == [str(n) for n in range(87, 99)]


def test_an_interrupt_that_was_lost_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python drops what is raised in ``__del__``; then a wait of minutes would go on."""

    def took() -> str:
        monkeypatch.setattr(signals, "_taken", [15])
        return "http://127.0.0.1:1"

    with pytest.raises(KeyboardInterrupt):
        readiness.await_live(took, lambda: None, lambda: "", Limits(ready_s=5))
