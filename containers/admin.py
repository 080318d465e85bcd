"""Asking a gateway through its admin interface, and looking whether a port still answers."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Any

import httpx

from wasm.errors import GatewayError

if TYPE_CHECKING:
    from pathlib import Path

    from containers.testbed import Plan

# The admin interface may be slow on a busy machine, as it is before it says LIVE (envoy 8321).
_ADMIN_S = 10.0
_SNAPSHOTS = {"stats.txt": "/stats?usedonly", "clusters.txt": "/clusters"}


def listener_urls(admin_url: str, plan: Plan) -> dict[str, str]:
    """Ask the gateway where each listener listens; all that were planned must."""
    urls = {}
    for status in asked(admin_url, "/listeners?format=json").get("listener_statuses", []):
        where = status["local_address"]["socket_address"]
        urls[status["name"]] = f"http://{where['address']}:{where['port_value']}"
    missing = [listener.name for listener in plan.listeners if listener.name not in urls]
    if missing:
        raise GatewayError(
            f"the gateway says LIVE but does not listen for {', '.join(missing)}; expected a "
            "listener for each plugin configuration; see logs/gateway.log of this run"
        )
    return urls


def asked(admin_url: str, path: str) -> dict[str, Any]:
    """Ask the admin interface of a gateway that is ready."""
    try:
        answer = httpx.get(admin_url + path, timeout=_ADMIN_S, trust_env=False).json()
    except (httpx.HTTPError, ValueError) as error:
        raise GatewayError(
            f"the gateway said LIVE, then its admin interface did not answer {path} "
            f"({type(error).__name__}: {error}); expected JSON; see logs/gateway.log of this run"
        ) from error
    return dict(answer)


def snapshot(admin_url: str, folder: Path) -> None:
    """Keep what the gateway counted, as long as it can still say so."""
    for name, path in _SNAPSHOTS.items():
        try:
            text = httpx.get(admin_url + path, timeout=_ADMIN_S, trust_env=False).text
        except httpx.HTTPError as error:
            text = f"not available: {type(error).__name__}\n"
        (folder / "logs" / name).write_text(text)


def envoy_version(admin_url: str) -> str:
    """Return Envoy's own version string."""
    return str(asked(admin_url, "/server_info")["version"])


def bare(url: str) -> str:
    """Return host:port of a URL of ours."""
    return url.removeprefix("http://")


def refuses(address: str) -> bool:
    """Whether nothing listens at an address any more."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, int(port))) == errno.ECONNREFUSED
