"""Which engine and which gateway a testbed gets: what was asked for, or what this machine has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from containers import process_engine
from containers.records import EngineKind, GatewayKind
from wasm.errors import GatewayError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from containers.testbed import Plan, Testbed


@dataclass(frozen=True)
class Choice:
    """An engine and a gateway, and why these, in sentences."""

    engine: EngineKind
    gateway: GatewayKind
    reasons: tuple[str, ...]


def choose(engine: str, gateway: str, image: str | None = None) -> Choice:
    """Decide what ``auto`` means here.

    Raises:
        GatewayError: What was asked for cannot be had; it never falls back by itself.
    """
    if engine == EngineKind.DOCKER:
        raise GatewayError(
            "--engine docker is not available in this version; expected auto or process; leave "
            "it out"
        )
    if gateway == GatewayKind.HIGRESS:
        raise GatewayError(
            "--gateway higress runs the pinned image, which needs the docker engine, and that is "
            "not available in this version; expected auto or envoy; leave it out"
        )
    if image is not None:
        raise GatewayError(
            f"--gateway-image {image} needs the docker engine, and that is not available in this "
            "version; expected no image; leave it out"
        )
    reasons = []
    if engine == "auto":
        reasons.append("engine process: the docker engine is not available in this version")
    if gateway == "auto":
        reasons.append(
            "gateway envoy: stock Envoy, since the pinned Higress image needs the docker engine; "
            "such a run is no release evidence for Higress' gateway"
        )
    return Choice(EngineKind.PROCESS, GatewayKind.ENVOY, tuple(reasons))


def opened(choice: Choice, plan: Plan) -> AbstractContextManager[Testbed]:
    """Open a testbed with the engine that was chosen."""
    if choice.engine is EngineKind.PROCESS:
        return process_engine.opened(plan)
    raise AssertionError(choice)
