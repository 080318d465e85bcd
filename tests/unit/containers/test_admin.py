"""What a gateway's admin interface is asked, and what is said when it falls silent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from containers import admin
from wasm.foundation.errors import GatewayError

PROJECT = Path(__file__).resolve().parents[3]
REFUSING = "http://127.0.0.1:1"


def silent() -> None:
    with admin.explained(lambda: None, lambda: ""):
        admin.envoy_version(REFUSING)


def test_an_interface_that_falls_silent_is_told_as_that() -> None:
    with pytest.raises(GatewayError) as caught:
        silent()
    assert caught.value.sentence == (
        "the gateway said LIVE, then its admin interface did not answer /server_info "
        "(ConnectError: [Errno 111] Connection refused); expected an answer; see logs/gateway.log "
        "of this run"
    )


def test_an_interface_that_fell_silent_since_its_gateway_ended_is_told_by_that_end() -> None:
    def ended() -> None:
        with admin.explained(lambda: "the gateway exited with status 7", lambda: "last\nlines"):
            admin.envoy_version(REFUSING)

    with pytest.raises(GatewayError) as caught:
        ended()
    assert caught.value.sentence == "the gateway exited with status 7"
    assert caught.value.detail == "last\nlines"


def test_what_the_gateway_counted_is_kept(serve: Any, answering: Any, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    admin.snapshot(serve(answering("200 OK", b"one: 1\n")).url, tmp_path)
    kept = {each.name: each.read_text() for each in (tmp_path / "logs").iterdir()}
    assert kept == dict.fromkeys(admin._SNAPSHOTS, "one: 1\n")


def test_a_gateway_that_is_mute_costs_one_time_limit_and_not_one_for_each_file(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "_ADMIN_S", 0.5)
    (tmp_path / "logs").mkdir()
    server = serve(lambda _connection, over: over.wait(20))
    start = time.monotonic()
    admin.snapshot(server.url, tmp_path)
    assert time.monotonic() - start < 0.5 * len(admin._SNAPSHOTS)
    assert len(server.requests) == 1
    kept = {each.name: each.read_text() for each in (tmp_path / "logs").iterdir()}
    assert kept == dict.fromkeys(admin._SNAPSHOTS, "not available: ReadTimeout\n")


def test_what_the_gateway_counted_is_utf8_wherever_it_is_kept(
    serve: Any, answering: Any, tmp_path: Path
) -> None:
    """A process whose locale is plain ASCII, and that Python is kept from making UTF-8."""
    (tmp_path / "logs").mkdir()
    server = serve(answering("200 OK", "caf\u00e9: 1\n".encode()))
    program = (
        "import pathlib, sys; from containers import admin; "
        "admin.snapshot(sys.argv[1], pathlib.Path(sys.argv[2]))"
    )
    subprocess.run(
        [sys.executable, "-c", program, server.url, str(tmp_path)],
        cwd=PROJECT,
        env=os.environ | {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        check=True,
    )
    kept = {each.name: each.read_bytes() for each in (tmp_path / "logs").iterdir()}
    assert kept == dict.fromkeys(admin._SNAPSHOTS, "caf\u00e9: 1\n".encode())
