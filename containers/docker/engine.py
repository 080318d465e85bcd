"""The docker engine: gateway and upstream as containers on a network that leads nowhere.

    client -- 127.0.0.1:chosen by Docker -- relay -- [ inside: gateway -- upstream ]

The inside network is internal: no way out, and (on Linux, moby 36174) no published ports either.
The relay is on both sides and publishes what the client needs: the gateway's listeners, its admin
interface and the upstream's control port.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from docker.errors import APIError, DockerException

from containers import admin, envoy, envoy_config, interrupts, loading, readiness, upstream_program
from containers.docker import images, server
from containers.docker.images import GatewayImage
from containers.docker.parts import FILES, RUN_LABEL, OwnNetwork, Part
from containers.docker.server import Daemon
from containers.envoy_config import Address, Wiring
from containers.listeners import Listeners
from containers.loading import Loadable
from containers.records import (
    Cleanup,
    EngineKind,
    GatewayFacts,
    GatewayKind,
    Listed,
    Namespace,
    TestbedFacts,
    Timings,
)
from containers.testbed import Plan, Testbed
from wasm.foundation.errors import GatewayError
from wasm.records import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import docker

_EVERYWHERE = "0.0.0.0"  # noqa: S104 - inside a network of its own
_MODEL, _CONTROL, _ADMIN, _FIRST_LISTENER = 8080, 8081, 9901, 10000
_ENVOY = "/usr/local/bin/envoy"
_CONFIG = "envoy.json"
_LISTENERS = "listeners/listeners.json"
# In bytes. A VM takes 60 MB, and while a listener is renewed it has two.
_MEMORY = 2 << 30
_MEMORY_A_LISTENER = 160 << 20
# Docker needs a moment to see that a container has ended.
_SEEN_WITHIN_S = 1.0
_SEEN_PAUSE_S = 0.02
# What a cell reads of the log at most. Go's last words took 1718 lines for one goroutine of 100
# frames, and Docker counts the access log's lines too, which Envoy writes by the hundred. Docker
# reads them all to find those since a mark: 2.5 ms a cell at first, 15 ms from 4000 lines on;
# without a bound 33 ms after 2000 cells, and ever more.
_NEWEST_LINES = 4000
_ISOLATION = (
    "gateway and upstream had an internal network to themselves; their routing tables, read inside "
    "their namespaces, have no default route"
)


@contextlib.contextmanager
def opened(plan: Plan) -> Iterator[Testbed]:
    """Open a testbed of containers; everything is gone when the context ends.

    Raises:
        BuildError: The module cannot be loaded by this gateway, or the upstream did not build.
        GatewayError: No daemon answers, an image cannot be had, or a container ended before its
            time.
    """
    start = time.monotonic()
    daemon = server.connect()
    with server.errors_told(), interrupts.ClosedInPeace() as stack:
        stack.callback(daemon.close)
        life = _Life(plan, daemon, stack)
        stack.callback(life.prove)
        testbed = _start(life)
        testbed.timings = replace(testbed.timings, opened_s=time.monotonic() - start)
        life.testbed = testbed
        stack.callback(life.close)
        yield testbed


@dataclass
class _Life:
    """A testbed from its opening to its proof of clean-up.

    Attributes:
        run: Names everything that belongs to it.
        parts: The containers, by role, as long as they are there.
        before: What Docker listed for this run while the testbed was open.
        listening: Which ports took a connection just before closing.
        namespaces: What the network namespaces of gateway and upstream could reach.
    """

    plan: Plan
    daemon: Daemon
    stack: contextlib.ExitStack
    parts: dict[str, Part] = field(default_factory=dict)
    before: Listed = field(default_factory=Listed)
    listening: dict[str, bool] = field(default_factory=dict)
    namespaces: list[Namespace] = field(default_factory=list)
    testbed: Testbed | None = None
    admin: str = ""
    closing_since: float = 0.0

    def __post_init__(self) -> None:
        """Choose a name that no other testbed has."""
        self.run = f"{self.plan.folder.name}-{secrets.token_hex(3)}"

    def network(self, *, internal: bool) -> OwnNetwork:
        """Make a network that ends with the testbed."""
        with interrupts.held():
            return self.stack.enter_context(OwnNetwork(self.run, internal=internal))

    def start(self, part: Part) -> Part:
        """Start a container that ends with the testbed."""
        with interrupts.held():
            self.parts[part.role] = self.stack.enter_context(part)
        return part

    def close(self) -> None:
        """Keep what the gateway counted, stop it, and keep every log, complete."""
        self.closing_since = time.monotonic()
        if self.testbed is not None:
            self.testbed.close_clients()
            self.listening = admin.listening(_ports(self.testbed, self.admin))
        (self.plan.folder / "logs").mkdir(parents=True, exist_ok=True)
        try:
            admin.snapshot(self.admin, self.plan.folder)
        finally:
            # All at once: Docker takes half a second to end a container, and has time for others.
            with ThreadPoolExecutor(len(self.parts)) as pool:
                ended = [pool.submit(self._end, part) for part in self.parts.values()]
        # Only now is an error of one raised: every other has been ended, and its log kept.
        for of_part in ended:
            of_part.result()

    def _end(self, part: Part) -> None:
        """End a part, keep all that it has written, and remove it."""
        part.quit(self.plan.limits.stop_s)
        stdout, stderr = part.streams()
        logs = self.plan.folder / "logs"
        (logs / f"{part.role}.log").write_bytes(stderr)
        if part.role == "gateway":
            (logs / "access.log").write_bytes(stdout)
        part.stop()

    def running(self) -> bool:
        """Whether every part runs, asked in one request."""
        label = {"label": f"{RUN_LABEL}={self.run}"}
        return len(self.daemon.client.api.containers(quiet=True, filters=label)) >= len(self.parts)

    def end_of_gateway(self) -> str | None:
        """Say how the gateway ended before it was ready, or None while it runs.

        Raises:
            GatewayError: Another part ended, without which it can never be seen to be ready.
        """
        if self.running():
            return None
        for part in self.parts.values():
            if part.end is not None and part.role != "gateway":
                raise GatewayError(
                    f"the {part.role} {part.end} before the gateway was ready; expected it to live "
                    "as long as the gateway; its last log lines are above",
                    detail=part.last_lines(),
                )
        gateway = self.parts.get("gateway")
        return None if gateway is None else gateway.end

    def trouble(self) -> str | None:
        """Say which part has ended; asked when an exchange has failed."""
        deadline = time.monotonic() + _SEEN_WITHIN_S
        while True:
            for part in self.parts.values():
                end = part.end
                if end is not None:
                    last = part.last_lines().splitlines()
                    shown = f"; its last log line: {last[-1]}" if last else ""
                    return f"the {part.role} {end} before the matrix was done{shown}"
            if time.monotonic() >= deadline:
                return None
            time.sleep(_SEEN_PAUSE_S)

    def prove(self) -> None:
        """Look again for all that was started, once it should be gone."""
        if self.testbed is None:
            return
        self.testbed.cleanup = Cleanup(
            before=self.before,
            after=_listed(self.daemon.client, self.run),
            listening=self.listening,
            refused=admin.refused(_ports(self.testbed, self.admin)),
            namespaces=self.namespaces,
            network_isolation=_ISOLATION,
        )
        self.testbed.timings = replace(
            self.testbed.timings, closed_s=time.monotonic() - self.closing_since
        )


def _ports(testbed: Testbed, admin_url: str) -> dict[str, str]:
    """Return every published port of a testbed, by what it is for."""
    return {f"gateway {name}": url for name, url in testbed.gateway_urls.items()} | {
        "gateway admin": admin_url,
        "upstream control": testbed.control_url,
    }


@dataclass(frozen=True)
class _Makings:
    """What a testbed is made of, before any of its parts runs.

    Attributes:
        files: What the gateway loads.
        inside: The network of gateway and upstream.
        image: The gateway's.
        program: The upstream's.
        mock: The name of the upstream's image, which the relay runs too.
    """

    files: Loadable
    inside: OwnNetwork
    image: GatewayImage
    program: Path
    mock: str


def _made(life: _Life) -> _Makings:
    files = loading.of(life.plan)
    program = upstream_program.program()
    # Before the images: it tells a `nox -s clean` beside us that a run lives, which may use them.
    inside = life.network(internal=True)
    image = _gateway_image(life.plan, life.daemon)
    mock = images.upstream_image(life.daemon, program)
    return _Makings(files, inside, image, program, mock)


def _start(life: _Life) -> Testbed:
    """Start every part; what can be done while the gateway compiles is done then."""
    plan, made = life.plan, _made(life)
    upstream = life.start(_upstream(life.run, made))
    with _ends_told(life):
        wiring = _wiring(plan, made.files, upstream.address(made.inside))
        config = envoy_config.write(plan, wiring).read_bytes()
        listeners = Listeners(plan, wiring)
        files = {_CONFIG: config, _LISTENERS: listeners.plan_first()}
        gateway = _started_gateway(life, made.image, _gateway(life, made, files, upstream))
        since = time.monotonic()
        ports = _relayed(life, made, upstream, gateway)
        life.namespaces = [_closed(life, made.mock, part) for part in (upstream, gateway)]
    life.admin = ports[_ADMIN]
    readiness.await_live(lambda: life.admin, life.end_of_gateway, gateway.last_lines, plan.limits)
    ready_s = time.monotonic() - since
    log = _ContainerLog(gateway, "stderr")
    with admin.explained(life.trouble, gateway.last_lines):
        listeners.started(life.admin, log)
        version = admin.envoy_version(life.admin)
    life.before = _listed(life.daemon.client, life.run)
    testbed = Testbed(
        facts=_facts(life, made, config, version),
        limits=plan.limits,
        gateway_urls={
            listener.name: ports[_FIRST_LISTENER + number]
            for number, listener in enumerate(plan.listeners)
        },
        control_url=ports[_CONTROL],
        upstream_address=f"{upstream.address(made.inside)}:{_MODEL}",
        listeners=listeners,
        gateway_log=log,
        access_log=_ContainerLog(gateway, "stdout"),
        look_for_end=life.trouble,
        timings=Timings(gateway_ready_s=ready_s),
    )
    listeners.hand_over = testbed.put_listeners
    return testbed


def _facts(life: _Life, made: _Makings, config: bytes, envoy_version: str) -> TestbedFacts:
    kind, image, adapter = life.plan.gateway, made.image, made.files.facts
    return TestbedFacts(
        engine=EngineKind.DOCKER,
        gateway=GatewayFacts(
            kind=kind,
            image=image.reference,
            digest=image.digest,
            envoy_version=envoy_version,
            platform=image.platform,
            release_evidence=images.is_pinned(kind, image.digest, adapter),
        ),
        upstream_sha256=sha256_of(made.program.read_bytes()),
        adapter=adapter,
        gateway_config_sha256=sha256_of(config),
        upstream_image=made.mock,
        docker_server=life.daemon.version,
        commands={role: part.argv for role, part in life.parts.items()},
    )


def _started_gateway(life: _Life, image: GatewayImage, gateway: Part) -> Part:
    try:
        return life.start(gateway)
    except APIError as error:
        raise GatewayError(
            f"the gateway image {image.reference} cannot be run: {error.explanation}; expected a "
            f"Higress gateway, whose program is {_ENVOY}; name another with --gateway-image"
        ) from error


@contextlib.contextmanager
def _ends_told(life: _Life) -> Iterator[None]:
    """Tell what could not be done with a part by the part's end, if that is why."""
    try:
        yield
    except (DockerException, GatewayError) as error:
        if life.trouble() is None:
            raise
        end = life.end_of_gateway()
        if end is None:
            raise
        raise readiness.ended_too_soon(end, life.parts["gateway"].last_lines()) from error


