"""Whole run folders made by hand: what a process run leaves, without an Envoy."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

import msgspec

from containers import envoy_config
from containers.endings import Ending
from containers.envoy_config import Address, Wiring
from containers.exchange import Answer
from containers.records import AdapterFacts, Cleanup, Listener, ProcessSeen, TestbedFacts, Timings
from containers.testbed import Plan
from sessions.evidence.pair import bundle
from sessions.evidence.record import folders, inputs, store
from sessions.evidence.record.records import Counts, exchanges_s, first_keys
from sessions.matrix import cells
from sessions.matrix.case import Mode
from tests.unit.evidence.runs import CASES, facts, module, run
from tests.unit.matrix.observations import ADDRESS, CONTROL, KLING, defective, right
from wasm.gotest.test_events import Suite
from wasm.gotest.unit import UnitRun
from wasm.records import Fix, FixKind, Origin, Patch, Variant, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from containers.exchange import Attempt
    from sessions.evidence.record.records import Run
    from sessions.matrix.case import Case
    from sessions.matrix.records import Cell, Observation, Result

REPEATS = 3
LISTENERS = {KLING.name: "http://127.0.0.1:40011", CONTROL.name: "http://127.0.0.1:40012"}
PATCH = Patch.of(
    b"diff --git a/provider/failover.go b/provider/failover.go\n"
    b"--- a/provider/failover.go\n+++ b/provider/failover.go\n@@ -1 +1 @@\n-old\n+new\n"
)
PORTS = [
    *(f"gateway {name} {url.removeprefix('http://')}" for name, url in LISTENERS.items()),
    "gateway admin 127.0.0.1:40013",
    "upstream control 127.0.0.1:40014",
    f"upstream model {ADDRESS}",
]
CLEANUP = Cleanup(
    processes=[
        ProcessSeen(name="gateway", pid=11, exit_status=0, ended=True),
        ProcessSeen(name="upstream", pid=10, exit_status=0, ended=True),
    ],
    listening=dict.fromkeys(PORTS, True),
    refused=dict.fromkeys(PORTS, True),
    network_isolation="none was enforced",
)
TIMINGS = Timings(gateway_ready_s=3.5, opened_s=4.0, closed_s=0.1)


def results(
    variant: Variant, repeats: int = REPEATS, *, shows_defect: bool | None = None
) -> list[Result]:
    """Every cell of a run as a journal tells it; the first key alternates."""
    defect = variant is Variant.BASELINE if shows_defect is None else shows_defect
    by_name = {case.name: case for case in CASES}
    found: list[Result] = []
    epoch = sequence = 0

    def seen_of(cell: Cell, vm: str, *, alone: bool = False) -> Observation:
        nonlocal epoch, sequence
        case = by_name[cell.case]
        wrong = defect and case is KLING and cell.mode is Mode.RETRY
        seen = defective(case) if wrong else right(case, cell.mode)
        assert seen.response is not None
        epoch += 1
        attempts = tuple(_journaled(case, cell, seen, epoch, sequence))
        sequence += len(attempts)
        headers = (("content-type", "application/json"), ("x-of", "the gateway"))
        return msgspec.structs.replace(
            seen,
            request=cells.request(case, cell, alone=alone),
            attempts=attempts,
            response=msgspec.structs.replace(seen.response, headers=headers),
            ending=Ending(flags="-", details="via_upstream") if wrong else None,
            vm=vm,
            seconds=0.01,
        )

    for cell in cells.plan(CASES, repeats):
        case = by_name[cell.case]
        seen = seen_of(cell, f"{cell.case}#{min(cell.repeat, cells.FRESH_VMS)}")
        result = cells.conclude(case, cell, variant, seen, ADDRESS)
        if cells.to_be_confirmed(result, found):
            alone = seen_of(cell, f"{cell.case}#alone-{cell.repeat}", alone=True)
            result = cells.conclude(case, cell, variant, seen, ADDRESS, alone)
        found.append(result)
    return found


def _journaled(
    case: Case, cell: Cell, seen: Observation, epoch: int, sequence: int
) -> Iterable[Attempt]:
    """Number the attempts through, and let the upstream answer as its script says."""
    steps = cells.script(case, cell.mode)["steps"]
    keys = case.keys if epoch % 2 else case.keys[::-1]
    for number, attempt in enumerate(seen.attempts):
        unmet = ("path", "json_body") if attempt.target != case.upstream.target else ()
        answer = steps[number]["respond"]
        refusal = {"error": "attempt did not match", "step": "retry", "unmet": list(unmet)}
        answered = Answer(
            status=400 if unmet else answer["status"],
            headers=(("content-type", "application/json"),),
            body=msgspec.json.encode(refusal if unmet else answer["json_body"]),
        )
        yield msgspec.structs.replace(
            attempt,
            epoch=epoch,
            sequence=sequence + number + 1,
            received_mono_ns=1_000_000 * (sequence + number + 1),
            answered_mono_ns=1_000_000 * (sequence + number + 1) + 400_000,
            headers=(
                ("authorization", f"Bearer {keys[number % 2]}"),
                ("content-type", "application/json"),
            ),
            step=steps[number]["name"],
            matched=not unmet,
            unmet=unmet,
            answered=answered,
        )


def write(
    folder: Path, variant: Variant, found: Sequence[Result] | None = None, **changes: Any
) -> Path:
    """Write a run's folder, sealed; ``changes`` are of its record."""
    repeats = changes.pop("repeats", REPEATS)
    found = results(variant, repeats) if found is None else found
    folder.mkdir(parents=True)
    config = _config(folder, variant)
    write_logs(folder, [each for each in found if each.response])
    (folder / "junit.xml").write_text(junit(found))
    store.write_cells(folder, found)
    store.write_json(folder / store.CLEANUP, CLEANUP)
    fix = Fix(
        origin=Origin(kind=FixKind.BUILT_IN, name="higress-4396"),
        patch=PATCH,
        baseline_sha256="b" * 64,
    )
    made = module(variant, fix=fix if variant is Variant.FIXED else None)
    store.write_patches(folder, made)
    configuration = inputs.configuration_digest(config, (folder / store.LISTENERS).read_bytes())
    known = _facts(made.sha256, config)
    record = run(
        variant,
        id=folder.name if folder.name != variant else f"20260101T000000Z-{variant}-000000",
        command=["python", "-m", "pytest", "tests/runtime", f"--variant={variant}"],
        session_command=["nox", "-s", f"runtime-{variant}"],
        assertion_command=["nox", "-s", "report", "verify"],
        cleanup_command=["nox", "-s", "clean"],
        environment={"LANG": "C.UTF-8"},
        module=made,
        testbed=known,
        repeats=repeats,
        listeners=LISTENERS,
        inputs_sha256=inputs.digest(CASES, repeats, known, configuration),
        configuration_sha256=configuration,
        counts=Counts.of(found),
        first_keys=first_keys(found),
        timings=TIMINGS,
        exchanges_s=exchanges_s(found),
    )
    record = msgspec.structs.replace(
        record, machine=msgspec.structs.replace(record.machine, versions={"python": "3.11.7"})
    )
    rewrite(folder, msgspec.structs.replace(record, **changes))
    return folder


