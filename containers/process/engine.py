"""The process engine: gateway and upstream as local processes, on ports that the kernel chose."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import shutil
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from containers import admin, envoy, envoy_config, interrupts, loading, readiness, upstream_program
from containers.envoy_config import Address, Wiring
from containers.listeners import Listeners
from containers.process import processes
from containers.process.processes import Child
from containers.records import (
    Cleanup,
    EngineKind,
    GatewayFacts,
    GatewayKind,
    ProcessSeen,
    TestbedFacts,
    Timings,
)
from containers.testbed import FileLog, Plan, Testbed
from wasm.foundation.errors import GatewayError
from wasm.records import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from containers.loading import Loadable


_LOOPBACK = "127.0.0.1"
_ANNOUNCED_WITHIN_S = 30.0
# Until a testbed is open there is no log to complete, so nothing is waited for; and Envoy does not
# look at SIGTERM while it compiles a module.
_NOT_YET_OPEN_S = 0.5
_SEEN_WITHIN_S = 0.3
_SEEN_PAUSE_S = 0.005
_WRAPPED = "--envoy was a wrapper; digest and version are those of the Envoy that it started."
_NO_ISOLATION = (
    "none was enforced: a local process can reach what this machine can; the gateway's only "
    "cluster is the mock"
)


@contextlib.contextmanager
def opened(plan: Plan) -> Iterator[Testbed]:
    """Open a testbed of local processes; everything is gone when the context ends.

    Raises:
        BuildError: The module cannot be loaded by this gateway, or the upstream did not build.
        GatewayError: Envoy is missing or too old, a port is taken, or a process ended before its
            time.
    """
    start = time.monotonic()
    program = envoy.program(plan.envoy)
    loadable = loading.of(plan)
    with interrupts.ClosedInPeace() as stack:
        life = _Life(plan, stack)
        stack.callback(life.prove)
        upstream = _start_upstream(life)
        testbed = _start_gateway(life, program, loadable, upstream)
        testbed.timings = replace(testbed.timings, opened_s=time.monotonic() - start)
        life.testbed = testbed
        stack.callback(life.close)
        yield testbed


@dataclass
class _Life:
    """A testbed from its opening to its proof of clean-up.

    Attributes:
        stack: What is still to be closed, the last opened first.
        seen: The processes that have ended, and what was seen of that.
        admin: The gateway's admin address, once it is known.
        closing_since: On the monotonic clock.
    """

    plan: Plan
    stack: contextlib.ExitStack
    seen: list[ProcessSeen] = field(default_factory=list)
    testbed: Testbed | None = None
    admin: str = ""
    closing_since: float = 0.0
    commands: dict[str, list[str]] = field(default_factory=dict)
    listening: dict[str, bool] = field(default_factory=dict)

    def run(self, name: str, argv: list[str], *, announces: bool = False) -> Child:
        """Start a process that ends with the testbed; its output goes to ``logs/<name>.log``."""
        log = self.plan.folder / "logs" / f"{name}.log"
        self.commands[name] = argv
        child = processes.running(name, argv, log, _NOT_YET_OPEN_S, self.seen, announces=announces)
        return self.stack.enter_context(child)

    def close(self) -> None:
        """Begin to close: what the gateway counted is kept as long as it can still say so."""
        self.closing_since = time.monotonic()
        if self.testbed is not None:
            self.testbed.close_clients()
        admin.snapshot(self.admin, self.plan.folder)
        if self.testbed is not None:
            self.listening = admin.listening(_ports(self.testbed, self.admin))

    def prove(self) -> None:
        """Look again for all that was started, once it should be gone."""
        if self.testbed is None:
            return
        self.testbed.cleanup = _proof(self, self.testbed)
        self.testbed.timings = replace(
            self.testbed.timings, closed_s=time.monotonic() - self.closing_since
        )


@dataclass(frozen=True)
class _Upstream:
    """The running upstream, and the two addresses it said it listens on."""

    child: Child
    program: Path
    model: str
    control: str


def _start_upstream(life: _Life) -> _Upstream:
    program = upstream_program.program()
    model = f"--model={_LOOPBACK}:{life.plan.upstream_port}"
    argv = [str(program), "serve", model, f"--control={_LOOPBACK}:0", "--exit-with-parent"]
    child = life.run("upstream", argv, announces=True)
    said = child.announcement(_ANNOUNCED_WITHIN_S)
    return _Upstream(child, program, said["model"], said["control"])


def _start_gateway(life: _Life, program: Path, loadable: Loadable, upstream: _Upstream) -> Testbed:
    plan = life.plan
    wiring = _wiring(plan, loadable, upstream)
    config = envoy_config.write(plan, wiring)
    listeners = Listeners(plan, wiring)
    listeners.plan_first()
    admin_file = plan.folder / "config" / "admin-address.txt"
    # Of an earlier gateway in the same folder: it would be asked instead of this one.
    admin_file.unlink(missing_ok=True)
    gateway = life.run("gateway", _command(program, config, admin_file))
    # Hashing Envoy takes as long as it needs to open its admin port, so it costs nothing here.
    asked = envoy.Program.at(program)

    def admin_url() -> str | None:
        return _announced(admin_file)

    ready_s = readiness.await_live(
        admin_url, lambda: _end_of(gateway, upstream.child), gateway.last_lines, plan.limits
    )
    for child in (gateway, upstream.child):
        child.patience_s = plan.limits.stop_s
    life.admin = str(admin_url())

    def look_for_end() -> str | None:
        return _trouble(gateway, upstream.child)

    log = FileLog(gateway.log)
    with admin.explained(look_for_end, gateway.last_lines):
        listeners.started(life.admin, log)
        version = admin.envoy_version(life.admin)
        ran = envoy.that_ran(asked, _listener(gateway, life.admin), version)
        urls = admin.listener_urls(life.admin, plan, listeners.refused)
    return Testbed(
        facts=TestbedFacts(
            engine=EngineKind.PROCESS,
            gateway=_stock_envoy(f"sha256:{ran.sha256}", version),
            upstream_sha256=envoy.Program.at(upstream.program).sha256,
            adapter=loadable.facts,
            gateway_config_sha256=sha256_of(config.read_bytes()),
            commands=dict(life.commands),
            notes=[] if ran is asked else [_WRAPPED],
        ),
        limits=plan.limits,
        gateway_urls=urls,
        control_url=f"http://{upstream.control}",
        upstream_address=upstream.model,
        listeners=listeners,
        gateway_log=log,
        access_log=FileLog(plan.folder / "logs" / "access.log"),
        look_for_end=look_for_end,
        timings=Timings(gateway_ready_s=ready_s),
    )


def _listener(gateway: Child, admin_url: str) -> int:
    """Return the process that is the gateway: who started it may have been a wrapper.

    Raises:
        GatewayError: It is not among those that were started.
    """
    port = int(admin_url.rpartition(":")[2])
    pid = gateway.listener(port)
    if pid is None:
        raise GatewayError(
            f"none of the processes that --envoy started listens on the gateway's admin port, "
            f"{port}; expected Envoy itself or a wrapper that waits for it in its own process "
            "group; end what listens there by hand, and name another with --envoy"
        )
    return pid


def _stock_envoy(digest: str, version: str) -> GatewayFacts:
    return GatewayFacts(
        kind=GatewayKind.ENVOY,
        image=None,
        digest=digest,
        envoy_version=version,
        platform=f"{platform.system().lower()}/{platform.machine()}",
        release_evidence=False,
    )


def _command(program: Path, config: Path, admin_file: Path) -> list[str]:
    paths = ["--config-path", str(config), "--admin-address-path", str(admin_file)]
    return [str(program), *paths, *envoy_config.ARGUMENTS]


def _announced(admin_file: Path) -> str | None:
    """Return the admin URL that Envoy has written to a file, or None when it has not yet.

    Raises:
        OSError: It found no room for it. Envoy does not look, and would be waited for in vain.
    """
    try:
        address = admin_file.read_text("utf-8").strip()
    except FileNotFoundError:
        return None
    if not address and shutil.disk_usage(admin_file.parent).free == 0:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(admin_file))
    return f"http://{address}" if address else None


def _end_of(gateway: Child, upstream: Child) -> str | None:
    """Say how the gateway ended; the upstream's end has its own sentence."""
    if upstream.end is not None:
        raise GatewayError(
            f"the upstream {upstream.end} before the gateway was ready; expected it to live as "
            "long as the gateway; its last log lines are above",
            detail=upstream.last_lines(),
        )
    return gateway.end


