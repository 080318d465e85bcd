"""The records of evidence, one schema each; JSON on disk, frozen structs here.

Their versions are in their ``schema`` fields: one more for every change that a reader could see.
"""

from __future__ import annotations

from collections import Counter
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

    from sessions.matrix.records import Result


NO_KEY = "no key"
GO_TESTS = "Go's tests:"
RUN_SCHEMA = "gateway-proof/run/3"
COMPARISON_SCHEMA = "gateway-proof/comparison/3"


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


def first_keys(results: Sequence[Result]) -> dict[str, int]:
    """Count in how many cells each key was the first attempt's, by the key."""
    return dict(sorted(Counter(result.first_key or NO_KEY for result in results).items()))


def exchanges_s(results: Sequence[Result]) -> float:
    """Return the seconds that all exchanges took, those of cells that were run again included."""
    seen = [each for result in results for each in result.exchanges.values()]
    return sum(each.response.seconds for each in seen if each.response)


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
        configuration_sha256: Digest of the gateway's configuration without the places that are a
            run's own (see inputs); empty without a testbed.
        command: The step that ran the matrix and asserted each cell, exactly.
        session_command: The Nox session that started it; empty when it was run by hand.
        assertion_command: What asserts the pair, and checks the evidence again.
        cleanup_command: What removes all that a killed run has left; any other run cleans up on
            its way out.
        environment: The variables that could have mattered and were set; passwords masked.
        upstream_address: Where every attempt must have arrived; empty without a testbed.
        listeners: Case -> the gateway's listener for it, as the client reached it.
        first_keys: Key -> in how many cells it was the first attempt's.
        testbed: None when it did not open; ``failure`` then says why.
        failure: Why the matrix was not run to its end, in a sentence; empty when it was.
        files: Every other file of the run -> its SHA-256; of each that was there when the run's
            record was written, which is the last but SHA256SUMS.
    """

    schema: str = RUN_SCHEMA
    id: str
    variant: Variant
    started_at: str
    finished_at: str
    command: list[str]
    session_command: list[str] = []
    assertion_command: list[str] = []
    cleanup_command: list[str] = []
    environment: dict[str, str] = {}
    machine: Machine
    module: Module
    testbed: TestbedFacts | None
    cases: tuple[Case, ...]
    repeats: int
    upstream_address: str
    listeners: dict[str, str] = {}
    inputs_sha256: str
    configuration_sha256: str = ""
    counts: Counts
    first_keys: dict[str, int] = {}
    timings: Timings
    exchanges_s: float
    failure: str
    files: dict[str, str] = {}


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
    """A module in a comparison.

    Attributes:
        source: Where its source came from, in a line.
        fix: What was applied to it, and what is no part of that; empty for the baseline.
        go: The version of Go that it was built with, and why that one.
    """

    sha256: str
    source: str
    fix: str = ""
    go: str = ""


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


class SuiteSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What one ``go test`` command showed; ``problem`` is empty for a success."""

    command: str
    passed: int
    failed: int
    skipped: int
    skipped_in_wasm: int
    problem: str


class UnitState(StrEnum):
    """How Go's own tests stand for a run, in the words of a headline."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"
    OTHER_TREE = "not run on this tree"
    OTHER_GO = "not run with this Go"
    OTHER_BASELINE = "not run against this baseline"


class UnitSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Go's own tests on the very module and tree of a variant.

    Attributes:
        state: Whether they passed; where there are no results, why.
        file: The results in this bundle, and their digest; None when there are none.
        missing: Why there are none, in a sentence.
        new_in_vet: How many things go vet found that the baseline does not have.
        failed_tests: ``package.Test`` of each that failed.
        timed_out: Whether Go ended a command for the time it took.
    """

    state: UnitState
    file: str | None = None
    sha256: str | None = None
    missing: str = ""
    new_in_vet: int = 0
    failed_tests: tuple[str, ...] = ()
    timed_out: bool = False
    suites: tuple[SuiteSummary, ...] = ()


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a comparison: its id, and the digest of its record, which has all others."""

    id: str
    sha256: str


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A baseline and a fixed run compared: ``comparison.json``.

    Attributes:
        reasons: What proves it, or why it is not proven, in sentences.
        no_release_evidence: Why it is none, in sentences; empty when it is.
        inputs_sha256: Of all that both runs share; the same in two runs with the same inputs.
        first_keys: How often each key came first, on each variant.
        unit: Go's own tests, on each variant.
    """

    schema: str = COMPARISON_SCHEMA
    verdict: PairVerdict
    reasons: tuple[str, ...]
    release_evidence: bool
    no_release_evidence: tuple[str, ...]
    engine: EngineKind
    gateway: GatewaySummary
    modules: dict[Variant, ModuleSummary]
    counts: dict[Variant, Counts]
    repeats: int
    first_keys: dict[Variant, dict[str, int]]
    inputs_sha256: str
    cells: tuple[CellPair, ...]
    unit: dict[Variant, UnitSummary]
    runs: dict[Variant, RunSummary]

    @property
    def go_tests(self) -> str:
        """How Go's own tests stand for the fixed module, in a clause."""
        fixed = self.unit.get(Variant.FIXED)
        return f"{GO_TESTS} {fixed.state if fixed else UnitState.NOT_RUN}"

    @property
    def beside_the_reason(self) -> str:
        """How Go's own tests stand, unless they are the first reason themselves."""
        return "" if self.reasons[0].startswith(GO_TESTS) else self.go_tests

    @property
    def headline(self) -> str:
        """The verdict, its first reason, and how Go's own tests stand, in a line."""
        parts = (self.reasons[0], self.beside_the_reason)
        return f"{self.verdict}: {'; '.join(part for part in parts if part)}"
