"""An open testbed: what the matrix may do with it, whichever engine opened it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import httpx
import msgspec

from containers.exchange import Journal, Request, Response
from containers.listeners import Listeners
from containers.records import Cleanup, GatewayKind, Limits, Listener, TestbedFacts, Timings
from wasm.errors import GatewayError
from wasm.records import Module, sha256_of

_SETTLE_MS = 2000
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


class NoAnswer(Exception):  # noqa: N818 - it is an observation, not an error of ours
    """A client request that got no response: what was seen instead, in a sentence.

    Attributes:
        waited: Whether the time limit ran out, rather than the connection.
    """

    def __init__(self, sentence: str, *, waited: bool = False) -> None:
        super().__init__(sentence)
        self.waited = waited


class _Installed(msgspec.Struct, frozen=True):
    epoch: int


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
        look_for_end: Says what has ended before its time, or None while everything runs.
    """

    facts: TestbedFacts
    limits: Limits
    gateway_urls: dict[str, str]
    control_url: str
    upstream_address: str
    listeners: Listeners
    gateway_log: GatewayLog
    look_for_end: Callable[[], str | None]
    timings: Timings = field(default_factory=Timings)
    cleanup: Cleanup = field(default_factory=Cleanup)
    _ended: str | None = field(default=None, init=False)

    __test__ = False

    def __post_init__(self) -> None:
        """Open the two clients; connections stay open between cells."""
        self._client = self._client_of_gateway()
        self._control = httpx.Client(**self._settings, base_url=self.control_url)

    @property
    def _settings(self) -> dict[str, Any]:
        return {
            "timeout": self.limits.exchange_s,
            "trust_env": False,
            "verify": False,  # plain HTTP on loopback; preparing for TLS takes 25 ms
        }

    def _client_of_gateway(self) -> httpx.Client:
        client = httpx.Client(**self._settings, follow_redirects=False)
        # A request is recorded as it is sent, so httpx adds no header of its own.
        for name in list(client.headers):
            del client.headers[name]
        return client

    def close_clients(self) -> None:
        """Close both clients' connections."""
        self._client.close()
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
        """Send a client's request to a listener of the gateway and read the whole response.

        Raises:
            NoAnswer: There was no complete response within the time limit.
        """
        start = time.perf_counter()
        body = b""
        try:
            with self._client.stream(
                request.method,
                self.gateway_urls[listener],
                headers=list(request.headers),
                content=request.body,
                # As it is: a URL of httpx would be normalised, and lose what follows a #.
                extensions={"target": request.target.encode()},
            ) as answer:
                for part in answer.iter_bytes():
                    body += part
                    # The client's own time-out starts anew with each part.
                    if time.perf_counter() - start > self.limits.exchange_s:
                        raise NoAnswer(
                            f"no complete response within {self.limits.exchange_s:g} s, "
                            f"{len(body)} bytes so far",
                            waited=True,
                        )
        except httpx.TimeoutException as error:
            sentence = f"no response within {self.limits.exchange_s:g} s"
            raise NoAnswer(sentence, waited=True) from error
        except httpx.HTTPError as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        return Response(
            status=answer.status_code,
            headers=tuple((name.lower(), value) for name, value in answer.headers.multi_items()),
            body=body,
            body_sha256=sha256_of(body),
            seconds=time.perf_counter() - start,
        )

    def renew(self, *listeners: str) -> None:
        """Give some listeners a fresh VM each, or all of them when none is named.

        Raises:
            GatewayError: The gateway did not take it in.
        """
        # A connection stays with the VM that it was made to.
        self._client.close()
        self._client = self._client_of_gateway()
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
            answer = self._control.request(method, path, content=content)
        except httpx.HTTPError as error:
            raise GatewayError(
                self.trouble()
                or f"the upstream's control port did not answer ({type(error).__name__}); expected "
                "it to live as long as the gateway; see logs/upstream.log of this run"
            ) from error
        try:
            if answer.status_code != httpx.codes.OK:
                refusal = msgspec.json.decode(answer.content, type=_Refusal)
                raise GatewayError(f"the upstream refused {method} {path}: {refusal.error}")
            return msgspec.json.decode(answer.content, type=wanted)
        except msgspec.MsgspecError as error:
            raise GatewayError(
                f"the upstream's control port gave no answer of ours to {method} {path} (status "
                f"{answer.status_code}, {error}); expected nobody else to have that port; run it "
                "again"
            ) from error
