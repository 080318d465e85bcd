"""Asking a gateway through its admin interface, and looking whether a port still answers."""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import TYPE_CHECKING, Any

import httpx
import msgspec

from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from pathlib import Path

    from containers.testbed import Plan

# The admin interface may be slow on a busy machine, as it is before it says LIVE (envoy 8321).
_ADMIN_S = 10.0
_SNAPSHOTS = {
    "stats.txt": "/stats?usedonly",
    "clusters.txt": "/clusters",
    "server_info.json": "/server_info",
}


def listener_urls(
    admin_url: str, plan: Plan, refused: Container[str] = frozenset()
) -> dict[str, str]:
    """Ask the gateway where each listener listens; all that were planned and not refused must."""
    urls = {}
    for status in asked(admin_url, "/listeners?format=json").get("listener_statuses", []):
        where = status["local_address"]["socket_address"]
        urls[status["name"]] = f"http://{where['address']}:{where['port_value']}"
    planned = [each.name for each in plan.listeners if each.name not in refused]
    missing = [name for name in planned if name not in urls]
    if missing:
        raise GatewayError(
            f"the gateway says LIVE but does not listen for {', '.join(missing)}; expected a "
            "listener for each plugin configuration; see logs/gateway.log of this run"
        )
    return urls


def refused_listeners(admin_url: str) -> dict[str, str]:
    """Return the listeners that the gateway has refused, by name, each with its reason."""
    mask = "&mask=name,error_state.details"
    found = asked(admin_url, f"/config_dump?resource=dynamic_listeners{mask}").get("configs", [])
    return {
        each["name"]: each["error_state"]["details"]
        for each in found
        if each.get("name") and "error_state" in each
    }


def asked(admin_url: str, path: str) -> dict[str, Any]:
    """Ask the admin interface of a gateway that is ready for JSON."""
    try:
        return dict(msgspec.json.decode(text(admin_url, path)))
    except msgspec.MsgspecError as error:
        raise _mute(path, error) from error


def text(admin_url: str, path: str, limit_s: float | None = None) -> str:
    """Ask the admin interface of a gateway that is ready."""
    try:
        return _get(admin_url + path, limit_s).text
    except httpx.HTTPError as error:
        raise _mute(path, error) from error


def _mute(path: str, error: Exception) -> GatewayError:
    return GatewayError(
        f"the gateway said LIVE, then its admin interface did not answer {path} "
        f"({type(error).__name__}: {error}); expected an answer; see logs/gateway.log of this run"
    )


def snapshot(admin_url: str, folder: Path) -> None:
    """Keep what the gateway counted, as long as it can still say so."""
    silence = ""
    for name, path in _SNAPSHOTS.items():
        kept = silence
        if not silence:
            try:
                kept = _get(admin_url + path).text
            except httpx.HTTPError as error:
                # Once is enough: each time would take its whole time limit.
                kept = silence = f"not available: {type(error).__name__}\n"
        (folder / "logs" / name).write_text(kept, "utf-8")


@contextlib.contextmanager
def explained(trouble: Callable[[], str | None], last_lines: Callable[[], str]) -> Iterator[None]:
    """Let a gateway that fell silent be told by what ended, if anything did."""
    try:
        yield
    except GatewayError as error:
        ended = trouble()
        if ended is None:
            raise
        raise GatewayError(ended, detail=last_lines()) from error


def envoy_version(admin_url: str) -> str:
    """Return Envoy's own version string."""
    return str(asked(admin_url, "/server_info")["version"])


def _get(url: str, limit_s: float | None = None) -> httpx.Response:
    # Plain HTTP on loopback, so nothing is to be verified; preparing for that takes 25 ms.
    return httpx.get(url, timeout=limit_s or _ADMIN_S, trust_env=False, verify=False)  # noqa: S501


def bare(url: str) -> str:
    """Return host:port of a URL of ours."""
    return url.removeprefix("http://")


def listening(ports: dict[str, str]) -> dict[str, bool]:
    """Say of each port, by its name and address, whether it takes a connection."""
    return {f"{name} {bare(url)}": _connected(bare(url)) == 0 for name, url in ports.items()}


def refused(ports: dict[str, str]) -> dict[str, bool]:
    """Say of each port, likewise, whether it refuses a connection."""
    return {f"{name} {bare(url)}": refuses(bare(url)) for name, url in ports.items()}


def refuses(address: str) -> bool:
    """Whether nothing listens at an address any more."""
    return _connected(address) == errno.ECONNREFUSED


def _connected(address: str) -> int:
    """Connect and close again; return 0 or the error's number."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, int(port)))