def rewrite(folder: Path, record: Run) -> None:
    """Write a run's record with the digests of all its files, and seal the folder."""
    files = {name: sha for name, sha in store.digests(folder).items() if name != store.RUN}
    store.write_json(folder / store.RUN, msgspec.structs.replace(record, files=files))
    store.seal(folder)


def _facts(module_sha256: str, config: bytes) -> TestbedFacts:
    adapter = AdapterFacts(
        original_sha256=module_sha256,
        adapted_sha256="4" * 64,
        cluster_filter_sha256="5" * 64,
        steps=["The export is renamed."],
    )
    return replace(
        facts(adapter=adapter, gateway_config_sha256=sha256_of(config)),
        commands={"gateway": ["envoy"], "upstream": ["upstream", "serve"]},
    )


def _config(folder: Path, variant: Variant) -> bytes:
    host, _, port = ADDRESS.rpartition(":")
    plan = Plan(
        module=module(variant),
        listeners=tuple(Listener(name=each.name, plugin_config=each.plugin) for each in CASES),
        folder=folder,
    )
    wiring = Wiring(
        module=f"/cache/{variant}.wasm",
        cluster_filter="/cache/filter.wasm",
        listeners=[Address(host="127.0.0.1", port=0)] * len(CASES),
        admin=Address(host="127.0.0.1", port=0),
        listeners_file=str(folder / store.LISTENERS),
        upstream=Address(host=host, port=int(port)),
        access_log=str(folder / "logs" / "access.log"),
    )
    bootstrap = envoy_config.write(plan, wiring).read_bytes()
    vms = {case.name: f"{case.name}#{cells.FRESH_VMS}" for case in CASES}
    envoy_config.replace_listeners(plan, envoy_config.listeners(plan.listeners, wiring, vms))
    return bootstrap


