"""What each combination of --engine, --gateway and --gateway-image comes to."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from containers import engines
from containers.docker import images, server
from containers.options import TESTBED_OPTIONS
from containers.records import EngineKind, GatewayKind
from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Callable

    Machine = Callable[..., list[str]]

IMAGE = "registry.example/gateway:v1"
NO_DAEMON = "no Docker daemon answers at unix:///x (Connection refused); expected one; start it"
NO_IMAGE = "the gateway image g@sha256:1 cannot be had: no such host; expected it in a registry"

DAEMON = "engine docker: a daemon answers, version 20.10.24"
PROCESS = "engine process: no Docker daemon answers at unix:///x (Connection refused)"
PINNED = "gateway higress: the pinned image, run unmodified"
NO_EVIDENCE = "such a run is no release evidence for Higress' gateway"
NEEDS_DOCKER = (
    "gateway envoy: stock Envoy, since the pinned Higress image needs the docker engine; "
    + NO_EVIDENCE
)
NOT_HAD = (
    "gateway envoy: stock Envoy, since the gateway image g@sha256:1 cannot be had: no such host; "
    + NO_EVIDENCE
)
CONTRADICTION = (
    "--gateway higress runs an image, which --engine process cannot; expected --engine docker with "
    "it, or --gateway envoy; change one of them"
)
# (engine, gateway) -> engine, gateway and reasons, or the sentence of a refusal; on a machine with
# Docker and the image, with Docker alone, and with neither.
TABLE: dict[tuple[str, str], tuple[Any, Any, Any]] = {
    ("auto", "auto"): (
        ("docker", "higress", DAEMON, PINNED),
        ("docker", "envoy", DAEMON, NOT_HAD),
        ("process", "envoy", PROCESS, NEEDS_DOCKER),
    ),
    ("auto", "higress"): (
        ("docker", "higress", DAEMON),
        ("docker", "higress", DAEMON),
        NO_DAEMON,
    ),
    ("auto", "envoy"): (
        ("docker", "envoy", DAEMON),
        ("docker", "envoy", DAEMON),
        ("process", "envoy", PROCESS),
    ),
    ("docker", "auto"): (("docker", "higress", PINNED), ("docker", "envoy", NOT_HAD), NO_DAEMON),
    ("docker", "higress"): (("docker", "higress"), ("docker", "higress"), NO_DAEMON),
    ("docker", "envoy"): (("docker", "envoy"), ("docker", "envoy"), NO_DAEMON),
    ("process", "auto"): (("process", "envoy", NEEDS_DOCKER),) * 3,
    ("process", "higress"): (CONTRADICTION,) * 3,
    ("process", "envoy"): (("process", "envoy"),) * 3,
}
MACHINES = {"everything": (True, True), "no image": (True, False), "no daemon": (False, False)}
ROWS = [
    pytest.param(*pair, machine, right[number], id="-".join([*pair, machine.replace(" ", "_")]))
    for pair, right in TABLE.items()
    for number, machine in enumerate(MACHINES)
]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Give a function that says what Docker has here, and returns what is then asked of it."""
    asked: list[str] = []

    def connect() -> Any:
        asked.append("connect")
        return SimpleNamespace(version="20.10.24", close=lambda: asked.append("close"))

    def pulled(_daemon: object, reference: str) -> None:
        asked.append(reference)

    def refuse(sentence: str) -> Callable[..., Any]:
        def refused(*_: object) -> Any:
            asked.append("refused")
            raise GatewayError(sentence)

        return refused

    def of(daemon: bool, image: bool) -> list[str]:  # noqa: FBT001 - a row of MACHINES
        monkeypatch.setattr(server, "connect", connect if daemon else refuse(NO_DAEMON))
        monkeypatch.setattr(images, "pulled", pulled if image else refuse(NO_IMAGE))
        return asked

    return of


def test_every_combination_of_the_options_is_in_the_table() -> None:
    choices = [TESTBED_OPTIONS[name]["choices"] for name in ("--engine", "--gateway")]
    assert set(TABLE) == set(itertools.product(*choices))


@pytest.mark.parametrize(("engine", "gateway", "has", "right"), ROWS)
def test_a_choice_is_made_and_explained_or_refused(
    machine: Machine, engine: str, gateway: str, has: str, right: Any
) -> None:
    asked = machine(*MACHINES[has])
    if isinstance(right, str):
        with pytest.raises(GatewayError) as caught:
            engines.choose(engine, gateway)
        assert caught.value.sentence == right
    else:
        choice = engines.choose(engine, gateway)
        assert (choice.engine, choice.gateway, *choice.reasons) == right
    assert asked.count("connect") == asked.count("close") <= 1


@pytest.mark.parametrize(("engine", "gateway"), [pair for pair in TABLE if pair[1] == "higress"])
def test_the_image_of_a_gateway_that_was_named_is_left_to_the_engine_which_never_falls_back(
    machine: Machine, engine: str, gateway: str
) -> None:
    asked = machine(daemon=True, image=False)
    if engine != "process":
        assert engines.choose(engine, gateway).gateway is GatewayKind.HIGRESS
    assert "refused" not in asked


@pytest.mark.parametrize("gateway", ["auto", "higress"])
@pytest.mark.parametrize("engine", ["auto", "docker"])
def test_an_image_that_was_named_means_higress_and_docker(
    machine: Machine, engine: str, gateway: str
) -> None:
    asked = machine(daemon=True, image=False)
    choice = engines.choose(engine, gateway, IMAGE)
    assert (choice.engine, choice.gateway) == (EngineKind.DOCKER, GatewayKind.HIGRESS)
    assert choice.reasons == ((DAEMON,) if engine == "auto" else ())
    assert asked == ["connect", "close"]


@pytest.mark.parametrize("gateway", ["auto", "higress"])
def test_an_image_without_a_daemon_is_refused(machine: Machine, gateway: str) -> None:
    machine(daemon=False, image=False)
    with pytest.raises(GatewayError) as caught:
        engines.choose("auto", gateway, IMAGE)
    assert caught.value.sentence == NO_DAEMON


@pytest.mark.parametrize("gateway", ["auto", "higress"])
def test_an_image_and_the_process_engine_contradict_each_other(
    machine: Machine, gateway: str
) -> None:
    machine(daemon=True, image=True)
    with pytest.raises(GatewayError) as caught:
        engines.choose("process", gateway, IMAGE)
    assert caught.value.sentence == CONTRADICTION


@pytest.mark.parametrize("engine", ["auto", "docker", "process"])
def test_an_image_and_stock_envoy_contradict_each_other(machine: Machine, engine: str) -> None:
    machine(daemon=True, image=True)
    with pytest.raises(GatewayError) as caught:
        engines.choose(engine, "envoy", IMAGE)
    assert caught.value.sentence == (
        f"--gateway-image {IMAGE} and --gateway envoy were both given; expected an image for "
        "--gateway higress only, stock Envoy's is assembled here; drop one"
    )
