"""Runs made by hand: a baseline that shows the defect, and a fixed module that does not."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
from sessions.evidence.record.records import Counts, Machine, Run
from sessions.matrix.case import Mode
from tests.unit.matrix.observations import (
    ADDRESS,
    CONTROL,
    KLING,
    defective,
    result,
    right,
)
from wasm.golang.goversion import GoChoice
from wasm.records import Fix, FixKind, Module, Origin, Patch, Source, Variant

if TYPE_CHECKING:
    from sessions.matrix.records import Result

CASES = (KLING, CONTROL)
# Nothing was left of either testbed.
GONE = dict.fromkeys(
    Variant,
    Cleanup(
        processes=[ProcessSeen(name="gateway", pid=7, exit_status=0, ended=True)],
        refused={"gateway admin 127.0.0.1:40013": True},
    ),
)
REPEATS = 2

GATEWAY = GatewayFacts(
    kind=GatewayKind.ENVOY,
    image=None,
    digest="sha256:" + "e" * 64,
    envoy_version="abc/1.40.0/Clean/RELEASE/BoringSSL",
    platform="linux/x86_64",
    release_evidence=False,
)
SOURCE = Source(
    kind="checkout",
    repository="https://git.example/higress.git",
    ref="HEAD",
    commit="c" * 40,
    plugin="plugins/ai-proxy",
    tree="d" * 40,
    dirty=False,
    go=GoChoice(version="go1.26.8", because="the toolchain line of its go.mod"),
    files_sha256="b" * 64,
)
FIX = Fix(
    origin=Origin(kind=FixKind.BUILT_IN, name="higress-4396"),
    patch=Patch.of(b"--- a\n+++ b\n"),
    baseline_sha256=SOURCE.files_sha256,
)


def module(variant: Variant, **source: Any) -> Module:
    """The module of a variant; the fixed one from the baseline's tree and a fix."""
    source.setdefault("fix", FIX if variant is Variant.FIXED else None)
    return Module(
        variant=variant,
        path="main.wasm",
        sha256=hashlib.sha256(variant.encode()).hexdigest(),
        size_bytes=7,
        source=replace(SOURCE, **source),
        go_version="go version go1.26.8 linux/amd64",
        command=["go", "build"],
        environment={"GOOS": "wasip1"},
        seconds=1.0,
    )


def run(variant: Variant, **changes: Any) -> Run:
    """A variant's run."""
    fields: dict[str, Any] = {
        "id": f"20260101T000000Z-{variant}-000000",
        "variant": variant,
        "started_at": "2026-01-01T00:00:00.000Z",
        "finished_at": "2026-01-01T00:00:09.000Z",
        "command": ["pytest"],
        "machine": Machine(system="Linux", architecture="x86_64", cpus=2, versions={}),
        "module": module(variant),
        "testbed": facts(),
        "cases": CASES,
        "repeats": REPEATS,
        "upstream_address": ADDRESS,
        "inputs_sha256": "1" * 64,
        "counts": Counts(cells=0, passed=0, mismatch=0, inconclusive=0),
        "timings": Timings(),
        "exchanges_s": 0.1,
        "failure": "",
    }
    return Run(**{**fields, **changes})


def facts(**changes: Any) -> TestbedFacts:
    """What a testbed says of itself; its configuration's digest is its own."""
    fields: dict[str, Any] = {
        "engine": EngineKind.PROCESS,
        "gateway": GATEWAY,
        "upstream_sha256": "2" * 64,
        "adapter": AdapterFacts(
            original_sha256="3" * 64,
            adapted_sha256="4" * 64,
            cluster_filter_sha256="5" * 64,
            steps=[],
        ),
        "gateway_config_sha256": "6" * 64,
    }
    return TestbedFacts(**{**fields, **changes})


def results(
    variant: Variant, *, shows_defect: bool | None = None, repeats: int = REPEATS
) -> list[Result]:
    """Every cell of a run: the defect in the video's retries of a baseline, all right elsewhere."""
    defect = variant is Variant.BASELINE if shows_defect is None else shows_defect
    return [
        result(
            case,
            mode,
            variant,
            defective(case)
            if defect and case is KLING and mode is Mode.RETRY
            else right(case, mode),
            repeat,
        )
        for repeat in range(1, repeats + 1)
        for case in CASES
        for mode in Mode
    ]
