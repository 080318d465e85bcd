"""What both reports say beside the cells: for whom it holds, origin, times, commands. Pure."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from containers.options import TESTBED_OPTIONS
from sessions.matrix.options import MATRIX_OPTIONS
from wasm.options import SOURCE_OPTIONS
from wasm.records import UNPUBLISHED, FixKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from containers.records import Cleanup
    from sessions.evidence.record.records import Comparison, Run

_REFERENCE, _CHECKOUT = "reference", "checkout"
_HIGRESS_FIX = "higress-"


class Fact(NamedTuple):
    """Something told of both variants; ``fixed`` is None where it is the same for both."""

    what: str
    baseline: str
    fixed: str | None


class Times(NamedTuple):
    """Where a run's time went, in seconds; the floor is what no harness could do without."""

    whole_s: float
    ready_s: float
    exchanges_s: float
    build_s: float

    @property
    def floor_s(self) -> float:
        """The gateway's own start to LIVE with that module, and the exchanges."""
        return self.ready_s + self.exchanges_s

    @property
    def beyond_s(self) -> float:
        """What the session took on top."""
        return self.whole_s - self.floor_s


def envoy(version: str) -> str:
    """Return the number in Envoy's own version string."""
    parts = version.split("/")
    return parts[1] if len(parts) > 1 else version


def gateway(comparison: Comparison) -> str:
    """Name the gateway in a few words."""
    known = comparison.gateway
    image = f", image {known.image}" if known.image else ""
    return f"{known.kind}, Envoy {envoy(known.envoy_version)}, engine {comparison.engine}{image}"


class Holds(NamedTuple):
    """For whom a verdict holds: what to see first, and the sentence around it."""

    strong: str
    sentence: str


def holds_for(comparison: Comparison, fixed: Run) -> tuple[Holds, ...]:
    """Say for whom a verdict holds."""
    version = envoy(comparison.gateway.envoy_version)
    adapted = fixed.testbed is not None and fixed.testbed.adapter is not None
    which = "stock Envoy" if comparison.gateway.kind == "envoy" else "Higress' gateway, Envoy"
    module = "an adapted module" if adapted else "the module as it was built"
    seen = f"Seen in {which} {version}, engine {comparison.engine}, with {module}."
    if comparison.release_evidence:
        gateway = Holds("Release evidence", f"for Higress' pinned gateway. {seen}")
    else:
        why = "; ".join(comparison.no_release_evidence) or "the gateway was another"
        gateway = Holds("Not release evidence", f"for Higress' gateway: {why}. {seen}")
    if not is_reference(fixed):
        return (gateway,)
    plugin = (
        "that gateway-proof bundles: it shows that the method finds the defect and the fix, and "
        "says nothing of a Higress checkout."
    )
    return gateway, Holds("The plugin is the small reference plugin", plugin)


def issue(fixed: Run) -> str | None:
    """Return the number of the Higress issue that a built-in fix is for, if it is known."""
    source = fixed.module.source
    if source.fix is None or source.fix.origin.kind is not FixKind.BUILT_IN:
        return None
    number = source.fix.origin.name.removeprefix(_HIGRESS_FIX)
    return number if number.isascii() and number.isdigit() else None


def is_reference(fixed: Run) -> bool:
    """Whether the plugin is the bundled one."""
    return fixed.module.source.kind == _REFERENCE


def times(run: Run) -> Times:
    """Return where a run's time went."""
    return Times(
        whole_s=_between(run.started_at, run.finished_at),
        ready_s=run.timings.gateway_ready_s,
        exchanges_s=run.exchanges_s,
        build_s=run.module.seconds,
    )


def _between(start: str, end: str) -> float:
    try:
        passed = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    except (ValueError, TypeError):
        # No times as we write them; a report shows what there is, `verify` judges it.
        return 0.0
    return passed.total_seconds()