def _wiring(plan: Plan, loadable: Loadable, upstream: _Upstream) -> Wiring:
    host, _, port = upstream.model.rpartition(":")
    return Wiring(
        module=str(loadable.module),
        cluster_filter=str(loadable.cluster_filter) if loadable.cluster_filter else None,
        listeners=[
            Address(host=_LOOPBACK, port=port)
            for port in plan.listener_ports or [0] * len(plan.listeners)
        ],
        listeners_file=str(plan.folder / envoy_config.LISTENERS),
        admin=Address(host=_LOOPBACK, port=0),
        upstream=Address(host=host, port=int(port)),
        access_log=str(plan.folder / "logs" / "access.log"),
        stop_iteration=plan.stop_iteration,
    )


def _trouble(gateway: Child, upstream: Child) -> str | None:
    """Say which process has ended; asked when an exchange has failed.

    A process that is killed closes its connections before it can be seen to have ended, so it is
    given a moment.
    """
    deadline = time.monotonic() + _SEEN_WITHIN_S
    while True:
        for child in (gateway, upstream):
            if child.end is not None:
                last = child.last_lines().splitlines()
                shown = f"; its last log line: {last[-1]}" if last else ""
                return f"the {child.name} {child.end} before the matrix was done{shown}"
        if time.monotonic() >= deadline:
            return None
        time.sleep(_SEEN_PAUSE_S)


def _ports(testbed: Testbed, admin_url: str) -> dict[str, str]:
    """Return every port of a testbed, by what it is for."""
    return {f"gateway {name}": url for name, url in testbed.gateway_urls.items()} | {
        "gateway admin": admin_url,
        "upstream control": testbed.control_url,
        "upstream model": testbed.upstream_address,
    }


def _proof(life: _Life, testbed: Testbed) -> Cleanup:
    """Look again for what was started: processes by id, ports by connecting."""
    return Cleanup(
        processes=list(life.seen),
        listening=life.listening,
        refused=admin.refused(_ports(testbed, life.admin)),
        network_isolation=_NO_ISOLATION,
    )