def _gateway_image(plan: Plan, daemon: Daemon) -> GatewayImage:
    if plan.gateway is GatewayKind.HIGRESS:
        return images.pulled(daemon, plan.gateway_image or images.HIGRESS_GATEWAY)
    return images.envoy_image(daemon, envoy.program(plan.envoy))


def _upstream(run: str, made: _Makings) -> Part:
    command = ["serve", f"--model={_EVERYWHERE}:{_MODEL}", f"--control={_EVERYWHERE}:{_CONTROL}"]
    command.append(f"--listeners={FILES}/{_LISTENERS}")
    part = Part("upstream", run, image=made.mock, network=made.inside, command=command)
    return part.with_volume()


def _gateway(life: _Life, made: _Makings, files: dict[str, bytes], upstream: Part) -> Part:
    part = Part(
        "gateway",
        life.run,
        image=made.image.name,
        network=made.inside,
        command=["--config-path", f"{FILES}/{_CONFIG}", *envoy_config.ARGUMENTS],
        entrypoint=_ENVOY,
        # The upstream replaces the file of listeners in it: files can be copied into a container,
        # but not renamed there, and Envoy follows nothing else.
        volumes_from=[upstream.id],
        mem_limit=_MEMORY + _MEMORY_A_LISTENER * len(life.plan.listeners),
    )
    loaded = {path.name: path.read_bytes() for path in made.files.files}
    return part.with_files(files | loaded)