def provenance(baseline: Run, fixed: Run) -> tuple[Fact, ...]:
    """Return where both modules came from, and what ran them; what is equal is said once."""
    told: list[Fact] = []
    for what, of in (*_SOURCE.items(), *_TESTBED.items()):
        one, other = of(baseline), of(fixed)
        if one or other:
            told.append(Fact(what, one or "none", None if one == other else other or "none"))
    return tuple(told)


def _patch(run: Run) -> str:
    change = run.module.source.uncommitted
    return f"SHA-256 {change.sha256}" if change else ""


def _fix(run: Run) -> str:
    fix = run.module.source.fix
    if fix is None:
        return ""
    places = ", ".join(f"{rule} {count}" for rule, count in fix.places.items())
    told = f"{fix.origin}, patch SHA-256 {fix.patch.sha256}" + (f" ({places})" if places else "")
    return f"{told}, in {', '.join(fix.folders)}" if fix.folders else told


def _left_out(run: Run) -> str:
    fix = run.module.source.fix
    return ", ".join(fix.left_out) if fix else ""


def _go(run: Run) -> str:
    go = run.module.source.go
    return run.module.go_version + (f" ({go.because})" if go else "")


def _published(run: Run) -> str:
    return f"the commit {UNPUBLISHED}" if run.module.source.unpublished else ""


def _environment(run: Run) -> str:
    return " ".join(f"{key}={shlex.quote(v)}" for key, v in run.module.environment.items())


_SOURCE: dict[str, Callable[[Run], str]] = {
    "module SHA-256": lambda run: run.module.sha256,
    "module size": lambda run: f"{run.module.size_bytes:,} bytes",
    "repository": lambda run: run.module.source.repository,
    "commit": lambda run: run.module.source.commit,
    "whether others can fetch it": _published,
    "asked for as": lambda run: run.module.source.ref,
    "plugin folder": lambda run: run.module.source.plugin,
    "tree of that folder": lambda run: run.module.source.tree,
    "uncommitted changes": _patch,
    "fix applied": _fix,
    "notes on the source": lambda run: "; ".join(run.module.source.notes),
    "how it was applied": lambda run: (
        run.module.source.fix.applied if run.module.source.fix else ""
    ),
    "not part of the fixed module": _left_out,
    "files as built, SHA-256": lambda run: run.module.source.files_sha256,
    "Go": _go,
    "build command": lambda run: shlex.join(run.module.command),
    "build environment": _environment,
}


def _facts(get: Callable[[Run], str]) -> Callable[[Run], str]:
    return lambda run: get(run) if run.testbed else ""


def _adapter(run: Run) -> str:
    adapter = run.testbed.adapter if run.testbed else None
    return " ".join(adapter.steps) if adapter else ""


def _adapted(run: Run) -> str:
    adapter = run.testbed.adapter if run.testbed else None
    return adapter.adapted_sha256 if adapter else ""


_TESTBED: dict[str, Callable[[Run], str]] = {
    "adapter": _adapter,
    "adapted module SHA-256": _adapted,
    "gateway": _facts(lambda run: run.testbed.gateway.kind if run.testbed else ""),
    "gateway image": lambda run: (run.testbed and run.testbed.gateway.image) or "",
    "gateway digest": lambda run: (run.testbed and run.testbed.gateway.digest) or "",
    "Envoy's own version": lambda run: run.testbed.gateway.envoy_version if run.testbed else "",
    "platform": lambda run: run.testbed.gateway.platform if run.testbed else "",
    "gateway configuration, SHA-256": lambda run: (
        run.testbed.gateway_config_sha256 if run.testbed else ""
    ),
    "the same without a run's own ports and files": lambda run: run.configuration_sha256,
    "upstream SHA-256": lambda run: run.testbed.upstream_sha256 if run.testbed else "",
    "notes": lambda run: " ".join(run.testbed.notes) if run.testbed else "",
    "inputs of both, SHA-256": lambda run: run.inputs_sha256,
    "machine": lambda run: (
        f"{run.machine.system}, {run.machine.architecture}, {run.machine.cpus} CPUs"
    ),
    "tools": lambda run: ", ".join(
        version if version.startswith(name) else f"{name} {version}"
        for name, version in run.machine.versions.items()
    ),
    "upstream image": lambda run: (run.testbed and run.testbed.upstream_image) or "",
    "Docker server": lambda run: (run.testbed and run.testbed.docker_server) or "",
    "environment": lambda run: " ".join(
        f"{name}={shlex.quote(value)}" for name, value in run.environment.items()
    ),
    "run": lambda run: run.id,
    "started": lambda run: run.started_at,
    "finished": lambda run: run.finished_at,
}


