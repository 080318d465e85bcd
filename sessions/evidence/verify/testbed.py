"""A run's surroundings: its files, its module, its gateway, and what was left of all that."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from containers.docker.images import is_pinned
from containers.envoy_config import UPSTREAM_CLUSTER
from containers.records import EngineKind, GatewayKind
from sessions.evidence.record import inputs, store
from wasm.records import Variant, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from containers.records import TestbedFacts
    from sessions.evidence.record.check_results import Check
    from sessions.evidence.verify.reading import Side
    from wasm.records import Patch

_SHA256 = re.compile(r"[0-9a-f]{64}")
_OBJECT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LOGS = ("access.log", "clusters.txt", "gateway.log", "server_info.json", "stats.txt")


def files(side: Side) -> Check:
    """The run holds exactly the files that its record names, and they are all it must have."""
    there = store.digests(side.folder)
    there.pop(store.RUN, None)
    if side.about and (side.folder / store.SIGNATURE).exists():
        yield f"{store.SIGNATURE} is there, and only a bundle or a lone run is signed"
    for name in sorted({*there, *side.run.files}):
        if name not in there:
            yield f"{name} is missing"
        elif name not in side.run.files:
            yield f"{name} is not among the files of {store.RUN}"
        elif there[name] != side.run.files[name]:
            yield f"{name} does not have the SHA-256 that {store.RUN} says"
    for name in _wanted(side):
        if name not in there:
            yield f"{name} is missing, and every run has it"
    return f"{len(there)} files, as {store.RUN} names them"


def _wanted(side: Side) -> Iterator[str]:
    source = side.run.module.source
    yield from (store.CELLS, store.CLEANUP)
    if side.run.testbed is not None:
        yield from (store.ENVOY, store.LISTENERS)
        yield from (f"config/plugins/{case.name}.json" for case in side.run.cases)
        yield from (f"logs/{name}" for name in (*_LOGS, "upstream.log"))
    if source.fix is not None:
        yield store.FIX
    if source.uncommitted is not None:
        yield store.UNCOMMITTED


def provenance(side: Side) -> Check:
    """The module is of this variant, and its source and every patch are named by their digests."""
    run = side.run
    module, source = run.module, run.module.source
    if module.variant is not run.variant or (side.about and run.variant != side.about):
        yield f"the module is of the {module.variant} variant, expected {side.about or run.variant}"
    for what, digest in (("module", module.sha256), ("files", source.files_sha256)):
        if not _SHA256.fullmatch(digest):
            yield f"the {what} has no SHA-256: {digest!r}"
    for what, name in (("commit", source.commit), ("tree", source.tree)):
        if not _OBJECT.fullmatch(name):
            yield f"the source has no {what}: {name!r}"
    if module.size_bytes <= 0 or not module.command or not module.go_version:
        yield "the module has no size, no build command or no Go version"
    if source.go and f" {source.go.version} " not in f"{module.go_version} ":
        yield f"the source asks for {source.go.version}, the module's Go is {module.go_version}"
    yield from _changes(side)
    return f"module {module.sha256[:12]} of commit {source.commit[:12]}, patches as named"


def _changes(side: Side) -> Iterator[str]:
    """What was changed on top of the commit is told, and only the fixed module has a fix."""
    source, fixed = side.run.module.source, side.run.variant is Variant.FIXED
    if source.dirty is not (source.uncommitted is not None):
        yield "the source is said to be dirty without a patch, or has a patch and is not"
    if fixed is not (source.fix is not None):
        yield "the fixed module has no fix" if fixed else "the baseline has a fix"
    if source.fix is not None:
        yield from _patch(side, store.FIX, source.fix.patch)
    if source.uncommitted is not None:
        yield from _patch(side, store.UNCOMMITTED, source.uncommitted)


def _patch(side: Side, name: str, patch: Patch) -> Iterator[str]:
    if sha256_of(patch.content) != patch.sha256:
        yield f"the patch in {store.RUN} does not have the SHA-256 {patch.sha256}"
    if side.data(name) != patch.content:
        yield f"{name} is not the patch that {store.RUN} has"


def commands(side: Side) -> Check:
    """The commands, the machine and its tools are told."""
    run = side.run
    if f"--variant {run.variant}" not in " ".join(run.command).replace("=", " "):
        yield f"the run's command does not name the {run.variant} variant"
    for what, argv in (("assertion", run.assertion_command), ("clean-up", run.cleanup_command)):
        if not argv:
            yield f"there is no {what} command"
    if not run.machine.system or not run.machine.architecture or not run.machine.versions:
        yield "the machine, or the versions of its tools, are not told"
    if not run.started_at < run.finished_at:
        yield f"it ended at {run.finished_at}, which is not after {run.started_at}"
    return f"{len(run.machine.versions)} tools on {run.machine.system}, {run.machine.architecture}"


def gateway(side: Side) -> Check:
    """The gateway is what its own admin interface says, and took the very module under proof."""
    facts = _facts(side)
    version = facts.gateway.envoy_version
    info = side.data("logs/server_info.json")
    # A gateway that ended before its time could not say so any more.
    if side.whole or info.startswith(b"{"):
        told = msgspec.json.decode(info)["version"]
        if told != version:
            yield f"the gateway's version is {version}, expected {told}, as it said itself"
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", facts.gateway.digest or ""):
        yield f"the gateway has no digest: {facts.gateway.digest!r}"
    if not _SHA256.fullmatch(facts.upstream_sha256):
        yield f"the upstream has no SHA-256: {facts.upstream_sha256!r}"
    yield from _adapted(side, facts)
    yield from _engine(facts)
    pinned = is_pinned(facts.gateway.kind, facts.gateway.digest, facts.adapter)
    if facts.gateway.release_evidence is not pinned:
        yield f"release evidence is said to be {facts.gateway.release_evidence}, expected {pinned}"
    return f"{facts.gateway.kind}, Envoy {version}, engine {facts.engine}"


def _facts(side: Side) -> TestbedFacts:
    if side.run.testbed is None:
        raise ValueError(f"the testbed did not open: {side.run.failure}")
    return side.run.testbed


def _adapted(side: Side, facts: TestbedFacts) -> Iterator[str]:
    adapter = facts.adapter
    if facts.gateway.kind is GatewayKind.HIGRESS:
        if adapter is not None:
            yield "the module was adapted, and Higress' gateway takes it as it is"
        return
    if adapter is None:
        yield "the module was not adapted, and stock Envoy does not take it as it is"
    elif adapter.original_sha256 != side.run.module.sha256:
        yield (
            f"the gateway got a module made from {adapter.original_sha256}, expected "
            f"{side.run.module.sha256}"
        )
    elif adapter.adapted_sha256 == adapter.original_sha256 or not adapter.steps:
        yield "the adapter is not said to have done anything"


def _engine(facts: TestbedFacts) -> Iterator[str]:
    docker = facts.engine is EngineKind.DOCKER
    for what, value in (
        ("gateway image", facts.gateway.image),
        ("upstream image", facts.upstream_image),
        ("Docker server version", facts.docker_server),
    ):
        if docker is not bool(value):
            yield f"the {what} is {value}, which the engine {facts.engine} cannot have"
    if not {"gateway", "upstream"} <= {*facts.commands}:
        yield "the commands of gateway and upstream are not told"


def configuration(side: Side) -> Check:
    """Each plugin got its case's configuration, and the gateway's only way leads to the mock."""
    facts = _facts(side)
    content = side.data(store.ENVOY)
    if sha256_of(content) != facts.gateway_config_sha256:
        yield f"{store.ENVOY} does not have the SHA-256 {facts.gateway_config_sha256}"
    listeners = side.data(store.LISTENERS)
    if inputs.configuration_digest(content, listeners) != side.run.configuration_sha256:
        yield (
            f"{store.ENVOY} and {store.LISTENERS} do not have the digest "
            f"{side.run.configuration_sha256}"
        )
    resources = msgspec.json.decode(content)["static_resources"]
    plugins = dict(_plugins(msgspec.json.decode(listeners)["resources"]))
    # A listener that the gateway refused is taken out of the file, and none of its cells is judged.
    refused = _unseen(side) - {*plugins}
    names = [case.name for case in side.run.cases if case.name not in refused]
    if [*plugins] != names or not {*names} <= {*side.run.listeners}:
        yield f"{store.LISTENERS} has {', '.join(plugins)}, expected {', '.join(names)}"
    for case in [case for case in side.run.cases if case.name not in refused]:
        given = plugins.get(case.name, "")
        if side.text(f"config/plugins/{case.name}.json") != given:
            yield f"config/plugins/{case.name}.json is not what {store.LISTENERS} has"
        if not given or msgspec.json.decode(given) != case.plugin:
            yield f"the plugin of {case.name} got another configuration than its case's"
    found = [(cluster["name"], *_endpoints(cluster)) for cluster in resources["clusters"]]
    wanted = [(UPSTREAM_CLUSTER, side.run.upstream_address)]
    if found != wanted:
        yield f"{store.ENVOY} has the clusters {found}, expected {wanted}"
    return f"{len(plugins)} plugin configurations, one cluster, {side.run.upstream_address}"


def _unseen(side: Side) -> set[str]:
    """Return the cases whose last cell got no response and no attempt, and gives a reason."""
    last = {result.cell.case: result for result in side.results}
    return {
        name
        for name, result in last.items()
        if result.fault and result.response is None and not result.attempts
    }


def _plugins(listeners: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Give listener and plugin configuration, the adapter's own filter left out."""
    for listener in listeners:
        manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
        for each in manager["http_filters"]:
            if each["name"] == "plugin":
                yield listener["name"], each["typed_config"]["config"]["configuration"]["value"]


