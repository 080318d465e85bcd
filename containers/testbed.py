"""An open testbed: what the matrix may do with it, whichever engine opened it."""

from __future__ import annotations

import contextlib
import http.client
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from containers.client import Connection
from containers.endings import Ending
from containers.exchange import Journal, Request, Response
from containers.listeners import Listeners
from containers.records import Cleanup, GatewayKind, Limits, Listener, TestbedFacts, Timings
from wasm.foundation.errors import GatewayError
from wasm.records import Module

_SETTLE_MS = 2000
_LOGGED_WITHIN_S = 2.0
_LOGGED_PAUSE_S = 0.001
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a testbed is to be.

    Attributes:
        folder: Takes ``config/`` and ``logs/``; the run's own.
        gateway_image: Another image than the pinned one, for Higress' gateway.
        envoy: Envoy's program for the process engine; None for the one from PyPI.
        stop_iteration: Off only to show what a gateway without it does.
        cluster_name: Likewise: whether the adapter's filter stands before the plugin.
        adapt: Likewise: whether a module is made loadable for stock Envoy.
        upstream_port: 0 leaves the choice to the kernel.
        listener_ports: Likewise; empty for 0 each.
    """

    module: Module
    listeners: tuple[Listener, ...]
    folder: Path
    gateway: GatewayKind = GatewayKind.ENVOY
    gateway_image: str | None = None
    limits: Limits = field(default_factory=Limits)
    envoy: str | None = None
    stop_iteration: bool = True
    cluster_name: bool = True
    adapt: bool = True
    upstream_port: int = 0
    listener_ports: tuple[int, ...] = ()

    __test__ = False


class _Installed(msgspec.Struct, frozen=True):
    epoch: int


class _Row(msgspec.Struct, frozen=True):
    """A line of the access log, as far as a cell needs it."""

    request_id: str | None
    flags: str
    details: str


class _Refusal(msgspec.Struct, frozen=True):
    error: str


class GatewayLog(Protocol):
    """The gateway's log while it runs, read from a mark on."""

    def mark(self) -> float:
        """Return the place where the log ends now."""

    def since(self, mark: float) -> str:
        """Return what has been logged since a mark; empty when it cannot be read."""


@dataclass(frozen=True)
class FileLog:
    """A log in a file; marks are bytes."""

    path: Path

    def mark(self) -> float:
        """Return the file's size."""
        with contextlib.suppress(OSError):
            return self.path.stat().st_size
        return 0

    def since(self, mark: float) -> str:
        """Return what was written since a mark."""
        with contextlib.suppress(OSError), self.path.open("rb") as log:
            log.seek(int(mark))
            return log.read().decode("utf-8", "replace")
        return ""


