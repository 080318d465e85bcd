"""The bundle as an in-toto Statement: what was tested, and how it went. Pure.

Written after https://in-toto.io/Statement/v1 and https://in-toto.io/attestation/test-result/v0.1:
the subjects are the two modules, the configuration is named by its digests. A pair that was not
proven did not pass, whether it was refuted or nothing valid was seen. Go's own tests are named
beside the cells; they are a warning where they were not run on the fixed module, or fail on the
baseline alone, as a regression test does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sessions.evidence.record.records import GO_TESTS, PairVerdict, UnitState
from sessions.evidence.record.store import as_json
from wasm.records import Variant, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sessions.evidence.record.records import Comparison, Run
    from sessions.matrix.records import Result

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
_GO_TESTS = GO_TESTS.removesuffix(":")


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """Something named by its digest: a ResourceDescriptor of in-toto."""

    name: str
    digest: dict[str, str]


class TestResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The predicate: ``PASSED`` or ``FAILED``, and which cells showed what they had to."""

    result: str
    configuration: tuple[Described, ...]
    passed_tests: tuple[str, ...]
    warned_tests: tuple[str, ...]
    failed_tests: tuple[str, ...]

    __test__ = False


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """``statement.json``."""

    type_: str = msgspec.field(name="_type")
    subject: tuple[Described, ...]
    predicate_type: str = msgspec.field(name="predicateType")
    predicate: TestResult


def of(
    comparison: Comparison, runs: Sequence[Run], results: Sequence[Sequence[Result]]
) -> Statement:
    """Return the statement of a bundle; ``runs`` and ``results`` baseline first."""
    told = [
        (f"{run.variant}/{result.cell.id}", result.as_declared)
        for run, those in zip(runs, results, strict=True)
        for result in those
    ]
    told += _go_tests(comparison)
    proven = comparison.verdict is PairVerdict.PROVEN
    return Statement(
        type_=TYPE,
        subject=tuple(
            _described(f"{variant}.wasm", comparison.modules[variant].sha256) for variant in Variant
        ),
        predicate_type=PREDICATE,
        predicate=TestResult(
            result="PASSED" if proven else "FAILED",
            configuration=tuple(_configuration(comparison, runs)),
            passed_tests=tuple(name for name, as_declared in told if as_declared),
            warned_tests=tuple(_warnings(comparison)),
            failed_tests=tuple(name for name, as_declared in told if not as_declared),
        ),
    )


def _go_tests(comparison: Comparison) -> Iterator[tuple[str, bool]]:
    """Give Go's own tests of each variant, and whether they passed; failures by their names."""
    for variant, unit in comparison.unit.items():
        if unit.state is UnitState.PASSED:
            yield f"{variant}/{_GO_TESTS}", True
        elif unit.state is UnitState.FAILED and variant is Variant.FIXED:
            yield from ((f"{variant}/{name}", False) for name in unit.failed_tests or (_GO_TESTS,))


def _warnings(comparison: Comparison) -> Iterator[str]:
    baseline, fixed = (comparison.unit[variant] for variant in Variant)
    if baseline.state is UnitState.FAILED:
        yield f"{Variant.BASELINE}/{_GO_TESTS}: {baseline.state}"
    if not fixed.file:
        yield f"{Variant.FIXED}/{_GO_TESTS}: {fixed.state}"


def _configuration(comparison: Comparison, runs: Sequence[Run]) -> Iterator[Described]:
    yield _described("comparison.json", sha256_of(as_json(comparison)))
    for run in runs:
        yield _described(f"{run.variant}/run.json", comparison.runs[run.variant].sha256)
        for name, digest in run.files.items():
            if name.startswith("config/"):
                yield _described(f"{run.variant}/{name}", digest)
    yield _described("inputs of both", comparison.inputs_sha256)


def _described(name: str, sha256: str) -> Described:
    return Described(name=name, digest={"sha256": sha256})
