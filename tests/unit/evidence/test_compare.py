"""Two runs compared: each kind of pair gets its verdict, with reasons that are sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from containers.docker.images import HIGRESS_GATEWAY
from containers.records import Cleanup, GatewayKind, ProcessSeen
from sessions.evidence.pair import unit_results
from sessions.evidence.pair.compare import compare
from sessions.evidence.record import store
from sessions.evidence.record.records import Comparison, Counts, PairVerdict, Run, UnitSummary
from sessions.matrix import cells
from sessions.matrix.case import Mode
from sessions.matrix.verdict import Verdict
from tests.unit.evidence.recorded import unit_run
from tests.unit.evidence.runs import CASES, GATEWAY, facts, module, results, run
from tests.unit.evidence.runs import GONE as LEFT_NOTHING
from tests.unit.matrix.observations import (
    ADDRESS,
    CONTROL,
    DEFECT,
    KLING,
    attempt,
    defective,
    result,
    right,
)
from wasm.gotest.test_events import Suite
from wasm.records import Variant, sha256_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sessions.matrix.records import Observation, Result
    from wasm.gotest.unit import UnitRun

B, F = Variant.BASELINE, Variant.FIXED
GONE = "the gateway was ended by SIGKILL before the matrix was done"


def compared(
    baseline: Sequence[Result] | None = None,
    fixed: Sequence[Result] | None = None,
    *,
    runs: tuple[Run, Run] | None = None,
    unit: Mapping[Variant, UnitSummary] | None = None,
    cleanup: Mapping[Variant, Cleanup] = LEFT_NOTHING,
) -> Comparison:
    one, other = runs or (run(B), run(F))
    return compare(
        one,
        results(B) if baseline is None else baseline,
        other,
        results(F) if fixed is None else fixed,
        unit,
        cleanup=cleanup,
    )


def changed(variant: Variant, cell: str, seen: Observation | None) -> list[Result]:
    """All of a variant's results, save one cell with another observation (or none at all)."""
    found = []
    for each in results(variant):
        if each.cell.id != cell:
            found.append(each)
        elif seen is not None:
            case = next(case for case in CASES if case.name == each.cell.case)
            found.append(result(case, each.cell.mode, variant, seen, each.cell.repeat))
    assert len(found) == (8 if seen else 7)
    return found


def unseen(mode: Mode = Mode.RETRY) -> Observation:
    return msgspec.structs.replace(right(KLING, mode), response=None, attempts=(), fault=GONE)


VIDEO = "kling-text-to-video/retry/1"
AGAIN = "kling-text-to-video/retry/2"
CHAT = "openai-chat/retry/1"
DIRECT = "kling-text-to-video/direct/1"
FOUR = "retry_path, retry_body, client_status, client_body"


def test_a_baseline_that_fails_as_declared_and_a_fix_that_holds_are_proven() -> None:
    comparison = compared()
    assert comparison.verdict is PairVerdict.PROVEN
    assert comparison.reasons == (
        (
            "the baseline failed in 2 of 8 cells, in each for exactly the declared checks, and "
            "held in all others; the fixed module held in all 8"
        ),
    )
    assert comparison.counts == {
        B: Counts(cells=8, passed=6, mismatch=2, inconclusive=0),
        F: Counts(cells=8, passed=8, mismatch=0, inconclusive=0),
    }


