"""Envoy's configuration for a testbed: a listener per plugin configuration, one cluster, the mock.

The listeners are in a file of their own, which Envoy watches: a listener whose plugin does not
start is refused alone, and a new VM for a plugin takes an update of its listener, no new gateway.

Written by hand against Envoy's v3 API. Two settings are here because their absence was seen to
fail quietly: ``allow_on_headers_stop_iteration`` (without it a held request never reaches the
upstream, istio 30213, envoy 40213) and ``enable_reuse_port: false`` (with it, two gateways could
share one port and its traffic, envoy 19099).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from containers.records import Listener
    from containers.testbed import Plan

ARGUMENTS = (
    *("--concurrency", "1"),
    *("--log-level", "warning"),
    *("--component-log-level", "wasm:info"),
    # A plugin's VM is removed this long after its listener was updated; the default is 10 minutes.
    *("--drain-time-s", "1"),
    # Else each gateway leaves a file of shared memory in /dev/shm, for ever.
    "--disable-hot-restart",
    # Of the access log: a cell that is not as it should be waits for its line (10 s by default).
    *("--file-flush-interval-msec", "5"),
)
BOOTSTRAP = "config/envoy.json"
LISTENERS = "config/listeners.json"
UPSTREAM_CLUSTER = "mock-upstream"
# Envoy's own default is 1 MiB, beyond which it answers in the plugin's place: 413 to a request, 500
# to a response (envoy 5302). Higress' gateway lets a plugin set the limit, which stock Envoy does
# not; ai-proxy sets this one (`set_decoder_buffer_limit`).
BUFFER_LIMIT_BYTES = 100 << 20
_TYPE = "type.googleapis.com/"
_HTTP = _TYPE + "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_WASM = _TYPE + "envoy.extensions.filters.http.wasm.v3.Wasm"
_ROUTER = _TYPE + "envoy.extensions.filters.http.router.v3.Router"
_PROTOCOL = _TYPE + "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_FILE_LOG = _TYPE + "envoy.extensions.access_loggers.file.v3.FileAccessLog"
_STDOUT_LOG = _TYPE + "envoy.extensions.access_loggers.stream.v3.StdoutAccessLog"
_ACCESS_LOG_FIELDS = {
    "request_id": "%REQ(X-REQUEST-ID)%",
    "started": "%START_TIME%",
    "method": "%REQ(:METHOD)%",
    "target": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
    "status": "%RESPONSE_CODE%",
    "flags": "%RESPONSE_FLAGS%",
    "details": "%RESPONSE_CODE_DETAILS%",
    "upstream_cluster": "%UPSTREAM_CLUSTER%",
    "upstream_host": "%UPSTREAM_HOST%",
    "duration_ms": "%DURATION%",
    "bytes_sent": "%BYTES_SENT%",
}
_STRING = _TYPE + "google.protobuf.StringValue"
_LISTENER = _TYPE + "envoy.config.listener.v3.Listener"


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where to listen or to connect; port 0 leaves the choice to the kernel."""

    host: str
    port: int


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """The places that a configuration ties together, as Envoy sees them.

    Attributes:
        module: The .wasm file of the plugin.
        cluster_filter: The .wasm file of the adapter's filter, which needs no configuration; None
            where the gateway itself gives the plugin its route's cluster.
        listeners: One address per listener, in the order of the plan.
        listeners_file: The file that has the listeners; it is replaced by renaming another.
        access_log: A file; None for stdout.
        stop_iteration: Whether a plugin may hold headers back until it has read the body.
    """

    module: str
    cluster_filter: str | None
    listeners: Sequence[Address]
    listeners_file: str
    admin: Address
    upstream: Address
    access_log: str | None
    stop_iteration: bool = True


def write(plan: Plan, wiring: Wiring) -> Path:
    """Write a testbed's bootstrap to its folder; return that path.

    Beside it, in ``config/plugins``, each plugin configuration as the plugin gets it.
    """
    config = plan.folder / BOOTSTRAP
    plugins = config.parent / "plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    for listener in plan.listeners:
        (plugins / f"{listener.name}.json").write_text(plugin_configuration(listener), "utf-8")
    config.write_bytes(_as_json(bootstrap(wiring)))
    return config


def bootstrap(wiring: Wiring) -> dict[str, Any]:
    """Return the bootstrap as JSON-like data."""
    source = {"path_config_source": {"path": wiring.listeners_file}, "resource_api_version": "V3"}
    return {
        # Envoy takes listeners from a file only when it has a name.
        "node": {"id": "gateway", "cluster": "gateway-proof"},
        "admin": {"address": _socket(wiring.admin)},
        "dynamic_resources": {"lds_config": source},
        "static_resources": {"clusters": [_cluster(wiring.upstream)]},
    }


