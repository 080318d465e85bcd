"""The process engine: gateway and upstream as local processes, on ports that the kernel chose."""

from __future__ import annotations

import contextlib
import hashlib
import platform
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import msgspec

from containers import envoy, envoy_config, processes, readiness, upstream_program
from containers.envoy_config import Address
from containers.processes import Child
from containers.records import (
    AdapterFacts,
    Cleanup,
    EngineKind,
    GatewayFacts,
    GatewayKind,
    ProcessSeen,
    TestbedFacts,
    Timings,
)
from containers.testbed import Plan, Testbed
from wasm import adapter, binary, cache
from wasm.errors import GatewayError
from wasm.records import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator


_LOOPBACK = "127.0.0.1"
_SNAPSHOTS = {"stats.txt": "/stats?usedonly", "clusters.txt": "/clusters"}
_NO_ISOLATION = (
    "none was enforced: a local process can reach what this machine can; the gateway's only "
    "cluster is the mock"
)


@contextlib.contextmanager
def opened(plan: Plan) -> Iterator[Testbed]:
    """Open a testbed of local processes; everything is gone when the context ends.

    Raises:
        BuildError: The module cannot be loaded by this gateway, or the upstream did not build.
        GatewayError: Envoy is missing or too old, or a process ended before its time.
    """
    start = time.monotonic()
    program = envoy.program(plan.envoy)
    loadable = _loadable(plan)
    seen: list[ProcessSeen] = []
    testbed: Testbed | None = None
    try:
        with contextlib.ExitStack() as stack:
            started = _Started(plan, stack, seen)
            upstream = _start_upstream(started)
            testbed = _start_gateway(started, program, loadable, upstream)
            testbed.timings = Timings(
                gateway_ready_s=testbed.timings.gateway_ready_s, opened_s=time.monotonic() - start
            )
            yield testbed
            closing = time.monotonic()
    finally:
        if testbed is not None:
            testbed.cleanup = _proof(testbed, seen)
    testbed.timings = Timings(
        gateway_ready_s=testbed.timings.gateway_ready_s,
        opened_s=testbed.timings.opened_s,
        closed_s=time.monotonic() - closing,
    )


@dataclass(frozen=True)
class _Started:
    """What is being opened: its plan, the clean-up so far, and what was seen of ended processes."""

    plan: Plan
    stack: contextlib.ExitStack
    seen: list[ProcessSeen]

    def run(self, name: str, argv: list[str]) -> Child:
        """Start a process that ends with the testbed; its stderr goes to ``logs/<name>.log``."""
        log = self.plan.folder / "logs" / f"{name}.log"
        patience_s = self.plan.limits.stop_s
        return self.stack.enter_context(processes.running(name, argv, log, patience_s, self.seen))


@dataclass(frozen=True)
class _Loadable:
    """The files that the gateway loads, and what was done to the module for that."""

    module: Path
    cluster_filter: Path
    facts: AdapterFacts


def _loadable(plan: Plan) -> _Loadable:
    """Refuse a module that stock Envoy cannot load, else give the adapted files."""
    data = plan.module.read()
    if not plan.adapt:
        binary.refuse_unloadable(binary.read_shape(data), binary.STOCK_ENVOY)
    adapted = adapter.adapt_for_stock_envoy(data)
    binary.refuse_unloadable(binary.read_shape(adapted.module), binary.STOCK_ENVOY)

    def fill(draft: Path) -> None:
        (draft / "plugin.wasm").write_bytes(adapted.module)
        (draft / "cluster_name.wasm").write_bytes(adapter.cluster_name_filter())

    key = sha256_of(f"{adapted.adapted_sha256} {adapted.cluster_filter_sha256}".encode())
    folder = cache.entry("adapted", key, fill)
    return _Loadable(
        folder / "plugin.wasm",
        folder / "cluster_name.wasm",
        AdapterFacts(
            original_sha256=adapted.original_sha256,
            adapted_sha256=adapted.adapted_sha256,
            cluster_filter_sha256=adapted.cluster_filter_sha256,
            steps=list(adapted.steps),
        ),
    )


@dataclass(frozen=True)
class _Upstream:
    """The running upstream, and the two addresses it said it listens on."""

    child: Child
    program: Path
    model: str
    control: str


def _start_upstream(started: _Started) -> _Upstream:
    program = upstream_program.program()
    model = f"--model={_LOOPBACK}:{started.plan.upstream_port}"
    argv = [str(program), "serve", model, f"--control={_LOOPBACK}:0", "--exit-with-parent"]
    child = started.run("upstream", argv)
    line = child.first_line()
    if not line:
        raise GatewayError(f"the upstream did not start: {child.last_lines()}")
    said = msgspec.json.decode(line)
    return _Upstream(child, program, said["model"], said["control"])