def test_a_comparison_says_what_was_compared() -> None:
    comparison = msgspec.json.decode(msgspec.json.encode(compared()))
    assert comparison["schema"] == "gateway-proof/comparison/3"
    assert comparison["release_evidence"] is False
    assert comparison["no_release_evidence"] == [
        "the gateway was not Higress' pinned image, run unmodified",
        "each cell was run 2 times, and release evidence needs 3 times",
    ]
    assert comparison["repeats"] == 2
    assert comparison["inputs_sha256"] == "1" * 64
    assert comparison["first_keys"] == {
        "baseline": {"dummy-key-a": 8},
        "fixed": {"dummy-key-a": 8},
    }
    assert comparison["unit"]["fixed"]["file"] is None
    assert comparison["unit"]["fixed"]["missing"].startswith("no results of Go's own tests")
    assert comparison["runs"]["fixed"] == {
        "id": "20260101T000000Z-fixed-000000",
        "sha256": sha256_of(store.as_json(run(F))),
    }
    assert comparison["engine"] == "process"
    assert comparison["gateway"] == {
        "kind": "envoy",
        "image": None,
        "digest": "sha256:" + "e" * 64,
        "envoy_version": "abc/1.40.0/Clean/RELEASE/BoringSSL",
    }
    assert comparison["modules"]["baseline"] == {
        "sha256": module(B).sha256,
        "source": f"plugins/ai-proxy of https://git.example/higress.git at {'c' * 40}",
        "fix": "",
        "go": "go1.26.8: the toolchain line of its go.mod",
    }
    assert "the built-in fix higress-4396 (" in comparison["modules"]["fixed"]["source"]
    assert comparison["modules"]["fixed"]["fix"] == "the built-in fix higress-4396"
    assert comparison["counts"]["baseline"] == {
        "cells": 8,
        "pass": 6,
        "mismatch": 2,
        "inconclusive": 0,
    }
    assert comparison["cells"][0] == {
        "case": "kling-text-to-video",
        "mode": "retry",
        "repeat": 1,
        "expected": "mismatch",
        "must_fail": [*DEFECT],
        "baseline": {
            "verdict": "mismatch",
            "failed_checks": [*DEFECT],
            "first_key": "dummy-key-a",
            "reason": FOUR,
        },
        "fixed": {
            "verdict": "pass",
            "failed_checks": [],
            "first_key": "dummy-key-a",
            "reason": "",
        },
    }
    assert msgspec.json.decode(msgspec.json.encode(compared()), type=Comparison) == compared()


def pinned(repeats: int, **changes: Any) -> dict[str, Any]:
    """Both runs with their results, in Higress' pinned gateway; from another registry too."""
    fields = {
        "kind": GatewayKind.HIGRESS,
        "release_evidence": True,
        "image": f"mirror.example/gateway@{HIGRESS_GATEWAY.partition('@')[2]}",
        "digest": HIGRESS_GATEWAY.partition("@")[2],
    }
    adapter = {"adapter": changes.pop("adapter", None)}
    known = facts(gateway=replace(GATEWAY, **{**fields, **changes}), **adapter)
    runs = (run(B, testbed=known, repeats=repeats), run(F, testbed=known, repeats=repeats))
    return {
        "runs": runs,
        "baseline": results(B, repeats=repeats),
        "fixed": results(F, repeats=repeats),
    }


def test_release_evidence_is_higress_pinned_gateway_with_three_repeats_of_every_cell() -> None:
    comparison = compared(**pinned(3))
    assert comparison.verdict is PairVerdict.PROVEN
    assert comparison.no_release_evidence == ()
    assert comparison.release_evidence


@pytest.mark.parametrize(
    ("repeats", "why"),
    [
        (1, "each cell was run once, and release evidence needs 3 times"),
        (2, "each cell was run 2 times, and release evidence needs 3 times"),
    ],
)
def test_fewer_repeats_are_no_release_evidence(repeats: int, why: str) -> None:
    comparison = compared(**pinned(repeats))
    assert comparison.verdict is PairVerdict.PROVEN
    assert comparison.no_release_evidence == (why,)
    assert not comparison.release_evidence


@pytest.mark.parametrize("variant", Variant)
@pytest.mark.parametrize("lost", ["not recorded", "no valid observation"])
def test_a_cell_that_was_seen_less_often_is_no_release_evidence(
    variant: Variant, lost: str
) -> None:
    given = pinned(3)
    place = next(n for n, r in enumerate(given[variant]) if r.cell.id == VIDEO)
    if lost == "not recorded":
        del given[variant][place]
    else:
        given[variant][place] = result(KLING, Mode.RETRY, variant, unseen(), 1)
    comparison = compared(**given)
    assert comparison.verdict is PairVerdict.INCONCLUSIVE
    (why,) = comparison.no_release_evidence
    assert why == (
        f"{variant}: of kling-text-to-video/retry there are 2 valid observations, and release "
        "evidence needs 3"
    )
    assert not comparison.release_evidence


def test_several_cases_that_were_seen_less_often_are_counted_and_the_first_named() -> None:
    given = pinned(3)
    for place, each in enumerate(given["fixed"]):
        if each.cell.case == CONTROL.name and each.cell.repeat == 2:
            seen = right(CONTROL, each.cell.mode)
            seen = msgspec.structs.replace(seen, response=None, attempts=(), fault=GONE)
            given["fixed"][place] = result(CONTROL, each.cell.mode, F, seen, 2)
    assert compared(**given).no_release_evidence == (
        (
            "fixed: of openai-chat/retry and 1 more likewise there are 2 valid observations, and "
            "release evidence needs 3"
        ),
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"release_evidence": False},
        {"digest": "sha256:" + "e" * 64},
        {"digest": None},
        {"kind": GatewayKind.ENVOY},
        {"adapter": facts().adapter},
    ],
)
def test_what_a_run_says_of_its_gateway_must_be_so(changes: dict[str, Any]) -> None:
    comparison = compared(**pinned(3, **changes))
    assert comparison.no_release_evidence == (
        "the gateway was not Higress' pinned image, run unmodified",
    )


