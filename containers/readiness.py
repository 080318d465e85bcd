"""Waiting for a gateway to be ready: each probe bounded, the whole bounded, no wait for the dead.

The same loop serves processes and containers. It follows what was seen: under load the admin
port accepts and stays mute for seconds (envoy 8321), and a gateway whose module does not load
ends by itself.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import httpx

from wasm.foundation import signals
from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Callable

    from containers.records import Limits

_PAUSE_S = 0.025
_READY = b"LIVE"
_KEPT_BYTES = 200


def await_live(
    admin: Callable[[], str | None],
    end: Callable[[], str | None],
    last_lines: Callable[[], str],
    limits: Limits,
) -> float:
    """Wait until the gateway's ``/ready`` says LIVE; return the seconds that took.

    Args:
        admin: Gives the admin interface's base URL, or None while it is not known yet.
        end: Says how the gateway ended, or None while it runs.
        last_lines: Gives the end of its log.
        limits: Seconds for a probe and for the whole.

    Raises:
        GatewayError: It ended, or was not ready in time; with the last answer and log lines.
    """
    start = time.monotonic()
    answer = "the admin interface is not open yet"
    while True:
        signals.raise_taken()
        ended = end()
        if ended is not None:
            raise ended_too_soon(ended, last_lines())
        url = admin()
        if url is not None:
            ready, answer = asyncio.run(_probe(f"{url}/ready", limits.probe_s))
            if ready:
                return time.monotonic() - start
        if time.monotonic() - start > limits.ready_s:
            raise GatewayError(
                f"the gateway was not ready after {limits.ready_s:g} s; expected LIVE from its "
                f"admin interface, the last answer was: {answer}; its last log lines are above",
                detail=last_lines(),
            )
        time.sleep(_PAUSE_S)


def ended_too_soon(end: str, last_lines: str) -> GatewayError:
    """Say that a gateway ended, and how, before it was ready."""
    return GatewayError(
        f"the gateway {end} before it was ready; expected LIVE from its admin interface; its last "
        "log lines are above",
        detail=last_lines,
    )


async def _probe(url: str, limit_s: float) -> tuple[bool, str]:
    """Ask once; return whether it is ready, and the answer in words.

    Asynchronous for its one time-out over the whole exchange: a synchronous client's starts anew
    with each byte that trickles in. Nothing is verified, for it is plain HTTP: preparing for TLS
    would take 25 ms of the very cores that compile the module.
    """
    try:
        async with (
            asyncio.timeout(limit_s),
            httpx.AsyncClient(timeout=limit_s, trust_env=False, verify=False) as client,  # noqa: S501
            client.stream("GET", url) as response,
        ):
            body = b""
            async for part in response.aiter_raw():
                body += part
                if len(body) > _KEPT_BYTES:
                    break
    except TimeoutError:
        return False, f"none within {limit_s:g} s"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return False, f"{type(error).__name__}: {error}"
    said = body[:_KEPT_BYTES].strip()
    ready = response.status_code == httpx.codes.OK and said == _READY
    return ready, f"status {response.status_code}, {said.decode('utf-8', 'replace')!r}"