def _endpoints(cluster: dict[str, Any]) -> Iterator[str]:
    for group in cluster["load_assignment"]["endpoints"]:
        for each in group["lb_endpoints"]:
            where = each["endpoint"]["address"]["socket_address"]
            yield f"{where['address']}:{where['port_value']}"


def shared_inputs(side: Side) -> Check:
    """The digest of all that both variants share, made again."""
    run = side.run
    made = inputs.digest(run.cases, run.repeats, run.testbed, run.configuration_sha256)
    if made != run.inputs_sha256:
        yield f"the inputs have the digest {made}, expected {run.inputs_sha256}"
    return f"inputs {made[:12]}"


def clean_up(side: Side) -> Check:
    """All that was started is gone, and no port takes a connection any more."""
    proof = side.cleanup
    for left in proof.leftovers:
        yield f"{left} is still there"
    if not proof.complete:
        yield "nobody has looked whether anything was left"
    if {*proof.listening} != {*proof.refused}:
        yield "other ports were looked at before closing than afterwards"
    facts = _facts(side)
    if side.whole and not all(proof.listening.values()):
        yield "a port took no connection before closing, so its refusal shows nothing"
    if len(proof.refused) < len(side.run.listeners) + 2:
        yield f"{len(proof.refused)} ports were looked at, fewer than a testbed has"
    for name, url in side.run.listeners.items():
        address = url.removeprefix("http://")
        if f"gateway {name} {address}" not in proof.refused:
            yield f"the port of the listener {name}, {address}, was not looked at"
    if facts.engine is EngineKind.PROCESS:
        if sorted(seen.name for seen in proof.processes) != ["gateway", "upstream"]:
            yield "gateway and upstream are not among the processes that were looked at"
    else:
        yield from _containers(side)
    return f"{len(proof.refused)} ports refuse, nothing is left"


def _containers(side: Side) -> Iterator[str]:
    proof = side.cleanup
    if proof.before is None or proof.after is None or not proof.before.networks:
        yield "Docker was not asked before and after"
    if {space.part for space in proof.namespaces} != {"gateway", "upstream"}:
        yield "the routes of gateway and upstream are not told"
    for space in proof.namespaces:
        if space.default_route:
            yield f"the {space.part} had a default route: a retry could have got out"
