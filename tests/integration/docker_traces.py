"""What Docker has of a run, and waiting for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from containers.docker_parts import RUN_LABEL
from tests.integration.running import until

if TYPE_CHECKING:
    from pathlib import Path


def traces(client: Any, folder: Path) -> list[str]:
    """Return every container, network and volume of the runs whose folder has this name."""
    label = {"label": RUN_LABEL}
    kinds = {
        "container": client.containers.list(all=True, filters=label, ignore_removed=True),
        "network": client.networks.list(filters=label),
        "volume": client.volumes.list(filters=label),
    }
    return [
        f"{kind} {each.name}"
        for kind, found in kinds.items()
        for each in found
        if _labels(each).get(RUN_LABEL, "").startswith(f"{folder.name}-")
    ]


def part(client: Any, folder: Path, role: str) -> Any:
    """Wait for a run's container of a role to run, and return it."""
    found: list[Any] = []

    def running() -> bool:
        found[:] = [
            each
            for each in client.containers.list(filters={"label": RUN_LABEL}, ignore_removed=True)
            if each.name.startswith(f"gateway-proof-{folder.name}-")
            and each.name.endswith(f"-{role}")
        ]
        return bool(found)

    until(running)
    return found[0]


def runs_cells(client: Any, folder: Path) -> None:
    """Wait until a session is in the middle of its cells: its upstream has logged attempts."""
    upstream = part(client, folder, "upstream")
    until(lambda: upstream.logs().count(b" model ") > 20)


def _labels(thing: Any) -> dict[str, str]:
    attrs = thing.attrs
    return dict(attrs.get("Labels") or attrs.get("Config", {}).get("Labels") or {})
