"""Which engine and which gateway a testbed gets: what was asked for, or what this machine has."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from containers.docker import server
from containers.process import engine as process_engine
from containers.records import EngineKind, GatewayKind
from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from containers.docker.server import Daemon
    from containers.testbed import Plan, Testbed

_NO_RELEASE_EVIDENCE = "such a run is no release evidence for Higress' gateway"


@dataclass(frozen=True)
class Choice:
    """An engine and a gateway, and why these, in sentences."""

    engine: EngineKind
    gateway: GatewayKind
    reasons: tuple[str, ...]


def choose(engine: str, gateway: str, image: str | None = None) -> Choice:
    """Decide what ``auto`` means here.

    Args:
        engine: ``auto``, ``docker`` or ``process``.
        gateway: ``auto``, ``higress`` or ``envoy``.
        image: Another gateway image than the pinned one.

    Raises:
        GatewayError: What was asked for cannot be had; what was named never falls back.
    """
    if image is not None:
        if gateway == GatewayKind.ENVOY:
            raise GatewayError(
                f"--gateway-image {image} and --gateway envoy were both given; expected an image "
                "for --gateway higress only, stock Envoy's is assembled here; drop one"
            )
        gateway = GatewayKind.HIGRESS
    with contextlib.ExitStack() as stack:
        daemon, why = _engine(engine, higress=gateway == GatewayKind.HIGRESS)
        if daemon is not None:
            stack.callback(daemon.close)
        chosen = EngineKind.PROCESS if daemon is None else EngineKind.DOCKER
        reasons = [why] if why else []
        if gateway != "auto":
            return Choice(chosen, GatewayKind(gateway), tuple(reasons))
        kind, why = _gateway(daemon)
    return Choice(chosen, kind, (*reasons, why))


def opened(choice: Choice, plan: Plan) -> AbstractContextManager[Testbed]:
    """Open a testbed with the engine that was chosen."""
    if choice.engine is EngineKind.PROCESS:
        return process_engine.opened(plan)
    # Docker's client takes a quarter of a second to import, which a process run need not wait.
    from containers.docker import engine as docker_engine  # noqa: PLC0415

    return docker_engine.opened(plan)


def _engine(engine: str, *, higress: bool) -> tuple[Daemon | None, str]:
    """Return the daemon for the docker engine, or None for the process engine, and why.

    The Higress gateway is an image, so it needs Docker.
    """
    if engine == EngineKind.PROCESS:
        if higress:
            raise GatewayError(
                "--gateway higress runs an image, which --engine process cannot; expected --engine "
                "docker with it, or --gateway envoy; change one of them"
            )
        return None, ""
    try:
        daemon = server.connect()
    except GatewayError as error:
        if engine == EngineKind.DOCKER or higress:
            raise
        return None, f"engine process: {error.sentence.partition('; expected')[0]}"
    why = f"engine docker: a daemon answers, version {daemon.version}"
    return daemon, why if engine == "auto" else ""


def _gateway(daemon: Daemon | None) -> tuple[GatewayKind, str]:
    """Prefer Higress' own gateway; else stock Envoy, saying why and what that means."""
    if daemon is None:
        return (
            GatewayKind.ENVOY,
            "gateway envoy: stock Envoy, since the pinned Higress image needs the docker engine; "
            + _NO_RELEASE_EVIDENCE,
        )
    from containers.docker import images  # noqa: PLC0415 - see opened

    try:
        images.pulled(daemon, images.HIGRESS_GATEWAY)
    except GatewayError as error:
        cause = error.sentence.partition("; expected")[0]
        return (
            GatewayKind.ENVOY,
            f"gateway envoy: stock Envoy, since {cause}; {_NO_RELEASE_EVIDENCE}",
        )
    return GatewayKind.HIGRESS, "gateway higress: the pinned image, run unmodified"