def listeners(planned: Sequence[Listener], wiring: Wiring, vms: Mapping[str, str]) -> bytes:
    """Return the file that has the listeners.

    Args:
        planned: All that the plan has, in its order; each has an address in the wiring.
        wiring: The places that they tie together.
        vms: Listener -> the name of its plugin's VM; one that is not named here is left out.
    """
    resources = [
        {"@type": _LISTENER, **_listener(listener, address, wiring, vms[listener.name])}
        for listener, address in zip(planned, wiring.listeners, strict=True)
        if listener.name in vms
    ]
    return _as_json({"resources": resources})


def replace_listeners(plan: Plan, content: bytes) -> None:
    """Replace the file of listeners in a testbed's folder by renaming, as Envoy watches for."""
    path = plan.folder / LISTENERS
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".next")
    draft.write_bytes(content)
    draft.rename(path)


def _as_json(value: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def plugin_configuration(listener: Listener) -> str:
    """Return a plugin configuration as the plugin gets it: JSON, without blanks."""
    return json.dumps(listener.plugin_config, separators=(",", ":"), sort_keys=True)


def _socket(address: Address) -> dict[str, Any]:
    return {"socket_address": {"address": address.host, "port_value": address.port}}


def _cluster(upstream: Address) -> dict[str, Any]:
    endpoint = {"endpoint": {"address": _socket(upstream)}}
    return {
        "name": UPSTREAM_CLUSTER,
        "type": "STATIC",
        "connect_timeout": "5s",
        "per_connection_buffer_limit_bytes": BUFFER_LIMIT_BYTES,
        # A body that a plugin made longer than its content-length ends with its connection, and is
        # not the beginning of the next attempt.
        "typed_extension_protocol_options": {
            _PROTOCOL.removeprefix(_TYPE): {
                "@type": _PROTOCOL,
                "common_http_protocol_options": {"max_requests_per_connection": 1},
                "explicit_http_config": {"http_protocol_options": {}},
            }
        },
        "load_assignment": {
            "cluster_name": UPSTREAM_CLUSTER,
            "endpoints": [{"lb_endpoints": [endpoint]}],
        },
    }


def _listener(listener: Listener, address: Address, wiring: Wiring, vm: str) -> dict[str, Any]:
    route = {"match": {"prefix": "/"}, "route": {"cluster": UPSTREAM_CLUSTER, "timeout": "0s"}}
    manager = {
        "@type": _HTTP,
        "stat_prefix": listener.name,
        # The client names each cell by its x-request-id; the access log must show that name.
        "generate_request_id": False,
        "preserve_external_request_id": True,
        "access_log": [_access_log(wiring.access_log, vm)],
        "route_config": {
            "name": listener.name,
            "virtual_hosts": [{"name": "any", "domains": ["*"], "routes": [route]}],
        },
        "http_filters": _filters(listener, wiring, vm),
    }
    chain = {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
    return {
        "name": listener.name,
        "address": _socket(address),
        "enable_reuse_port": False,
        "per_connection_buffer_limit_bytes": BUFFER_LIMIT_BYTES,
        "filter_chains": [{"filters": [chain]}],
    }


def _filters(listener: Listener, wiring: Wiring, vm: str) -> list[dict[str, Any]]:
    filters = []
    if wiring.cluster_filter is not None:
        shared = _Vm("cluster-name", wiring.cluster_filter)
        filters.append(_wasm("cluster-name", shared, "", wiring, listener.name))
    configuration = plugin_configuration(listener)
    plugin = _Vm(vm, wiring.module)
    filters.append(_wasm("plugin", plugin, configuration, wiring, listener.name))
    filters.append({"name": "envoy.filters.http.router", "typed_config": {"@type": _ROUTER}})
    return filters


@dataclass(frozen=True)
class _Vm:
    """A Wasm VM: shared data, queues and globals belong to its name, the compiled code to neither.

    A second VM of the same module compiles nothing; it takes 0.1 s and 60 MB.
    """

    name: str
    module: str


def _wasm(name: str, vm: _Vm, configuration: str, wiring: Wiring, root: str) -> dict[str, Any]:
    return {
        "name": name,
        "typed_config": {
            "@type": _WASM,
            "config": {
                "name": name,
                "root_id": root,
                "fail_open": False,
                "allow_on_headers_stop_iteration": wiring.stop_iteration,
                "configuration": {"@type": _STRING, "value": configuration},
                "vm_config": {
                    "vm_id": vm.name,
                    "runtime": "envoy.wasm.runtime.v8",
                    "code": {"local": {"filename": vm.module}},
                },
            },
        },
    }


def _access_log(path: str | None, vm: str) -> dict[str, Any]:
    # The VM of a request is a constant of its listener's filter chain.
    log_format = {"json_format": {**_ACCESS_LOG_FIELDS, "vm": vm}}
    if path is None:
        name, config = "stdout", {"@type": _STDOUT_LOG, "log_format": log_format}
    else:
        name, config = "file", {"@type": _FILE_LOG, "path": path, "log_format": log_format}
    return {"name": f"envoy.access_loggers.{name}", "typed_config": config}