@pytest.mark.parametrize(
    ("proof", "why"),
    [
        (Cleanup(), "nobody looked"),
        (
            replace(
                LEFT_NOTHING[F],
                processes=[ProcessSeen(name="gateway", pid=7, exit_status=None, ended=False)],
                refused={"gateway admin 127.0.0.1:9": False},
            ),
            "still there: gateway (process 7), port of gateway admin 127.0.0.1:9",
        ),
    ],
)
@pytest.mark.parametrize("variant", Variant)
def test_a_run_of_which_something_may_be_left_is_part_of_no_proof(
    variant: Variant, proof: Cleanup, why: str
) -> None:
    comparison = compared(cleanup={**LEFT_NOTHING, variant: proof})
    assert comparison.verdict is PairVerdict.INCONCLUSIVE
    assert comparison.reasons == (
        f"{variant}: it is not proved that all of its testbed is gone ({why})",
    )


Pair = tuple[list["Result"] | None, list["Result"] | None]


def refuted_pairs() -> dict[str, tuple[Pair, str]]:
    other_path = attempt(KLING, 2, target="/v1/chat/completions?trace=1")
    wrong_fix = msgspec.structs.replace(defective(KLING), attempts=(attempt(KLING, 1), other_path))
    third_key = msgspec.structs.replace(
        defective(KLING),
        attempts=(*defective(KLING).attempts[:1], attempt(KLING, 2, "dummy-key-a")),
    )
    late_control = msgspec.structs.replace(
        right(CONTROL, Mode.RETRY), attempts=(attempt(CONTROL, 1),)
    )
    return {
        "the fix still fails": (
            (None, results(F, shows_defect=True)),
            f"fixed: {VIDEO}, {AGAIN}: expected no check to fail, failed: {FOUR}",
        ),
        "the fix fails in one repeat, elsewhere": (
            (None, changed(F, VIDEO, wrong_fix)),
            (
                f"fixed: {VIDEO}: expected no check to fail, failed: retry_path, client_status, "
                "client_body"
            ),
        ),
        "the baseline passes": (
            (results(B, shows_defect=False), None),
            f"baseline: {VIDEO}, {AGAIN}: expected {FOUR} to fail, failed: none",
        ),
        "the baseline fails in one check more": (
            (changed(B, VIDEO, _with_extra_attempt(defective(KLING))), None),
            f"baseline: {VIDEO}: expected {FOUR} to fail, failed: attempt_count, {FOUR}",
        ),
        "the baseline fails for another reason": (
            (changed(B, VIDEO, third_key), None),
            (
                f"baseline: {VIDEO}: expected {FOUR} to fail, failed: retry_key, client_status, "
                "client_body"
            ),
        ),
        "a control fails on the baseline": (
            (changed(B, CHAT, late_control), None),
            (
                f"baseline: {CHAT}: expected no check to fail, failed: attempt_count, retry_key, "
                "retry_method, retry_path, retry_body, retry_headers"
            ),
        ),
        "a control fails on the fixed module": (
            (None, changed(F, CHAT, late_control)),
            (
                f"fixed: {CHAT}: expected no check to fail, failed: attempt_count, retry_key, "
                "retry_method, retry_path, retry_body, retry_headers"
            ),
        ),
    }


def _with_extra_attempt(seen: Observation) -> Observation:
    return msgspec.structs.replace(seen, attempts=(*seen.attempts, attempt(KLING, 3)))


REFUTED = refuted_pairs()


@pytest.mark.parametrize(("pair", "reason"), REFUTED.values(), ids=REFUTED)
def test_a_cell_that_contradicts_the_claim_refutes_it_and_is_named(pair: Pair, reason: str) -> None:
    comparison = compared(*pair)
    assert comparison.verdict is PairVerdict.REFUTED
    assert comparison.reasons[0] == reason
    assert all("disagree" in other for other in comparison.reasons[1:])