def _relayed(life: _Life, made: _Makings, upstream: Part, gateway: Part) -> dict[int, str]:
    """Start the relay on both networks; return the URL of each port that it publishes."""
    outside = life.network(internal=False)
    addresses = {part.role: part.address(made.inside) for part in (upstream, gateway)}
    relay = life.start(_relay(life.run, made.mock, outside, addresses, len(life.plan.listeners)))
    made.inside.connect(relay.id)
    return {inner: f"http://127.0.0.1:{outer}" for inner, outer in relay.published().items()}


def _relay(
    run: str, image: str, outside: OwnNetwork, addresses: dict[str, str], listeners: int
) -> Part:
    """Return the relay; it goes by address, for who asks a dead container's name asks real DNS."""
    roles = {_ADMIN: "gateway", _CONTROL: "upstream"}
    roles |= {_FIRST_LISTENER + number: "gateway" for number in range(listeners)}
    targets = {port: f"{addresses[role]}:{port}" for port, role in roles.items()}
    pairs = [f"--forward={_EVERYWHERE}:{port}={target}" for port, target in targets.items()]
    part = Part("relay", run, image=image, network=outside, command=["relay", *pairs])
    return part.with_published(*targets)


def _closed(life: _Life, image: str, of: Part) -> Namespace:
    """Take any way out of a part's network namespace, and return the routes that are left.

    An internal network's containers have a default route all the same before Docker 23, and only
    a firewall of the daemon's keeps it shut. So a container that shares the namespace, and that
    alone has the right to, removes it; nothing is sent to find out.

    Raises:
        GatewayError: It could not be removed.
    """
    look = Part(
        f"{of.role}-routes",
        life.run,
        image=image,
        network=None,
        command=["routes", "--close"],
        network_mode=f"container:{of.id}",
        cap_add=["NET_ADMIN"],
        user="0:0",
    )
    with interrupts.ClosedInPeace() as stack:
        with interrupts.held():
            stack.enter_context(look)
        status = look.wait()
        stdout, _ = look.streams()
        said = look.last_lines()
    if status != 0:
        raise GatewayError(
            f"the {of.role}'s network could not be closed (exit status {status}): {said}; expected "
            "to remove its default route; check what this Docker daemon allows containers"
        )
    found = msgspec.json.decode(stdout)
    if found["default_route"]:
        raise GatewayError(
            f"the {of.role}'s network still has a default route, so a retry could reach a real "
            "provider; expected an internal network; check this Docker daemon's network driver"
        )
    return Namespace(part=of.role, routes=found["routes"], default_route=found["default_route"])


