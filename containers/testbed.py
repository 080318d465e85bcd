"""An open testbed: what the matrix may do with it, whichever engine opened it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec

from containers.exchange import Journal, Request, Response
from containers.records import Cleanup, GatewayKind, Limits, Listener, TestbedFacts, Timings
from wasm.errors import GatewayError
from wasm.records import Module, sha256_of

_SETTLE_MS = 2000


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a testbed is to be.

    Attributes:
        folder: Takes ``config/`` and ``logs/``; the run's own.
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
    limits: Limits = field(default_factory=Limits)
    envoy: str | None = None
    stop_iteration: bool = True
    cluster_name: bool = True
    adapt: bool = True
    upstream_port: int = 0
    listener_ports: tuple[int, ...] = ()

    __test__ = False


class NoAnswer(Exception):  # noqa: N818 - it is an observation, not an error of ours
    """A client request that got no response: what was seen instead, in a sentence."""


@dataclass
class Testbed:
    """One variant's gateway and upstream, open for one session.

    Attributes:
        gateway_urls: Base URL of each listener, by the listener's name.
        control_url: The upstream's control port.
        upstream_address: The upstream's model port: where every attempt must arrive.
        trouble: Says what has ended before its time, or None.
    """

    facts: TestbedFacts
    limits: Limits
    gateway_urls: dict[str, str]
    control_url: str
    upstream_address: str
    gateway_log: Path
    trouble: Callable[[], str | None]
    timings: Timings = field(default_factory=Timings)
    cleanup: Cleanup = field(default_factory=Cleanup)

    __test__ = False

    def __post_init__(self) -> None:
        """Open the two clients; connections stay open between cells."""
        settings: dict[str, Any] = {"timeout": self.limits.exchange_s, "trust_env": False}
        self._client = httpx.Client(**settings, follow_redirects=False)
        self._control = httpx.Client(**settings, base_url=self.control_url)

    def close_clients(self) -> None:
        """Close both clients' connections."""
        self._client.close()
        self._control.close()

    def install(self, script: dict[str, Any]) -> int:
        """Reset the upstream and give it a script; return the epoch that begins with it.

        Raises:
            GatewayError: The upstream is gone, or did not take the script.
        """
        answer = self._ask("PUT", "/script", content=msgspec.json.encode(script))
        return int(answer["epoch"])

    def journal(self, epoch: int) -> Journal:
        """Return what reached the upstream in an epoch, once nothing is under way any more.

        Raises:
            GatewayError: The upstream is gone.
        """
        answer = self._ask("GET", f"/journal?epoch={epoch}&settle_ms={_SETTLE_MS}")
        return msgspec.convert(answer, Journal)

    def send(self, listener: str, request: Request) -> Response:
        """Send a client's request to a listener of the gateway and read the whole response.

        Raises:
            NoAnswer: There was no complete response within the time limit.
        """
        url = self.gateway_urls[listener] + request.target
        start = time.perf_counter()
        try:
            answer = self._client.request(
                request.method, url, headers=list(request.headers), content=request.body
            )
        except httpx.TimeoutException as error:
            raise NoAnswer(f"no response within {self.limits.exchange_s:g} s") from error
        except httpx.HTTPError as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        return Response(
            status=answer.status_code,
            headers=tuple((name.lower(), value) for name, value in answer.headers.multi_items()),
            body=answer.content,
            body_sha256=sha256_of(answer.content),
            seconds=time.perf_counter() - start,
        )

    def log_position(self) -> int:
        """Return how much the gateway has logged so far, in bytes."""
        with contextlib.suppress(OSError):
            return self.gateway_log.stat().st_size
        return 0

    def log_since(self, position: int) -> str:
        """Return what the gateway, its plugin included, has logged since a position."""
        with contextlib.suppress(OSError), self.gateway_log.open("rb") as log:
            log.seek(position)
            return log.read().decode("utf-8", "replace")
        return ""

    def _ask(self, method: str, path: str, content: bytes | None = None) -> Any:  # noqa: ANN401
        try:
            answer = self._control.request(method, path, content=content)
        except httpx.HTTPError as error:
            raise GatewayError(
                self.trouble()
                or f"the upstream's control port did not answer ({type(error).__name__}); expected "
                "it to live as long as the gateway; see logs/upstream.log of this run"
            ) from error
        data = msgspec.json.decode(answer.content)
        if answer.status_code != httpx.codes.OK:
            raise GatewayError(f"the upstream refused {method} {path}: {data.get('error', data)}")
        return data