def test_t45_repeats_that_disagree_are_named_and_prove_nothing() -> None:
    """The cell that was run again alone, and differed, contradicts nothing by itself."""
    found = list(results(F))
    place = next(n for n, each in enumerate(found) if each.cell.id == VIDEO)
    once = cells.conclude(KLING, found[place].cell, F, defective(KLING), ADDRESS)
    alone = msgspec.structs.replace(
        right(KLING, Mode.RETRY), request=cells.request(KLING, once.cell, alone=True)
    )
    seen = msgspec.structs.replace(once.observation, request=cells.request(KLING, once.cell))
    found[place] = cells.conclude(KLING, once.cell, F, seen, ADDRESS, alone)
    comparison = compared(fixed=found)
    assert comparison.verdict is PairVerdict.INCONCLUSIVE
    disagreement, gap = comparison.reasons
    assert "kling-text-to-video/retry" in disagreement
    assert f"1 of 2 failed {FOUR}; 1 of 2 passed" in disagreement
    assert VIDEO in gap


def test_the_baseline_s_module_again_is_refuted_naming_the_cells_and_the_module() -> None:
    again = msgspec.structs.replace
    same = module(F)
    same = type(same)(**{**vars(same), "sha256": module(B).sha256})
    comparison = compared(
        fixed=results(F, shows_defect=True), runs=(run(B), again(run(F), module=same))
    )
    assert comparison.verdict is PairVerdict.REFUTED
    assert comparison.reasons == (
        f"fixed: {VIDEO}, {AGAIN}: expected no check to fail, failed: {FOUR}",
        f"both runs are of one module, {module(B).sha256}: nothing was fixed",
    )


def test_one_module_is_never_proven_even_if_every_cell_is_as_declared() -> None:
    same = type(module(F))(**{**vars(module(F)), "sha256": module(B).sha256})
    comparison = compared(runs=(run(B), msgspec.structs.replace(run(F), module=same)))
    assert comparison.verdict is PairVerdict.REFUTED


def inconclusive_pairs() -> dict[str, tuple[dict[str, Any], tuple[str, ...]]]:
    interrupted = "interrupted"
    none_must_fail = "no cell had to fail on the baseline, so nothing was reproduced"
    control_only = tuple(run(v, cases=(CONTROL,)) for v in Variant)

    def of_control(variant: Variant) -> list[Result]:
        return [each for each in results(variant) if each.cell.case == CONTROL.name]

    return {
        "a baseline's cell was not observed": (
            {"baseline": changed(B, VIDEO, unseen())},
            (f"baseline: no valid observation in 1 of 8 cells, first {VIDEO}: {GONE}",),
        ),
        "a fixed cell was not observed": (
            {"fixed": changed(F, DIRECT, unseen(Mode.DIRECT))},
            (f"fixed: no valid observation in 1 of 8 cells, first {DIRECT}: {GONE}",),
        ),
        "a run was interrupted": (
            {"fixed": results(F)[:5], "runs": (run(B), run(F, failure=interrupted))},
            (
                "fixed: the run is not valid: interrupted",
                "fixed: 3 of 8 cells were not recorded, first kling-text-to-video/direct/2",
            ),
        ),
        "a run failed after its last cell": (
            {"runs": (run(B, failure=GONE), run(F))},
            (f"baseline: the run is not valid: {GONE}",),
        ),
        "a cell is in one run only": (
            {"baseline": changed(B, CHAT, None)},
            (f"baseline: 1 of 8 cells were not recorded, first {CHAT}",),
        ),
        "nothing was recorded": (
            {"baseline": [], "fixed": []},
            (
                f"baseline: 8 of 8 cells were not recorded, first {VIDEO}",
                f"fixed: 8 of 8 cells were not recorded, first {VIDEO}",
                none_must_fail,
            ),
        ),
        "an empty matrix": (
            {"baseline": [], "fixed": [], "runs": (run(B, cases=()), run(F, cases=()))},
            (none_must_fail,),
        ),
        "every must-fail cell was filtered out (T19)": (
            {"baseline": of_control(B), "fixed": of_control(F), "runs": control_only},
            (none_must_fail,),
        ),
    }


INCONCLUSIVE = inconclusive_pairs()


@pytest.mark.parametrize(("pair", "reasons"), INCONCLUSIVE.values(), ids=INCONCLUSIVE)
def test_without_a_contradiction_what_was_not_seen_leaves_it_inconclusive(
    pair: dict[str, Any], reasons: tuple[str, ...]
) -> None:
    comparison = compared(**pair)
    assert comparison.verdict is PairVerdict.INCONCLUSIVE
    assert comparison.reasons == reasons


