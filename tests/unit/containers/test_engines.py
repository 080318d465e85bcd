"""What each combination of --engine, --gateway and --gateway-image comes to."""

from __future__ import annotations

import itertools

import pytest

from containers import engines
from containers.options import TESTBED_OPTIONS
from containers.records import EngineKind, GatewayKind
from wasm.errors import GatewayError

ENGINE = "engine process: the docker engine is not available in this version"
GATEWAY = (
    "gateway envoy: stock Envoy, since the pinned Higress image needs the docker engine; such a "
    "run is no release evidence for Higress' gateway"
)
TAKEN = {
    ("auto", "auto"): (ENGINE, GATEWAY),
    ("auto", "envoy"): (ENGINE,),
    ("process", "auto"): (GATEWAY,),
    ("process", "envoy"): (),
}
EVERY = list(
    itertools.product(
        TESTBED_OPTIONS["--engine"]["choices"], TESTBED_OPTIONS["--gateway"]["choices"]
    )
)


@pytest.mark.parametrize(("engine", "gateway"), [pair for pair in EVERY if pair in TAKEN])
def test_a_choice_left_to_us_is_made_and_explained(engine: str, gateway: str) -> None:
    choice = engines.choose(engine, gateway)
    assert (choice.engine, choice.gateway) == (EngineKind.PROCESS, GatewayKind.ENVOY)
    assert choice.reasons == TAKEN[engine, gateway]


@pytest.mark.parametrize(("engine", "gateway"), [pair for pair in EVERY if pair not in TAKEN])
def test_what_was_asked_for_and_cannot_be_had_is_refused(engine: str, gateway: str) -> None:
    with pytest.raises(GatewayError) as caught:
        engines.choose(engine, gateway)
    option = "--engine docker is" if engine == "docker" else "--gateway higress runs"
    assert caught.value.sentence.startswith(option)
    assert caught.value.sentence.endswith("leave it out")


def test_every_combination_of_the_options_is_covered() -> None:
    assert len(EVERY) == 9
    assert set(TAKEN) < set(EVERY)


@pytest.mark.parametrize(("engine", "gateway"), list(TAKEN))
def test_an_image_is_never_ignored(engine: str, gateway: str) -> None:
    with pytest.raises(GatewayError) as caught:
        engines.choose(engine, gateway, "registry.example/gateway:v1")
    assert caught.value.sentence == (
        "--gateway-image registry.example/gateway:v1 needs the docker engine, and that is not "
        "available in this version; expected no image; leave it out"
    )
