"""Waiting for a gateway to be ready: each probe bounded, the whole bounded, no wait for the dead.

The same loop serves processes and containers. It follows what was seen: under load the admin
port accepts and stays mute for seconds (envoy 8321), and a gateway whose module does not load
ends by itself.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import httpx

from wasm.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Callable

    from containers.records import Limits

_PAUSE_S = 0.025


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
    with httpx.Client(timeout=limits.probe_s, trust_env=False) as client:
        while True:
            ended = end()
            if ended is not None:
                raise GatewayError(
                    f"the gateway {ended} before it was ready; expected LIVE from its admin "
                    "interface; its last log lines are above",
                    detail=last_lines(),
                )
            url = admin()
            if url is not None:
                try:
                    probe = client.get(f"{url}/ready")
                except httpx.HTTPError as error:
                    answer = f"{type(error).__name__} after at most {limits.probe_s:g} s"
                else:
                    answer = f"status {probe.status_code}, {probe.text.strip()!r}"
                    if probe.status_code == httpx.codes.OK and probe.text.strip() == "LIVE":
                        return time.monotonic() - start
            if time.monotonic() - start > limits.ready_s:
                raise GatewayError(
                    f"the gateway was not ready after {limits.ready_s:g} s; expected LIVE from its "
                    f"admin interface, the last answer was: {answer}; its last log lines are above",
                    detail=last_lines(),
                )
            time.sleep(_PAUSE_S)
