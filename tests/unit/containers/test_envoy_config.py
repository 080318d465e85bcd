"""What Envoy is told: the settings whose absence fails quietly, and nothing but the mock."""

from __future__ import annotations

import json
from typing import Any

import pytest

from containers import envoy_config
from containers.envoy_config import UPSTREAM_CLUSTER, Address, Wiring
from containers.records import Listener

UPSTREAM = Address(host="127.0.0.1", port=4000)
LISTENERS = (
    Listener(name="one", plugin_config={"provider": {"type": "kling"}, "b": 1, "a": "\u00e9"}),
    Listener(name="two", plugin_config={}),
)


def wiring(**other: Any) -> Wiring:
    settings: dict[str, Any] = {
        "module": "/run/plugin.wasm",
        "cluster_filter": "/run/cluster_name.wasm",
        "listeners": [Address(host="127.0.0.1", port=0), Address(host="127.0.0.1", port=5002)],
        "admin": Address(host="127.0.0.1", port=0),
        "upstream": UPSTREAM,
        "listeners_file": "/run/listeners.json",
        "access_log": "/run/access.log",
    }
    return Wiring(**settings | other)


def bootstrap(**other: Any) -> dict[str, Any]:
    return envoy_config.bootstrap(wiring(**other))


VMS = {"one": "one#1", "two": "two#7"}


def listeners(vms: dict[str, str] = VMS, **other: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        envoy_config.listeners(LISTENERS, wiring(**other), vms)
    )["resources"]
    return found


def manager(listener: dict[str, Any]) -> dict[str, Any]:
    """The HTTP connection manager of a listener: its only chain's only filter."""
    (chain,) = listener["filter_chains"]
    (network_filter,) = chain["filters"]
    config: dict[str, Any] = network_filter["typed_config"]
    return config


def managers(**other: Any) -> list[dict[str, Any]]:
    return [manager(one) for one in listeners(**other)]


def plugins(**other: Any) -> list[dict[str, Any]]:
    """Every Wasm filter's plugin configuration, in order."""
    return [
        each["typed_config"]["config"]
        for one in managers(**other)
        for each in one["http_filters"]
        if "config" in each["typed_config"]
    ]


def values(data: Any, key: str) -> list[Any]:
    """Every value of a key, at whatever depth."""
    if isinstance(data, dict):
        found = [value for name, value in data.items() if name == key]
        return found + [one for value in data.values() for one in values(value, key)]
    if isinstance(data, list):
        return [one for value in data for one in values(value, key)]
    return []


def test_there_is_a_listener_for_each_plugin_configuration_at_its_own_address() -> None:
    found = listeners()
    assert [each["name"] for each in found] == ["one", "two"]
    assert [each["address"]["socket_address"] for each in found] == [
        {"address": "127.0.0.1", "port_value": 0},
        {"address": "127.0.0.1", "port_value": 5002},
    ]


def test_a_listener_without_an_address_is_no_configuration() -> None:
    with pytest.raises(ValueError, match="zip"):
        listeners(listeners=[Address(host="127.0.0.1", port=0)])


def test_t10_no_listener_shares_its_port() -> None:
    found = listeners()
    assert [each["enable_reuse_port"] for each in found] == [False, False]


def test_t7_a_plugin_may_hold_headers_back() -> None:
    held = [each["allow_on_headers_stop_iteration"] for each in plugins()]
    assert held == [True] * 4


def test_t7_off_it_is_only_where_a_test_asks_for_that() -> None:
    held = [each["allow_on_headers_stop_iteration"] for each in plugins(stop_iteration=False)]
    assert held == [False] * 4


def test_a_plugin_that_fails_lets_nothing_pass() -> None:
    assert [each["fail_open"] for each in plugins()] == [False] * 4


def test_the_only_cluster_is_the_mock_at_one_fixed_address() -> None:
    (cluster,) = bootstrap()["static_resources"]["clusters"]
    assert cluster["name"] == UPSTREAM_CLUSTER == "mock-upstream"
    assert cluster["type"] == "STATIC"
    assert values(cluster["load_assignment"], "socket_address") == [
        {"address": "127.0.0.1", "port_value": 4000}
    ]


def test_every_route_leads_to_the_mock_and_envoy_itself_does_not_retry() -> None:
    data = listeners()
    routes = values(data, "route")
    assert routes == [{"cluster": UPSTREAM_CLUSTER, "timeout": "0s"}] * 2
    assert values(data, "retry_policy") == []
    assert values(data, "num_retries") == []