def write_logs(folder: Path, found: Sequence[Result]) -> None:
    """Write what gateway and mock log and count of some cells."""
    logs = folder / "logs"
    logs.mkdir(parents=True)
    exchanges = [seen for each in found for seen in each.exchanges.items()]
    attempts = [attempt for _, seen in exchanges for attempt in seen.attempts]
    (logs / "access.log").write_text(
        "".join(json.dumps(_access(name, seen)) + "\n" for name, seen in exchanges)
    )
    (logs / "upstream.log").write_text(
        "".join(f"2026-01-01T00:00:00Z {_upstream(attempt)}\n" for attempt in attempts)
    )
    (logs / "gateway.log").write_text("[info][wasm] plugin start successfully\n")
    info = {"version": "abc/1.40.0/Clean/RELEASE/BoringSSL", "state": "LIVE"}
    (logs / "server_info.json").write_text(json.dumps(info))
    requests = {
        f"http.{case.name}.downstream_rq_total": sum(
            name.startswith(f"{case.name}/") for name, _ in exchanges
        )
        for case in CASES
    }
    stats = {"cluster.mock-upstream.upstream_rq_total": len(attempts), **requests}
    (logs / "stats.txt").write_text("".join(f"{name}: {n}\n" for name, n in stats.items()))
    (logs / "clusters.txt").write_text(
        f"mock-upstream::observability_name::mock-upstream\nmock-upstream::{ADDRESS}::rq_total::1\n"
    )


def _access(name: str, seen: Observation) -> dict[str, Any]:
    assert seen.response is not None
    first = seen.attempts[0]
    return {
        "bytes_sent": len(seen.response.body) + len(seen.response.trailing),
        "details": "via_upstream",
        "flags": "-",
        "method": first.method,
        "request_id": name,
        "status": seen.response.status,
        "target": first.target,
        "upstream_cluster": "mock-upstream",
        "upstream_host": first.arrived_on,
        "vm": seen.vm,
    }


def _upstream(attempt: Attempt) -> str:
    assert attempt.answered is not None
    unmet = " ".join(f'"{name}"' for name in attempt.unmet)
    matched = str(attempt.matched).lower()
    return (
        f'model {attempt.sequence} {attempt.method} "{attempt.target}" {attempt.answered.status} '
        f"epoch={attempt.epoch} order={attempt.order} step={json.dumps(attempt.step)} "
        f'matched={matched} unmet=[{unmet}] action=""'
    )


def junit(found: Iterable[Result]) -> str:
    """Return pytest's report of some cells."""
    tests = "".join(
        f"<testcase name={quoteattr(f'test_cell[{each.cell.id}]')}>{_outcome(each)}</testcase>"
        for each in found
    )
    return f"<testsuites><testsuite>{tests}</testsuite></testsuites>"


def _outcome(each: Result) -> str:
    if not each.as_declared:
        return '<failure message="not as declared" />'
    return '<skipped type="pytest.xfail" />' if each.must_fail else ""


def unit_run(run: Run, **changes: Any) -> UnitRun:
    """Return what `nox -s unit` records of the very tree and module of a run."""
    source = run.module.source
    fields: dict[str, Any] = {
        "variant": run.variant,
        "module_sha256": run.module.sha256,
        "commit": source.commit,
        "files_sha256": source.files_sha256,
        "baseline_files_sha256": (
            source.fix.baseline_sha256 if source.fix else source.files_sha256
        ),
        "go_version": run.module.go_version,
        "vet": [],
        "vet_of_baseline": [],
        "suites": [Suite(command=["go", "test", "./..."], status=0, passed=7)],
    }
    return UnitRun(**{**fields, **changes})


def unit(evidence: Path, folder: Path, **changes: Any) -> Path:
    """Leave results of Go's own tests for a run's folder where a bundle takes them from."""
    run, _ = store.read_run(folder)
    record = unit_run(run, **changes)
    results = folders.new_run(evidence, f"unit-{run.variant}")
    store.write_json(results / "unit.json", record)
    store.seal(results)
    folders.point_latest(evidence, f"unit-{run.variant}", results)
    return results


def pair(evidence: Path, repeats: int = REPEATS) -> dict[Variant, Path]:
    """Write a baseline and a fixed run as their sessions leave them; both are the latest."""
    written = {}
    for variant in Variant:
        folder = evidence / "runs" / f"20260101T000000Z-{variant}-000000"
        written[variant] = write(folder, variant, repeats=repeats)
        folders.point_latest(evidence, variant, folder)
    return written


def made(evidence: Path, key: Path | None = None) -> bundle.Made:
    """Make a bundle of a baseline and a fixed run."""
    return bundle.make(evidence, pair(evidence), key)


def copied(folder: Path, where: Path) -> Path:
    """Copy a bundle, to be changed."""
    return shutil.copytree(folder, where)