def _wiring(plan: Plan, files: Loadable, upstream_ip: str) -> Wiring:
    return Wiring(
        module=f"{FILES}/{files.module.name}",
        cluster_filter=f"{FILES}/{files.cluster_filter.name}" if files.cluster_filter else None,
        listeners=[
            Address(host=_EVERYWHERE, port=_FIRST_LISTENER + number)
            for number in range(len(plan.listeners))
        ],
        listeners_file=f"{FILES}/{_LISTENERS}",
        admin=Address(host=_EVERYWHERE, port=_ADMIN),
        upstream=Address(host=upstream_ip, port=_MODEL),
        access_log=None,
        stop_iteration=plan.stop_iteration,
    )


@dataclass(frozen=True)
class _ContainerLog:
    """A log of the gateway while it runs: what its container has written to one of its streams."""

    part: Part
    stream: str

    def mark(self) -> float:
        """Return now, as Docker dates its lines: seconds since the epoch."""
        return time.time()

    def since(self, mark: float) -> str:
        """Return what was logged since then."""
        with contextlib.suppress(DockerException, OSError):
            wrapped = self.part.get_wrapped_container()
            # Docker takes no 0 for the beginning.
            newest = _NEWEST_LINES if mark else "all"
            streams = {name: name == self.stream for name in ("stdout", "stderr")}
            said = wrapped.logs(**streams, since=mark or None, tail=newest)
            return str(said.decode("utf-8", "replace"))
        return ""


def _listed(client: docker.DockerClient, run: str) -> Listed:
    """Return what Docker lists of a run."""
    label = {"label": f"{RUN_LABEL}={run}"}
    return Listed(
        containers=[
            f"{each.name} {each.short_id}"
            for each in client.containers.list(all=True, filters=label, ignore_removed=True)
        ],
        networks=[f"{each.name} {each.short_id}" for each in client.networks.list(filters=label)],
        volumes=[str(each.name) for each in client.volumes.list(filters=label)],
    )
