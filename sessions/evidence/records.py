"""The records of evidence, one schema each; JSON on disk, frozen structs here."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from containers.records import EngineKind, GatewayFacts, TestbedFacts, Timings
from sessions.matrix.case import Case, Mode
from sessions.matrix.checks import CheckName
from sessions.matrix.verdict import Verdict
from wasm.records import Module, Variant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessions.matrix.cells import Result


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many cells showed what."""

    cells: int
    passed: int = msgspec.field(name="pass")
    mismatch: int
    inconclusive: int

    @classmethod
    def of(cls, results: Sequence[Result]) -> Counts:
        """Count the verdicts of some results."""
        found = [result.verdict for result in results]
        return cls(
            cells=len(found),
            passed=found.count(Verdict.PASS),
            mismatch=found.count(Verdict.MISMATCH),
            inconclusive=found.count(Verdict.INCONCLUSIVE),
        )


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run was made: versions of what took part."""

    system: str
    architecture: str
    cpus: int
    versions: dict[str, str]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One variant's run: ``run.json``. Its cells are in ``cells.jsonl``.

    Attributes:
        inputs_sha256: Digest of all that both variants must share: cases, repeats, the gateway's
            identity and settings.
        upstream_address: Where every attempt must have arrived; empty without a testbed.
        testbed: None when it did not open; ``failure`` then says why.
        failure: Why the matrix was not run to its end, in a sentence; empty when it was.
    """

    schema: str = "gateway-proof/run/1"
    id: str
    variant: Variant
    started_at: str
    finished_at: str
    command: list[str]
    machine: Machine
    module: Module
    testbed: TestbedFacts | None
    cases: tuple[Case, ...]
    repeats: int
    upstream_address: str
    inputs_sha256: str
    counts: Counts
    timings: Timings
    exchanges_s: float
    failure: str


class PairVerdict(StrEnum):
    """What a baseline and a fixed run show together."""

    PROVEN = "proven"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """What one variant showed in a cell."""

    verdict: Verdict
    failed_checks: tuple[CheckName, ...]
    first_key: str | None
    reason: str


class CellPair(msgspec.Struct, frozen=True, kw_only=True):
    """One cell on both variants; ``expected`` is what the baseline must show."""

    case: str
    mode: Mode
    repeat: int
    expected: Verdict
    must_fail: tuple[CheckName, ...]
    baseline: Side
    fixed: Side


class ModuleSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A module in a comparison: its digest, and where its source came from in a line."""

    sha256: str
    source: str


class GatewaySummary(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway in a comparison."""

    kind: str
    image: str | None
    digest: str | None
    envoy_version: str

    @classmethod
    def of(cls, facts: GatewayFacts) -> GatewaySummary:
        """Take over what a comparison says of a gateway."""
        return cls(
            kind=facts.kind,
            image=facts.image,
            digest=facts.digest,
            envoy_version=facts.envoy_version,
        )


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A baseline and a fixed run compared: ``comparison.json``."""

    schema: str = "gateway-proof/comparison/1"
    verdict: PairVerdict
    reasons: tuple[str, ...]
    release_evidence: bool
    engine: EngineKind
    gateway: GatewaySummary
    modules: dict[Variant, ModuleSummary]
    counts: dict[Variant, Counts]
    cells: tuple[CellPair, ...]
    runs: dict[Variant, str]
