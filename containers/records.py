"""What the containers room takes and hands over: the plan of a testbed, and what it became."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class GatewayKind(StrEnum):
    """Which Envoy runs the module."""

    HIGRESS = "higress"
    ENVOY = "envoy"


class EngineKind(StrEnum):
    """How gateway and upstream are run."""

    DOCKER = "docker"
    PROCESS = "process"


@dataclass(frozen=True, kw_only=True)
class Listener:
    """One listener of the gateway: its plugin configuration, as the plugin will read it."""

    name: str
    plugin_config: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long a testbed waits, in seconds, before it gives up and says so.

    Attributes:
        ready_s: For the gateway to say LIVE; it compiles the module before that (5-7 s of CPU,
            25 s seen on a busy machine).
        probe_s: For one readiness probe: the admin port accepts and stays mute while the
            module compiles (envoy 8321).
        exchange_s: For one client request, its retry included.
        stop_s: For a process to end by itself before it is killed.
    """

    ready_s: float = 120.0
    probe_s: float = 2.0
    exchange_s: float = 10.0
    stop_s: float = 5.0


@dataclass(frozen=True, kw_only=True)
class GatewayFacts:
    """The gateway as it was found to be (docs/evidence.md, 4).

    Attributes:
        image: The image as asked for; None for a local process.
        digest: The image's digest, or the SHA-256 of the Envoy program.
        envoy_version: Envoy's own version string, from the admin interface.
        release_evidence: Whether this is the pinned Higress gateway, run unmodified.
    """

    kind: GatewayKind
    image: str | None
    digest: str | None
    envoy_version: str
    platform: str
    release_evidence: bool


@dataclass(frozen=True, kw_only=True)
class AdapterFacts:
    """What was done so that stock Envoy takes the module; Higress' gateway needs none of it."""

    original_sha256: str
    adapted_sha256: str
    cluster_filter_sha256: str
    steps: list[str]


@dataclass(frozen=True, kw_only=True)
class Timings:
    """Where a testbed's time went, in seconds."""

    gateway_ready_s: float = 0.0
    opened_s: float = 0.0
    closed_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ProcessSeen:
    """One process of a testbed, and what was left of it afterwards."""

    name: str
    pid: int
    exit_status: int | None
    ended: bool


@dataclass(frozen=True, kw_only=True)
class Listed:
    """What Docker lists of a run: containers and networks, each as ``name id``."""

    containers: list[str] = field(default_factory=list)
    networks: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)

    @property
    def everything(self) -> tuple[str, ...]:
        """All of it, each with its kind."""
        return (
            *(f"container {name}" for name in self.containers),
            *(f"network {name}" for name in self.networks),
            *(f"volume {name}" for name in self.volumes),
        )


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """What a part's network namespace could reach, read from its routing tables."""

    part: str
    routes: list[dict[str, str]]
    default_route: bool


@dataclass(frozen=True, kw_only=True)
class Cleanup:
    """The proof that nothing was left, and that nothing could get out (docs/evidence.md, 10, 12).

    Attributes:
        processes: Of the process engine.
        before: What Docker listed while the testbed was open; None for the process engine.
        after: What it listed afterwards.
        listening: Port -> whether it took a connection just before closing.
        refused: Port -> whether it refused a connection after closing.
        namespaces: The routes of gateway and upstream, where they had namespaces of their own.
        network_isolation: What kept the gateway from other addresses, in a sentence.
    """

    processes: list[ProcessSeen] = field(default_factory=list)
    before: Listed | None = None
    after: Listed | None = None
    listening: dict[str, bool] = field(default_factory=dict)
    refused: dict[str, bool] = field(default_factory=dict)
    namespaces: list[Namespace] = field(default_factory=list)
    network_isolation: str = ""

    @property
    def leftovers(self) -> tuple[str, ...]:
        """What was started and is still there, each in a few words."""
        alive = [f"{seen.name} (process {seen.pid})" for seen in self.processes if not seen.ended]
        listed = self.after.everything if self.after else ()
        ports = (f"port of {name}" for name, gone in self.refused.items() if not gone)
        return (*alive, *listed, *ports)

    @property
    def complete(self) -> bool:
        """Whether everything that was started is gone; not so before anyone has looked."""
        listed = self.before and self.before.containers and self.after is not None
        return bool((self.processes or listed) and self.refused) and not self.leftovers


@dataclass(frozen=True, kw_only=True)
class TestbedFacts:
    """All that a testbed says of itself, once it is open.

    Attributes:
        upstream_sha256: Of the upstream's program.
        upstream_image: The image that it ran in; None for a local process.
        docker_server: The Docker daemon's version; None for a local process.
        commands: Part -> the exact command that it was started with.
    """

    engine: EngineKind
    gateway: GatewayFacts
    upstream_sha256: str
    adapter: AdapterFacts | None
    gateway_config_sha256: str
    upstream_image: str | None = None
    docker_server: str | None = None
    commands: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    __test__ = False
