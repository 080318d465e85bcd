"""The gateway's listeners: their VMs, what of them is refused, and with whose words."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from containers import admin, envoy_config
from containers.envoy_config import Address, Wiring
from containers.listeners import Listeners
from containers.records import Listener
from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    from pathlib import Path

    from containers.testbed import Plan

NAMES = ("one", "two")
PREFIX = "[2026-01-01 00:00:00.000][7]"
WASM = "[source/extensions/common/wasm/context.cc:1154] wasm log"


class Gateway:
    """An admin interface and a log, as a gateway has them that refuses some listeners."""

    def __init__(self) -> None:
        self.updates = 1
        self.refused: dict[str, str] = {}
        self.log: list[str] = []
        self.follows = True

    def mark(self) -> float:
        """Return how many lines there are."""
        return len(self.log)

    def since(self, mark: float) -> str:
        """Return the lines since then."""
        return "\n".join(self.log[int(mark) :])


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    double = Gateway()
    monkeypatch.setattr(admin, "text", lambda *_: str(double.updates))
    monkeypatch.setattr(admin, "refused_listeners", lambda _: double.refused)
    return double


@pytest.fixture
def listeners(tmp_path: Path, gateway: Gateway) -> Listeners:
    plan = SimpleNamespace(
        folder=tmp_path,
        listeners=tuple(Listener(name=name, plugin_config={}) for name in NAMES),
    )
    wiring = Wiring(
        module="plugin.wasm",
        cluster_filter=None,
        listeners=[Address(host="127.0.0.1", port=0)] * len(NAMES),
        listeners_file=str(tmp_path / envoy_config.LISTENERS),
        admin=Address(host="127.0.0.1", port=0),
        upstream=Address(host="127.0.0.1", port=1),
        access_log=None,
    )

    def take(_content: bytes) -> None:
        gateway.updates += gateway.follows

    found = Listeners(cast("Plan", plan), wiring)
    found.hand_over = take
    found.plan_first()
    return found


def vms(folder: Path) -> dict[str, str]:
    """The VM of each listener in the file that the gateway watches."""
    found: dict[str, str] = {}
    for each in json.loads((folder / envoy_config.LISTENERS).read_bytes())["resources"]:
        manager = each["filter_chains"][0]["filters"][0]["typed_config"]
        plugin: dict[str, Any] = manager["http_filters"][0]["typed_config"]["config"]
        found[each["name"]] = plugin["vm_config"]["vm_id"]
    return found


def test_each_listener_has_a_vm_of_its_own_and_a_fresh_one_when_asked(
    listeners: Listeners, gateway: Gateway, tmp_path: Path
) -> None:
    listeners.started("http://admin", gateway)
    assert vms(tmp_path) == {"one": "one#1", "two": "two#1"}
    listeners.renew("two")
    assert vms(tmp_path) == listeners.vms == {"one": "one#1", "two": "two#2"}
    listeners.renew()
    assert vms(tmp_path) == listeners.vms == {"one": "one#2", "two": "two#3"}
    assert not [*tmp_path.glob("config/*.next")]


def test_t31_a_refused_configuration_has_the_plugins_own_words_and_is_not_tried_again(
    listeners: Listeners, gateway: Gateway, tmp_path: Path
) -> None:
    gateway.refused = {"two": "Unable to create Wasm plugin plugin"}
    gateway.log = [
        f"{PREFIX}[warning][wasm] {WASM} one one#1: nothing to do with it",
        f"{PREFIX}[info][wasm] {WASM} two two#1: reading the configuration",
        f"{PREFIX}[warning][wasm] {WASM} two two#1: missing api-version",
        f"{PREFIX}[critical][wasm] [source/wasm.cc:1] Plugin plugin failed to load",
    ]
    listeners.started("http://admin", gateway)
    assert listeners.refused == {"two": "missing api-version"}
    listeners.renew()
    assert vms(tmp_path) == {"one": "one#2"}
    listeners.renew("two")
    assert listeners.vms["two"] == "two#1"


def test_t29_a_plugin_that_writes_nothing_is_refused_with_the_gateways_words(
    listeners: Listeners, gateway: Gateway
) -> None:
    gateway.refused = {"one": "Unable to create Wasm plugin plugin"}
    gateway.log = [f"{PREFIX}[error][wasm] [source/v8.cc:1] Function: _initialize failed: trap"]
    listeners.started("http://admin", gateway)
    assert listeners.refused == {"one": "Function: _initialize failed: trap"}


def test_t29_the_last_words_of_a_runtime_are_put_together_from_their_pieces(
    listeners: Listeners, gateway: Gateway
) -> None:
    gateway.refused = {"one": "Unable to create Wasm plugin plugin"}
    pieces = ["panic: ", "no luck today", "", "", "goroutine ", "1"]
    gateway.log = [f"{PREFIX}[error][wasm] {WASM}: {piece}" for piece in pieces]
    gateway.log.append(f"{PREFIX}[error][wasm] [source/v8.cc:1] Function: _initialize failed: trap")
    listeners.started("http://admin", gateway)
    assert listeners.refused == {"one": "panic: no luck today"}


def test_a_plugin_that_starts_for_no_case_ends_the_session_with_its_words(
    listeners: Listeners, gateway: Gateway
) -> None:
    gateway.refused = dict.fromkeys(NAMES, "Unable to create Wasm plugin plugin")
    gateway.log = [f"{PREFIX}[error][wasm] {WASM} one one#1: panic: no luck"]
    with pytest.raises(GatewayError) as caught:
        listeners.started("http://admin", gateway)
    assert "one: panic: no luck" in caught.value.sentence
    assert "panic: no luck" in caught.value.detail


def test_t10_a_listener_whose_port_is_in_use_ends_the_session(
    listeners: Listeners, gateway: Gateway
) -> None:
    gateway.refused = {"one": "cannot bind '127.0.0.1:5002': Address already in use"}
    with pytest.raises(GatewayError, match=r"127\.0\.0\.1:5002"):
        listeners.started("http://admin", gateway)


def test_a_gateway_that_does_not_follow_its_file_is_named(
    listeners: Listeners, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    listeners.started("http://admin", gateway)
    monkeypatch.setattr("containers.listeners._IN_FORCE_WITHIN_S", 0.05)
    gateway.follows = False
    with pytest.raises(GatewayError, match="one, two"):
        listeners.renew()


def test_t29_a_plugin_without_a_handler_is_named_as_that(
    listeners: Listeners, gateway: Gateway
) -> None:
    gateway.refused = {"one": "Unable to create Wasm plugin plugin"}
    frame = "github.com/x/proxywasm/internal.(*state).createPluginContext"
    pieces = ["panic: ", "runtime error: invalid memory address", "", "goroutine ", "1", "", frame]
    gateway.log = [f"{PREFIX}[error][wasm] {WASM} one one#1: {piece}" for piece in pieces]
    listeners.started("http://admin", gateway)
    assert listeners.refused["one"].startswith("panic: runtime error: invalid memory address (")
    assert "init()" in listeners.refused["one"]