def _start_gateway(
    started: _Started, program: Path, loadable: _Loadable, upstream: _Upstream
) -> Testbed:
    plan = started.plan
    config = _write_config(plan, loadable, upstream)
    admin_file = plan.folder / "config" / "admin-address.txt"
    argv = [
        str(program),
        *("--config-path", str(config)),
        *("--admin-address-path", str(admin_file)),
        *("--concurrency", "1"),
        *("--log-level", "warning"),
        *("--component-log-level", "wasm:info"),
        "--use-dynamic-base-id",
    ]
    gateway = started.run("gateway", argv)
    # Hashing Envoy takes as long as it needs to open its admin port, so it costs nothing here.
    program_sha256 = _sha256_of_file(program)

    def admin() -> str | None:
        with contextlib.suppress(OSError):
            return f"http://{admin_file.read_text().strip()}" if admin_file.stat().st_size else None
        return None

    ready_s = readiness.await_live(admin, lambda: gateway.end, gateway.last_lines, plan.limits)
    admin_url = str(admin())
    started.stack.callback(_snapshot, admin_url, plan.folder)
    facts = TestbedFacts(
        engine=EngineKind.PROCESS,
        gateway=GatewayFacts(
            kind=GatewayKind.ENVOY,
            image=None,
            digest=f"sha256:{program_sha256}",
            envoy_version=_envoy_version(admin_url),
            platform=f"{platform.system().lower()}/{platform.machine()}",
            release_evidence=False,
        ),
        upstream_sha256=_sha256_of_file(upstream.program),
        adapter=loadable.facts,
        gateway_config_sha256=sha256_of(config.read_bytes()),
    )
    testbed = Testbed(
        facts=facts,
        limits=plan.limits,
        gateway_urls=_listener_urls(admin_url, plan),
        control_url=f"http://{upstream.control}",
        upstream_address=upstream.model,
        gateway_log=gateway.log,
        trouble=lambda: _trouble(gateway, upstream.child),
        timings=Timings(gateway_ready_s=ready_s),
    )
    started.stack.callback(testbed.close_clients)
    return testbed


def _write_config(plan: Plan, loadable: _Loadable, upstream: _Upstream) -> Path:
    host, _, port = upstream.model.rpartition(":")
    wiring = envoy_config.Wiring(
        module=str(loadable.module),
        cluster_filter=str(loadable.cluster_filter) if plan.cluster_name else None,
        listeners=[
            Address(host=_LOOPBACK, port=port)
            for port in plan.listener_ports or [0] * len(plan.listeners)
        ],
        admin=Address(host=_LOOPBACK, port=0),
        upstream=Address(host=host, port=int(port)),
        access_log=str(plan.folder / "logs" / "access.log"),
        stop_iteration=plan.stop_iteration,
    )
    config = plan.folder / "config" / "envoy.json"
    config.parent.mkdir(parents=True, exist_ok=True)
    bootstrap = envoy_config.bootstrap(plan.listeners, wiring)
    config.write_bytes(msgspec.json.format(msgspec.json.encode(bootstrap), indent=2))
    return config


def _listener_urls(admin_url: str, plan: Plan) -> dict[str, str]:
    """Ask the gateway where each listener listens; all that were planned must."""
    answer = httpx.get(f"{admin_url}/listeners?format=json", trust_env=False).json()
    urls = {}
    for status in answer.get("listener_statuses", []):
        where = status["local_address"]["socket_address"]
        urls[status["name"]] = f"http://{where['address']}:{where['port_value']}"
    missing = [listener.name for listener in plan.listeners if listener.name not in urls]
    if missing:
        raise GatewayError(
            f"the gateway says LIVE but does not listen for {', '.join(missing)}; expected a "
            "listener for each plugin configuration; see logs/gateway.log of this run"
        )
    return urls


def _envoy_version(admin_url: str) -> str:
    return str(httpx.get(f"{admin_url}/server_info", trust_env=False).json()["version"])


def _snapshot(admin_url: str, folder: Path) -> None:
    """Keep what the gateway counted, as long as it can still say so."""
    for name, path in _SNAPSHOTS.items():
        try:
            text = httpx.get(admin_url + path, trust_env=False).text
        except httpx.HTTPError as error:
            text = f"not available: {type(error).__name__}\n"
        (folder / "logs" / name).write_text(text)


def _trouble(gateway: Child, upstream: Child) -> str | None:
    for child in (gateway, upstream):
        if child.end is not None:
            last = child.last_lines().splitlines()
            shown = f"; its last log line: {last[-1]}" if last else ""
            return f"the {child.name} {child.end} before the matrix was done{shown}"
    return None


def _proof(testbed: Testbed, seen: list[ProcessSeen]) -> Cleanup:
    """Look again for what was started: processes by id, ports by connecting."""
    ports = {f"gateway {name}": url for name, url in testbed.gateway_urls.items()}
    ports |= {"upstream control": testbed.control_url, "upstream model": testbed.upstream_address}
    return Cleanup(
        processes=list(seen),
        refused={f"{name} {_bare(where)}": _refuses(_bare(where)) for name, where in ports.items()},
        network_isolation=_NO_ISOLATION,
    )


def _bare(url: str) -> str:
    return url.removeprefix("http://")


def _refuses(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, int(port))) != 0


def _sha256_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