def rerun(baseline: Run, fixed: Run, *, unit: bool) -> tuple[str, ...]:
    """Return the commands that run the pair again from the same commits, at a shell.

    The options are those of the fixed run's own command; the refs of clean trees become commits,
    and what only the author's machine has is named by what it is.

    Args:
        baseline: The one run.
        fixed: The other.
        unit: Whether Go's own tests belong to it.
    """
    options = _options(fixed.command)
    source = baseline.module.source
    versions = fixed.machine.versions
    ours = source.commit if source.kind == _REFERENCE else versions.get("gateway-proof")
    before = [f"git checkout {shlex.quote(ours)}  # in a clone of gateway-proof"] if ours else []
    if "--fixed-patch" in options:
        options["--fixed-patch"] = "PATH/OF/THE/BUNDLE/fixed/config/fix.patch"
    if source.kind == _CHECKOUT:
        name = source.repository.rstrip("/").rpartition("/")[2].removesuffix(".git")
        options["--source"] = f"PATH/TO/{name}"
    made = fixed.module.source
    if "--fixed-worktree" in options and made.dirty:
        before.append(f"# first check out {made.commit}, and apply fixed/config/uncommitted.patch:")
    elif options.pop("--fixed-worktree", None) is not None:
        options["--fixed-ref"] = made.commit
    unpublished = {each.commit: "" for each in (source, made) if each.unpublished}
    before += [f"# commit {commit} {UNPUBLISHED}" for commit in unpublished]
    if source.kind != _REFERENCE and source.dirty:
        before.append("# first apply baseline/config/uncommitted.patch to the checkout:")
    elif source.kind != _REFERENCE:
        options["--baseline-ref"] = source.commit
    if "--fixed-ref" in options:
        options["--fixed-ref"] = fixed.module.source.commit
    given = [f"{flag}={value}" if value else flag for flag, value in options.items()]
    tail = f" -- {shlex.join(given)}" if given else ""
    sessions = "unit runtime-baseline runtime-fixed" if unit else "runtime-baseline runtime-fixed"
    return (*before, f"nox -s {sessions}{tail}")


def _options(command: list[str]) -> dict[str, str]:
    """Take the options of ours out of a recorded command line."""
    known = {**SOURCE_OPTIONS, **TESTBED_OPTIONS, **MATRIX_OPTIONS}
    words = (word.partition("=") for word in command)
    return {flag: value for flag, _, value in words if flag in known}


def cleanup(proof: Cleanup) -> Iterator[tuple[str, bool]]:
    """Give each thing that was looked for after the testbed closed, and whether it was gone."""
    for seen in proof.processes:
        status = "" if seen.exit_status is None else f", exit status {seen.exit_status}"
        state = "ended" if seen.ended else "still there"
        yield f"process {seen.pid}, the {seen.name}: {state}{status}", seen.ended
    if proof.before is not None:
        left = proof.after.everything if proof.after else ()
        for name in proof.before.everything:
            gone = name not in left
            yield f"{name}: {'removed' if gone else 'still there'}", gone
    for name, refused in proof.refused.items():
        state = "refuses a connection" if refused else "still takes a connection"
        yield f"port of {name}: {state}", refused
