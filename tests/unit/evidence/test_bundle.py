"""Bundles: the same input, the same bytes; a Statement, schemas, Go's own tests; and quick."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sessions.evidence import verify
from sessions.evidence.pair import bundle, schemas, unit_results
from sessions.evidence.record import store
from sessions.evidence.record.records import PairVerdict, UnitState
from tests.unit.evidence import recorded
from wasm.foundation.errors import EvidenceError
from wasm.gotest.test_events import Suite
from wasm.records import Variant

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
    assert predicate["failedTests"] == []
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
    found = verify.of(made.folder)
    assert found.holds, "evidence of a refutation is evidence too"
    assert found.lines[-1] == (
        f"verified: all {len(found.made)} checks of the bundle hold; what it says is: refuted; "
        "Go's tests: not run"
    )
    (alone,) = verify.of(runs[F]).lines[-1:]
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
    found = verify.of(made.folder)
    assert found.failed == ()
    assert "; what it says is: inconclusive; " in found.lines[-1]
    assert (
        verify.of(runs[F])
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


ANOTHER = "9" * 64
SUITE = Suite(command=["go", "test", "-json", "./..."], status=0, passed=7)
RED = replace(SUITE, status=1, failed=["a.TestX", "a.TestY", "b.TestZ"])


def test_results_of_the_very_module_and_tree_are_taken_in_and_verified(tmp_path: Path) -> None:
    runs = recorded.pair(tmp_path)
    recorded.unit(tmp_path, runs[F], suites=[replace(SUITE, skipped=["a.Test"])])
    made = bundle.make(tmp_path, runs, None)
    told = made.comparison.unit
    assert told[B] == unit_results.NONE
    assert (told[F].state, told[F].file) == (UnitState.PASSED, "unit/fixed.json")
    (suite,) = told[F].suites
    assert (suite.command, suite.passed, suite.skipped) == ("go test -json ./...", 7, 1)
    assert suite.problem == ""
    assert made.comparison.headline.endswith("; Go's tests: passed")
    found = verify.of(made.folder)
    assert found.failed == ()
    assert found.says.endswith("proven; Go's tests: passed")


OTHERS: dict[str, tuple[dict[str, Any], UnitState]] = {
    "a commit of the same files": ({"commit": "9" * 40}, UnitState.OTHER_TREE),
    "a changed test file": ({"files_sha256": ANOTHER}, UnitState.OTHER_TREE),
    "another Go": ({"go_version": "go version go1.27.0 linux/amd64"}, UnitState.OTHER_GO),
    "other settings of Go": ({"environment": {"GOFLAGS": "-tags=x"}}, UnitState.OTHER_GO),
    "another baseline": ({"baseline_files_sha256": ANOTHER}, UnitState.OTHER_BASELINE),
    "another module": ({"module_sha256": ANOTHER}, UnitState.NOT_RUN),
    "another variant": ({"variant": B}, UnitState.NOT_RUN),
}


@pytest.mark.parametrize("other", OTHERS)
def test_results_of_anything_else_are_left_out_and_the_headline_says_so(
    tmp_path: Path, other: str
) -> None:
    """Red or green: they say nothing of this run."""
    changes, state = OTHERS[other]
    runs = recorded.pair(tmp_path)
    recorded.unit(tmp_path, runs[F], suites=[RED], **changes)
    made = bundle.make(tmp_path, runs, None)
    assert (made.comparison.unit[F].state, made.comparison.unit[F].file) == (state, None)
    assert not (made.folder / "unit").exists()
    assert made.comparison.verdict is PairVerdict.PROVEN
    assert made.comparison.headline.endswith(f"; Go's tests: {state}")
    found = verify.of(made.folder)
    assert found.failed == ()
    assert found.says.endswith(f"proven; Go's tests: {state}")


@pytest.mark.parametrize("other", OTHERS)
def test_such_results_put_into_a_bundle_are_seen(tmp_path: Path, other: str) -> None:
    runs = recorded.pair(tmp_path)
    recorded.unit(tmp_path, runs[F])
    made = bundle.make(tmp_path, runs, None)
    run, _ = store.read_run(runs[F])
    path = made.folder / "unit" / "fixed.json"
    store.write_json(path, recorded.unit_run(run, **OTHERS[other][0]))
    store.seal(made.folder)
    assert "unit results" in {each.check for each in verify.of(made.folder).failed}


def test_results_of_which_nothing_can_be_read_or_that_nobody_sealed_are_none(
    tmp_path: Path,
) -> None:
    runs = recorded.pair(tmp_path)
    for number, content in enumerate(("{", "")):
        results = recorded.unit(tmp_path, runs[F])
        (results / "unit.json").write_text(content or (results / "unit.json").read_text())
        store.seal(results)
        if not content:
            (results / store.SUMS).unlink()
        told = bundle.make(tmp_path / str(number), runs, None).comparison
        assert told.unit[F] == unit_results.NONE


def test_results_that_were_changed_since_they_were_sealed_are_refused(tmp_path: Path) -> None:
    runs = recorded.pair(tmp_path)
    results = recorded.unit(tmp_path, runs[F], suites=[RED])
    run, _ = store.read_run(runs[F])
    store.write_json(results / "unit.json", recorded.unit_run(run))
    with pytest.raises(EvidenceError, match=r"unit\.json was changed: .*`nox -s unit") as caught:
        bundle.make(tmp_path, runs, None)
    assert results.name in str(caught.value)


def test_an_empty_list_of_what_was_run_is_no_success(tmp_path: Path) -> None:
    runs = recorded.pair(tmp_path)
    recorded.unit(tmp_path, runs[F], suites=[])
    told = bundle.make(tmp_path, runs, None).comparison
    assert (told.verdict, told.unit[F].state) == (PairVerdict.INCONCLUSIVE, UnitState.FAILED)


def test_red_go_tests_are_in_every_output_and_verified(tmp_path: Path) -> None:
    """T32: three tests fail on the very modules, and both runtime sessions hold."""
    runs = recorded.pair(tmp_path)
    recorded.unit(tmp_path, runs[B])
    recorded.unit(tmp_path, runs[F], suites=[RED])
    made = bundle.make(tmp_path, runs, None)
    reason = (
        "Go's tests: 3 failed on the fixed module, which do not fail on the baseline: "
        "a.TestX, a.TestY, b.TestZ"
    )
    assert (made.comparison.verdict, made.comparison.reasons) == (PairVerdict.REFUTED, (reason,))
    assert made.comparison.headline == f"refuted: {reason}"
    said = json.loads((made.folder / "statement.json").read_bytes())["predicate"]
    assert said["result"] == "FAILED"
    assert said["failedTests"] == ["fixed/a.TestX", "fixed/a.TestY", "fixed/b.TestZ"]
    report = (made.folder / "report.md").read_text()
    first = next(line for line in report.splitlines() if line.startswith("**"))
    assert "REFUTED" in first
    assert "3 failed on the fixed module" in first
    page = (made.folder / "report.html").read_text()
    assert "3 failed on the fixed module" in page[: page.index("<nav")]
    found = verify.of(made.folder)
    assert (found.failed, found.says) == ((), "what it says is: refuted; Go's tests: failed")


def test_a_verdict_that_leaves_red_go_tests_out_is_seen(tmp_path: Path) -> None:
    """The verdict is reached again from the results in the bundle."""
    runs = recorded.pair(tmp_path)
    green = bundle.make(tmp_path, runs, None)
    recorded.unit(tmp_path, runs[F], suites=[RED])
    red = bundle.make(tmp_path, runs, None)
    for name in ("comparison.json", "statement.json", "report.html", "report.md"):
        (red.folder / name).write_bytes((green.folder / name).read_bytes())
    store.seal(red.folder)
    failed = {each.check: each.problems for each in verify.of(red.folder).failed}
    assert {*failed} == {"comparison", "reports"}
    assert any('verdict is "proven", expected "inconclusive"' in p for p in failed["comparison"])


def test_where_go_tests_were_not_run_every_output_says_so(tmp_path: Path) -> None:
    made = recorded.made(tmp_path)
    assert made.comparison.headline.startswith("proven: ")
    assert made.comparison.headline.endswith("; Go's tests: not run")
    said = json.loads((made.folder / "statement.json").read_bytes())["predicate"]
    assert (said["result"], said["warnedTests"]) == ("PASSED", ["fixed/Go's tests: not run"])
    report = (made.folder / "report.md").read_text()
    first = next(line for line in report.splitlines() if line.startswith("**"))
    assert first.endswith("**Go's tests: not run.**")
    page = (made.folder / "report.html").read_text()
    assert "Go&#39;s tests: not run." in page[: page.index("<nav")]


def test_changed_results_are_seen(tmp_path: Path) -> None:
    runs = recorded.pair(tmp_path)
    recorded.unit(tmp_path, runs[F], suites=[RED])
    made = bundle.make(tmp_path, runs, None)
    path = made.folder / "unit" / "fixed.json"
    path.write_bytes(path.read_bytes().replace(b'"passed": 7', b'"passed": 8'))
    store.seal(made.folder)
    failed = {each.check: each.problems for each in verify.of(made.folder).failed}
    assert {*failed} == {"comparison", "reports"}
    assert any("unit.fixed.suites[0].passed is 7, expected 8" in p for p in failed["comparison"])


def test_a_credential_in_a_failing_test_s_lines_is_masked(tmp_path: Path) -> None:
    runs = recorded.pair(tmp_path)
    shown = replace(SUITE, status=1, output="got sk-live-0123456789abcdef")
    recorded.unit(tmp_path, runs[F], suites=[shown])
    made = bundle.make(tmp_path, runs, None)
    text = (made.folder / "unit" / "fixed.json").read_text()
    assert "got masked-24-characters" in text
    assert verify.of(made.folder).failed == ()


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