def _with_headers(seen: Observation, of: str, *headers: tuple[str, str]) -> Observation:
    """Change the headers of the answer, or of every attempt alike."""
    if of == "the answer":
        assert seen.response is not None
        return msgspec.structs.replace(
            seen, response=msgspec.structs.replace(seen.response, headers=headers)
        )
    attempts = tuple(
        msgspec.structs.replace(each, headers=(*each.headers[1:], *headers))
        for each in seen.attempts
    )
    return msgspec.structs.replace(seen, attempts=attempts)


@pytest.mark.parametrize("cell", [CHAT, DIRECT])
@pytest.mark.parametrize("of", ["the first attempt", "the answer"])
@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("content-type: application/json", "", "content-type: application/json on the baseline, "),
        ("content-type: application/json", "content-type: text/html", "content-type: text/html on"),
        ("", "content-encoding: gzip", ", content-encoding: gzip on the fixed module"),
        ("", "x-more: 1", ", x-more on the fixed module"),
        ("x-date: 1", "x-date: 2", ""),
        ("content-length: 1", "transfer-encoding: chunked", ""),
        ("x-envoy-upstream-service-time: 1", "", ""),
    ],
)
def test_headers_that_no_check_has_are_held_against_the_other_variant_s(
    cell: str, of: str, one: str, other: str, said: str
) -> None:
    sides = {}
    for variant, header in ((B, one), (F, other)):
        mode = Mode(cell.split("/")[1])
        seen = right(CONTROL if cell == CHAT else KLING, mode)
        name, _, value = header.partition(": ")
        sides[variant] = changed(
            variant, cell, _with_headers(seen, of, *([(name, value)] if name else []))
        )
    comparison = compared(sides[B], sides[F])
    if not said:
        assert comparison.verdict is PairVerdict.PROVEN
        return
    assert comparison.verdict is PairVerdict.INCONCLUSIVE
    (reason,) = comparison.reasons
    assert reason.startswith(f"in {cell}, {of} has other headers: ")
    assert said in reason


def test_a_host_that_the_fix_has_changed_is_seen_in_the_cells_that_fail_too() -> None:
    def moved(each: Result) -> Result:
        attempts = tuple(
            msgspec.structs.replace(a, host="wrong.example") for a in each.observation.attempts
        )
        seen = msgspec.structs.replace(each.observation, attempts=attempts)
        case = next(case for case in CASES if case.name == each.cell.case)
        return result(case, each.cell.mode, F, seen, each.cell.repeat)

    comparison = compared(fixed=[moved(each) for each in results(F)])
    assert comparison.verdict is PairVerdict.INCONCLUSIVE
    (reason,) = comparison.reasons
    assert reason.startswith(f"in {VIDEO} and 7 more, the first attempt has other headers: host: ")


def test_refuted_beats_inconclusive_and_the_contradiction_comes_first() -> None:
    comparison = compared(baseline=changed(B, CHAT, unseen()), fixed=results(F, shows_defect=True))
    assert comparison.verdict is PairVerdict.REFUTED
    assert [reason.split(":")[0] for reason in comparison.reasons] == ["fixed", "baseline"]


def test_many_cells_with_one_finding_are_named_together() -> None:
    shown = [result(KLING, Mode.RETRY, F, defective(KLING), repeat) for repeat in range(1, 6)]
    direct = [
        result(KLING, Mode.DIRECT, F, right(KLING, Mode.DIRECT), repeat) for repeat in range(1, 6)
    ]
    runs = tuple(run(v, cases=(KLING,), repeats=5) for v in Variant)
    comparison = compared(
        [
            result(case, mode, B, defective(case) if mode is Mode.RETRY else right(case, mode), n)
            for n in range(1, 6)
            for case, mode in ((KLING, Mode.RETRY), (KLING, Mode.DIRECT))
        ],
        shown + direct,
        runs=(runs[0], runs[1]),
    )
    assert comparison.reasons == (
        (
            "fixed: kling-text-to-video/retry/1, kling-text-to-video/retry/2, "
            f"kling-text-to-video/retry/3 and 2 more: expected no check to fail, failed: {FOUR}"
        ),
    )