def test_nothing_is_fetched_or_reported_elsewhere() -> None:
    data = [bootstrap(), *listeners()]
    source = {"path_config_source": {"path": "/run/listeners.json"}, "resource_api_version": "V3"}
    assert bootstrap()["dynamic_resources"] == {"lds_config": source}
    for key in (
        "ads_config",
        "cds_config",
        "api_config_source",
        "tracing",
        "stats_sinks",
        "rds",
        "remote",
        "cluster_header",
    ):
        assert values(data, key) == []


def test_all_addresses_are_loopback() -> None:
    assert {each["address"] for each in values([bootstrap(), *listeners()], "socket_address")} == {
        "127.0.0.1"
    }


def test_the_filters_stand_in_order_and_the_router_last() -> None:
    names = [[each["name"] for each in one["http_filters"]] for one in managers()]
    assert names == [["cluster-name", "plugin", "envoy.filters.http.router"]] * 2


def test_t8_without_the_adapters_filter_only_the_plugin_is_left() -> None:
    names = [
        [each["name"] for each in one["http_filters"]] for one in managers(cluster_filter=None)
    ]
    assert names == [["plugin", "envoy.filters.http.router"]] * 2


def test_a_plugin_configuration_is_the_same_json_whatever_its_order() -> None:
    (first, second) = [each for each in plugins() if each["name"] == "plugin"]
    text = first["configuration"]["value"]
    assert json.loads(text) == LISTENERS[0].plugin_config
    assert text == '{"a":"\\u00e9","b":1,"provider":{"type":"kling"}}'
    assert second["configuration"]["value"] == "{}"


def test_the_adapters_filter_needs_no_configuration() -> None:
    found = [each["configuration"]["value"] for each in plugins() if each["name"] != "plugin"]
    assert found == ["", ""]


def test_each_configuration_has_a_vm_of_its_own_and_a_listener_without_one_is_left_out() -> None:
    found = [
        (
            each["vm_config"]["vm_id"],
            each["root_id"],
            each["vm_config"]["code"]["local"]["filename"],
        )
        for each in plugins()
    ]
    assert found == [
        ("cluster-name", "one", "/run/cluster_name.wasm"),
        ("one#1", "one", "/run/plugin.wasm"),
        ("cluster-name", "two", "/run/cluster_name.wasm"),
        ("two#7", "two", "/run/plugin.wasm"),
    ]
    assert [each["name"] for each in listeners({"two": "two#8"})] == ["two"]


def test_a_cells_name_goes_through_to_the_access_log() -> None:
    for one in managers():
        assert one["generate_request_id"] is False
        assert one["preserve_external_request_id"] is True
        (log,) = one["access_log"]
        assert log["typed_config"]["path"] == "/run/access.log"
        fields = log["typed_config"]["log_format"]["json_format"]
        assert fields["request_id"] == "%REQ(X-REQUEST-ID)%"
        assert fields["upstream_cluster"] == "%UPSTREAM_CLUSTER%"
    logs = [one["access_log"][0]["typed_config"]["log_format"] for one in managers()]
    assert [each["json_format"]["vm"] for each in logs] == ["one#1", "two#7"]


def test_t24_bodies_are_buffered_up_to_what_ai_proxy_asks_higress_for() -> None:
    limits = [each["per_connection_buffer_limit_bytes"] for each in listeners()]
    assert limits == [104_857_600] * 2
    assert (
        bootstrap()["static_resources"]["clusters"][0]["per_connection_buffer_limit_bytes"]
        == 104_857_600
    )


def test_t36_no_connection_to_the_mock_is_used_twice() -> None:
    assert values(bootstrap(), "max_requests_per_connection") == [1]


def test_who_answered_is_in_the_access_log_within_milliseconds() -> None:
    for one in managers():
        (log,) = one["access_log"]
        fields = log["typed_config"]["log_format"]["json_format"]
        assert fields["flags"] == "%RESPONSE_FLAGS%"
        assert fields["details"] == "%RESPONSE_CODE_DETAILS%"
        assert fields["bytes_sent"] == "%BYTES_SENT%"
    place = envoy_config.ARGUMENTS.index("--file-flush-interval-msec")
    assert int(envoy_config.ARGUMENTS[place + 1]) <= 10


def test_it_is_json_as_it_is() -> None:
    assert json.loads(json.dumps(bootstrap())) == bootstrap()