@dataclass
class Testbed:
    """One variant's gateway and upstream, open for one session.

    Attributes:
        gateway_urls: Base URL of each listener, by the listener's name.
        control_url: The upstream's control port.
        upstream_address: The upstream's model port: where every attempt must arrive.
        listeners: The gateway's listeners, each with a VM for its plugin.
        gateway_log: What the gateway, its plugin included, logs while it runs.
        access_log: Its access log, likewise.
        look_for_end: Says what has ended before its time, or None while everything runs.
    """

    facts: TestbedFacts
    limits: Limits
    gateway_urls: dict[str, str]
    control_url: str
    upstream_address: str
    listeners: Listeners
    gateway_log: GatewayLog
    access_log: GatewayLog
    look_for_end: Callable[[], str | None]
    timings: Timings = field(default_factory=Timings)
    cleanup: Cleanup = field(default_factory=Cleanup)
    _ended: str | None = field(default=None, init=False)

    __test__ = False

    def __post_init__(self) -> None:
        """Open the client of the upstream's control port; its connection stays open."""
        self._connection: Connection | None = None
        self._logged = 0.0
        # Asked twice a cell: httpx takes 0.5 ms more each time.
        self._control = http.client.HTTPConnection(
            self.control_url.removeprefix("http://"), timeout=self.limits.exchange_s
        )

    def close_clients(self) -> None:
        """Close every connection of ours."""
        self._hang_up()
        self._control.close()

    def trouble(self) -> str | None:
        """Say what has ended before its time, or None; nobody is asked any more once something has.

        What has ended does not come back, and to ask the rest of a testbed for an answer can take
        seconds each time.
        """
        self._ended = self._ended or self.look_for_end()
        return self._ended

    def install(self, script: dict[str, Any]) -> int:
        """Reset the upstream and give it a script; return the epoch that begins with it.

        Raises:
            GatewayError: The upstream is gone, or did not take the script.
        """
        content = msgspec.json.encode(script)
        return self._ask("PUT", "/script", _Installed, content).epoch

    def journal(self, epoch: int) -> Journal:
        """Return what reached the upstream in an epoch, once nothing is under way any more.

        Raises:
            GatewayError: The upstream is gone.
        """
        return self._ask("GET", f"/journal?epoch={epoch}&settle_ms={_SETTLE_MS}", Journal)

    def send(self, listener: str, request: Request) -> Response:
        """Send a client's request to a listener of the gateway and read the response to its end.

        Its connection stays open until the next one is sent.

        Raises:
            NoAnswer: There was no complete response within the time limit.
        """
        self._hang_up()
        self._logged = self.access_log.mark()
        self._connection = Connection(self.gateway_urls[listener], self.limits.exchange_s)
        return self._connection.exchange(request)

    def trailing(self) -> bytes:
        """Return what has followed the end of the last response by now."""
        return self._connection.trailing() if self._connection else b""

    def ending(self, request_id: str) -> Ending | None:
        """Return how the gateway says that the last request ended; None when it does not say.

        Its access log is written a few milliseconds after a request has ended.
        """
        deadline = time.monotonic() + (0 if self._ended else _LOGGED_WITHIN_S)
        while time.monotonic() < deadline:
            for line in self.access_log.since(self._logged).splitlines():
                with contextlib.suppress(msgspec.MsgspecError):
                    row = msgspec.json.decode(line, type=_Row)
                    if row.request_id == request_id:
                        return Ending(flags=row.flags, details=row.details)
            time.sleep(_LOGGED_PAUSE_S)
        return None

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def renew(self, *listeners: str) -> None:
        """Give some listeners a fresh VM each, or all of them when none is named.

        Raises:
            GatewayError: The gateway did not take it in.
        """
        # A connection stays with the VM that it was made to.
        self._hang_up()
        self.listeners.renew(*listeners)

    def vm(self, listener: str) -> str:
        """Return the name of the VM that a listener's plugin runs in."""
        return self.listeners.vms[listener]

    def refusal(self, listener: str) -> str:
        """Return why the gateway does not have a listener; empty when it has."""
        return self.listeners.refused.get(listener, "")

    def put_listeners(self, content: bytes) -> None:
        """Let the upstream replace the file of listeners, where the gateway sees only its volume.

        Raises:
            GatewayError: The upstream is gone, or could not write it.
        """
        self._ask("PUT", "/listeners", dict, content)

    def log_position(self) -> float:
        """Return a mark: where the gateway's log ends now."""
        return self.gateway_log.mark()

    def log_since(self, position: float) -> str:
        """Return what the gateway, its plugin included, has logged since a mark."""
        return self.gateway_log.since(position)

    def _ask(self, method: str, path: str, wanted: type[T], content: bytes | None = None) -> T:
        if self._ended:
            raise GatewayError(self._ended)
        try:
            self._control.request(method, path, content)
            answer = self._control.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._control.close()
            raise GatewayError(
                self.trouble()
                or f"the upstream's control port did not answer ({type(error).__name__}); expected "
                "it to live as long as the gateway; see logs/upstream.log of this run"
            ) from error
        try:
            if answer.status != http.HTTPStatus.OK:
                refusal = msgspec.json.decode(body, type=_Refusal)
                raise GatewayError(f"the upstream refused {method} {path}: {refusal.error}")
            return msgspec.json.decode(body, type=wanted)
        except msgspec.MsgspecError as error:
            raise GatewayError(
                f"the upstream's control port gave no answer of ours to {method} {path} (status "
                f"{answer.status}, {error}); expected nobody else to have that port; run it "
                "again"
            ) from error