def test_only_cells_of_both_runs_stand_side_by_side() -> None:
    comparison = compared(baseline=changed(B, CHAT, None))
    assert len(comparison.cells) == 7
    assert all(pair.baseline.verdict is not Verdict.INCONCLUSIVE for pair in comparison.cells)


# --- Go's own tests ------------------------------------------------------------------------------

SUITE = Suite(command=["go", "test", "./..."], status=0, passed=7)
TIMED_OUT = "panic: test timed out after 15m0s\nrunning tests:\n\tTestX (15m0s)"


def summaries(**of: UnitRun) -> dict[Variant, UnitSummary]:
    return {
        Variant(variant): unit_results.summary(Variant(variant), msgspec.json.encode(unit))
        for variant, unit in of.items()
    }


def unit(variant: Variant, *failed: str, vet: Sequence[str] = (), **changes: Any) -> UnitRun:
    suite = replace(SUITE, failed=[*failed], status=int(bool(failed)), **changes)
    return unit_run(run(variant), suites=[suite], vet=[*vet])


GREEN = {variant: unit(variant) for variant in Variant}
UNIT_VERDICTS: dict[str, tuple[dict[str, UnitRun], PairVerdict]] = {
    "both pass": ({"baseline": GREEN[B], "fixed": GREEN[F]}, PairVerdict.PROVEN),
    "a regression test": ({"baseline": unit(B, "a.New"), "fixed": GREEN[F]}, PairVerdict.PROVEN),
    "the baseline alone was run": ({"baseline": unit(B, "a.Old")}, PairVerdict.PROVEN),
    "the fix breaks one": ({"baseline": GREEN[B], "fixed": unit(F, "a.X")}, PairVerdict.REFUTED),
    # It may be red without the fix, too, which is then none the worse.
    "no baseline to compare with": ({"fixed": unit(F, "a.X")}, PairVerdict.INCONCLUSIVE),
    "none that compiles": (
        {
            "baseline": unit_run(run(B), suites=[replace(SUITE, status=1, passed=0)]),
            "fixed": unit(F, "a.X"),
        },
        PairVerdict.INCONCLUSIVE,
    ),
    "none that ran to its end": (
        {"baseline": unit(B, "a.Y", output=TIMED_OUT), "fixed": unit(F, "a.X")},
        PairVerdict.INCONCLUSIVE,
    ),
    "the fix breaks another": (
        {"baseline": unit(B, "a.Old"), "fixed": unit(F, "a.Old", "a.X")},
        PairVerdict.REFUTED,
    ),
    "one fails on both": (
        {"baseline": unit(B, "a.Old"), "fixed": unit(F, "a.Old")},
        PairVerdict.INCONCLUSIVE,
    ),
    "one takes too long": ({"fixed": unit(F, "a.X", output=TIMED_OUT)}, PairVerdict.INCONCLUSIVE),
    "vet finds more": ({"fixed": unit(F, vet=["main.go: x"])}, PairVerdict.INCONCLUSIVE),
    "they do not compile": (
        {"fixed": unit_run(run(F), suites=[replace(SUITE, status=1, passed=0)])},
        PairVerdict.INCONCLUSIVE,
    ),
    "the module's are skipped": (
        {"fixed": unit(F, skipped=["a.Wasm"], skipped_in_wasm=["a.Wasm"])},
        PairVerdict.INCONCLUSIVE,
    ),
}


@pytest.mark.parametrize("name", UNIT_VERDICTS)
def test_red_go_tests_keep_a_pair_from_being_proven(name: str) -> None:
    of, verdict = UNIT_VERDICTS[name]
    comparison = compared(unit=summaries(**of))
    assert comparison.verdict is verdict
    assert len(comparison.reasons) == 1
    assert comparison.reasons[0].startswith("Go's tests:") is (verdict is not PairVerdict.PROVEN)
    assert comparison.headline.count("Go's tests:") == 1
    if verdict is PairVerdict.REFUTED:
        assert "a.X" in comparison.reasons[0]
        assert "a.Old" not in comparison.reasons[0]


def test_red_go_tests_stand_beside_what_the_cells_contradict() -> None:
    fixed = changed(F, VIDEO, defective(KLING))
    both = summaries(baseline=GREEN[B], fixed=unit(F, "a.X"))
    comparison = compared(fixed=fixed, unit=both)
    assert comparison.verdict is PairVerdict.REFUTED
    assert [VIDEO in comparison.reasons[0], "a.X" in comparison.reasons[1]] == [True, True]
    assert comparison.headline.endswith("; Go's tests: failed")
