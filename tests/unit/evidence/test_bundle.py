"""Bundles: the same input, the same bytes; a Statement, schemas, Go's own tests; and quick."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sessions.evidence import bundle, folders, schemas, store, unit_results, verification
from sessions.evidence.records import PairVerdict
from tests.unit.evidence import recorded
from wasm.errors import EvidenceError
from wasm.records import Variant
from wasm.suite import Suite
from wasm.unit import UnitRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

B, F = Variant.BASELINE, Variant.FIXED


def test_the_archive_of_the_same_bundle_made_twice_has_the_same_hash(tmp_path: Path) -> None:
    runs = recorded.pair(tmp_path)
    one, two = bundle.make(tmp_path, runs, None), bundle.make(tmp_path, runs, None)
    assert one.folder != two.folder
    assert one.archive.read_bytes() == two.archive.read_bytes()
    assert one.archive_sha256 == two.archive_sha256


def test_two_runs_with_the_same_inputs_have_the_same_digest_of_them(tmp_path: Path) -> None:
    digests = set()
    for name in ("one", "two"):
        for folder in recorded.pair(tmp_path / name).values():
            digests.add(store.read_run(folder)[0].inputs_sha256)
    assert len(digests) == 1


def test_a_pair_that_differs_in_more_than_the_module_makes_no_bundle(tmp_path: Path) -> None:
    runs = {variant: tmp_path / "runs" / variant for variant in Variant}
    recorded.write(runs[B], B)
    recorded.write(runs[F], F, repeats=2)
    with pytest.raises(EvidenceError, match=r"they differ in repeats \(baseline 3, fixed 2\);"):
        bundle.make(tmp_path, runs, None)
    assert not (tmp_path / "bundles").exists()


def test_a_run_of_another_version_is_refused(tmp_path: Path) -> None:
    runs = recorded.pair(tmp_path)
    path = runs[B] / store.RUN
    path.write_bytes(path.read_bytes().replace(b"proof/run/3", b"proof/run/1"))
    store.seal(runs[B])
    with pytest.raises(EvidenceError, match="is of schema gateway-proof/run/1, expected gateway-"):
        bundle.make(tmp_path, runs, None)


def add(folder: Path) -> None:
    (folder / "logs" / "more.log").write_text("x")


def unseal(folder: Path) -> None:
    (folder / store.SUMS).unlink()


def drop(folder: Path) -> None:
    (folder / "junit.xml").unlink()


def change(folder: Path) -> None:
    with (folder / "logs" / "access.log").open("a") as log:
        log.write("x")


def unlist(folder: Path) -> None:
    lines = (folder / store.SUMS).read_text().splitlines(keepends=True)
    (folder / store.SUMS).write_text("".join(lines[1:]))


def change_sum(folder: Path) -> None:
    (folder / store.SUMS).write_text((folder / store.SUMS).read_text().replace("  ", " ", 1))


@pytest.mark.parametrize(
    ("touch", "what"),
    [
        (unseal, "SHA256SUMS is missing"),
        (drop, "junit.xml is missing"),
        (add, "logs/more.log is not in SHA256SUMS"),
        (change, "logs/access.log was changed: its SHA-256 is "),
        (unlist, "cells.jsonl is not in SHA256SUMS"),
        (change_sum, "SHA256SUMS has the line "),
    ],
)
@pytest.mark.parametrize("variant", Variant)
def test_a_run_that_was_not_sealed_or_was_changed_since_makes_no_bundle(
    tmp_path: Path, variant: Variant, touch: Callable[[Path], None], what: str
) -> None:
    runs = recorded.pair(tmp_path)
    touch(runs[variant])
    with pytest.raises(EvidenceError) as caught:
        bundle.make(tmp_path, runs, None)
    sentence = str(caught.value)
    assert sentence.startswith(f"the run in {runs[variant]} is not as it was sealed: {what}")
    assert sentence.endswith("; expected the files that its session wrote, unchanged; run it again")
    assert not (tmp_path / "bundles").exists()


@pytest.mark.parametrize("variant", Variant)
def test_a_run_without_a_clean_up_proof_is_bundled_and_proves_nothing(
    tmp_path: Path, variant: Variant
) -> None:
    runs = recorded.pair(tmp_path)
    assert bundle.make(tmp_path, runs, None).comparison.verdict is PairVerdict.PROVEN
    proof = replace(recorded.CLEANUP, refused=dict.fromkeys(recorded.CLEANUP.refused, False))
    store.write_json(runs[variant] / store.CLEANUP, proof)
    recorded.rewrite(runs[variant], store.read_run(runs[variant])[0])
    comparison = bundle.make(tmp_path, runs, None).comparison
    assert comparison.verdict is PairVerdict.INCONCLUSIVE
    assert comparison.reasons[0].startswith(
        f"{variant}: it is not proved that all of its testbed is gone (still there: port of "
    )


# --- The Statement ------------------------------------------------------------------------------


def test_the_statement_names_both_modules_and_says_what_passed(tmp_path: Path) -> None:
    made = recorded.made(tmp_path)
    told = json.loads((made.folder / bundle.STATEMENT).read_bytes())
    assert told["_type"] == "https://in-toto.io/Statement/v1"
    assert told["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert told["subject"] == [
        {"name": f"{variant}.wasm", "digest": {"sha256": made.comparison.modules[variant].sha256}}
        for variant in Variant
    ]
    predicate = told["predicate"]
    assert predicate["result"] == "PASSED"
    assert len(predicate["passedTests"]) == 24
    assert predicate["passedTests"][0] == "baseline/kling-text-to-video/retry/1"
    assert predicate["failedTests"] == predicate["warnedTests"] == []
    digests = store.digests(made.folder)
    named = {each["name"]: each["digest"]["sha256"] for each in predicate["configuration"]}
    assert named.pop("inputs of both") == made.comparison.inputs_sha256
    assert {"comparison.json", "baseline/run.json", "fixed/config/fix.patch"} <= {*named}
    assert named == {name: digests[name] for name in named}


def test_a_pair_that_is_not_proven_did_not_pass(tmp_path: Path) -> None:
    runs = {variant: tmp_path / "runs" / variant for variant in Variant}
    recorded.write(runs[B], B)
    recorded.write(runs[F], F, recorded.results(F, shows_defect=True))
    made = bundle.make(tmp_path, runs, None)
    predicate = json.loads((made.folder / bundle.STATEMENT).read_bytes())["predicate"]
    assert predicate["result"] == "FAILED"
    assert predicate["failedTests"] == [
        f"fixed/kling-text-to-video/retry/{repeat}" for repeat in (1, 2, 3)
    ]
    found = verification.of(made.folder)
    assert found.holds, "evidence of a refutation is evidence too"
    assert found.lines[-1] == (
        f"verified: all {len(found.made)} checks of the bundle hold; what it says is: refuted"
    )
    (alone,) = verification.of(runs[F]).lines[-1:]
    assert alone.partition("; ")[2] == (
        "what it says is: it does not show what its variant claims: fixed: 3 of 12 cells are not "
        "as declared, first kling-text-to-video/retry/1: expected no check to fail, failed: "
        "retry_path, retry_body, client_status, client_body"
    )


def test_a_run_that_was_interrupted_is_inconclusive_and_its_evidence_holds(tmp_path: Path) -> None:
    runs = {variant: tmp_path / "runs" / variant for variant in Variant}
    recorded.write(runs[B], B)
    recorded.write(runs[F], F, recorded.results(F)[:5], failure="interrupted")
    made = bundle.make(tmp_path, runs, None)
    assert made.comparison.verdict == "inconclusive"
    found = verification.of(made.folder)
    assert found.failed == ()
    assert found.lines[-1].endswith(" of the bundle hold; what it says is: inconclusive")
    assert (
        verification.of(runs[F])
        .lines[-1]
        .endswith(
            " checks of the run hold; what it says is: it does not show what its variant claims: "
            "interrupted"
        )
    )


# --- The schemas --------------------------------------------------------------------------------


def test_every_record_has_its_schema_in_the_bundle_and_no_object_is_open(tmp_path: Path) -> None:
    made = recorded.made(tmp_path)
    names = {path.name for path in (made.folder / "schemas").iterdir()}
    assert names == {f"{name}.schema.json" for name in schemas.types()}

    def objects(value: Any) -> Any:
        if isinstance(value, dict):
            if "properties" in value and value.get("type") == "object":
                yield value
            for below in value.values():
                yield from objects(below)

    for path in (made.folder / "schemas").iterdir():
        found = list(objects(json.loads(path.read_bytes())))
        assert found
        assert all(each["additionalProperties"] is False for each in found)


def test_a_record_without_a_field_or_with_one_more_is_not_what_its_schema_says() -> None:
    schema = schemas.of(schemas.types()["cleanup"])
    properties = schema["$defs"]["Cleanup"]["properties"]
    assert {"processes", "before", "after", "listening", "refused"} <= {*properties}


# --- Go's own tests -----------------------------------------------------------------------------


def unit(evidence: Path, variant: Variant, module: str, **suite: Any) -> None:
    """Write what `nox -s unit` leaves."""
    folder = folders.new_run(evidence, f"unit-{variant}")
    fields = {"command": ["go", "test", "./..."], "status": 0, "passed": 7, **suite}
    record = UnitRun(
        variant=variant,
        module_sha256=module,
        go_version="go version go1.26.8 linux/amd64",
        vet=[],
        vet_of_baseline=[],
        suites=[Suite(**fields)],
    )
    store.write_json(folder / "unit.json", record)
    folders.point_latest(evidence, f"unit-{variant}", folder)


def module_of(runs: dict[Variant, Path], variant: Variant) -> str:
    return store.read_run(runs[variant])[0].module.sha256


def test_results_of_the_very_module_are_taken_in_and_verified(tmp_path: Path) -> None:
    runs = recorded.pair(tmp_path)
    unit(tmp_path, F, module_of(runs, F), skipped=["a.Test"])
    made = bundle.make(tmp_path, runs, None)
    told = made.comparison.unit
    assert told[B] == unit_results.NONE
    assert told[F].file == "unit/fixed.json"
    (suite,) = told[F].suites
    assert (suite.command, suite.passed, suite.skipped) == ("go test ./...", 7, 1)
    assert suite.problem == ""
    found = verification.of(made.folder)
    assert found.failed == ()
    assert "baseline: none at hand, fixed: succeeded" in "\n".join(found.lines)


@pytest.mark.parametrize("wrong", ["another module", "another variant", "no results"])
def test_other_results_are_not_taken_in_and_the_field_says_why(tmp_path: Path, wrong: str) -> None:
    runs = recorded.pair(tmp_path)
    unit(tmp_path, F, "9" * 64 if wrong == "another module" else module_of(runs, F))
    if wrong == "another variant":
        unit(tmp_path, B, module_of(runs, F))
        folders.point_latest(tmp_path, "unit-fixed", folders.latest(tmp_path, "unit-baseline"))
    elif wrong == "no results":
        (folders.latest(tmp_path, "unit-fixed") / "unit.json").write_text("{")
    made = bundle.make(tmp_path, runs, None)
    assert made.comparison.unit[F] == unit_results.NONE
    assert not (made.folder / "unit").exists()
    assert unit_results.NONE.missing == (
        "no results of Go's own tests for this very module were at hand; `nox -s unit` on the "
        "variant makes them, `nox -s report` takes them in"
    )


def test_failures_are_told_and_changed_results_are_seen(tmp_path: Path) -> None:
    runs = recorded.pair(tmp_path)
    unit(tmp_path, F, module_of(runs, F), status=1, failed=["a.TestX"])
    made = bundle.make(tmp_path, runs, None)
    assert made.comparison.unit[F].suites[0].problem == "1 tests failed, first a.TestX"
    path = made.folder / "unit" / "fixed.json"
    path.write_bytes(path.read_bytes().replace(b'"passed": 7', b'"passed": 8'))
    store.seal(made.folder)
    failed = {each.check: each.problems for each in verification.of(made.folder).failed}
    assert {*failed} == {"comparison", "reports"}
    assert any("unit.fixed.suites[0].passed is 7, expected 8" in p for p in failed["comparison"])


def test_results_of_another_module_in_a_bundle_are_seen(tmp_path: Path) -> None:
    runs = recorded.pair(tmp_path)
    unit(tmp_path, F, module_of(runs, F))
    made = bundle.make(tmp_path, runs, None)
    path = made.folder / "unit" / "fixed.json"
    path.write_bytes(path.read_bytes().replace(module_of(runs, F).encode(), b"9" * 64))
    store.seal(made.folder)
    assert "unit results" in {each.check for each in verification.of(made.folder).failed}


def test_a_credential_in_a_failing_test_s_lines_is_masked(tmp_path: Path) -> None:
    runs = recorded.pair(tmp_path)
    unit(tmp_path, F, module_of(runs, F), status=1, output="got sk-live-0123456789abcdef")
    made = bundle.make(tmp_path, runs, None)
    text = (made.folder / "unit" / "fixed.json").read_text()
    assert "got masked-24-characters" in text
    assert verification.of(made.folder).failed == ()


# --- Time ---------------------------------------------------------------------------------------


@pytest.mark.timeout(180)
def test_a_bundle_of_a_few_cells_and_one_of_thousands_are_made_in_time(tmp_path: Path) -> None:
    """Measured: 0.2 s and 4 s; the bounds leave room for a machine that is busy."""
    for repeats, cells, limit_s in ((5, 20, 4.0), (1500, 6000, 30.0)):
        evidence = tmp_path / str(cells)
        runs = recorded.pair(evidence, repeats)
        start = time.process_time()
        made = bundle.make(evidence, runs, None)
        assert time.process_time() - start < limit_s
        assert made.comparison.counts[F].cells == cells
        assert made.archive.stat().st_size < 25_000_000, "GitHub takes no larger attachment"
