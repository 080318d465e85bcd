"""Runs that may not be compared, each refused by the name of what differs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from containers.records import EngineKind
from sessions.evidence.pair.comparable import refuse_unlike
from sessions.evidence.record.json_diff import differences
from sessions.evidence.report import report_fields as told
from tests.unit.evidence.runs import CASES, FIX, GATEWAY, facts, module, run
from tests.unit.matrix.observations import CONTROL, KLING
from wasm.foundation.errors import EvidenceError
from wasm.records import FixKind, Origin, Patch, Variant

if TYPE_CHECKING:
    from sessions.evidence.record.records import Run

B, F = Variant.BASELINE, Variant.FIXED


def refusal(baseline: Run, fixed: Run) -> str:
    with pytest.raises(EvidenceError) as caught:
        refuse_unlike(baseline, fixed)
    return str(caught.value)


def with_request(**changes: Any) -> tuple[Any, ...]:
    request = msgspec.structs.replace(KLING.request, **changes)
    return (msgspec.structs.replace(KLING, request=request), CONTROL)


def with_plugin(**provider: Any) -> tuple[Any, ...]:
    plugin = {"provider": {**KLING.plugin["provider"], **provider}}
    return (msgspec.structs.replace(KLING, plugin=plugin), CONTROL)


def test_two_runs_that_differ_in_the_module_alone_may_be_compared() -> None:
    assert run(B).module != run(F).module
    refuse_unlike(run(B), run(F))


def test_what_is_a_run_s_own_is_not_compared() -> None:
    other = run(
        F,
        upstream_address="127.0.0.1:1",
        command=["other"],
        testbed=facts(gateway_config_sha256="9" * 64, notes=["a port was taken"]),
    )
    refuse_unlike(run(B), other)


OTHER_SHA = "8" * 64
UNLIKE: dict[str, tuple[dict[str, Any], str]] = {
    "repeats": ({"repeats": 3}, "repeats (baseline 2, fixed 3)"),
    "a case's request": (
        {"cases": with_request(target="/v1/videos")},
        "case kling-text-to-video.request.target (baseline /v1/videos?trace=1, fixed /v1/videos)",
    ),
    "a case's body": (
        {"cases": with_request(json={"model": "m2", "prompt": "a paper boat on a lake"})},
        "case kling-text-to-video.request.json.model (baseline m1, fixed m2)",
    ),
    "a truth for a number": (
        {
            "cases": with_plugin(
                retryOnFailure={"enabled": 1, "maxRetries": 1, "retryOnStatus": ["503"]}
            )
        },
        "case kling-text-to-video.plugin.provider.retryOnFailure.enabled (baseline True, fixed 1)",
    ),
    "a plugin's configuration": (
        {"cases": with_plugin(type="openai")},
        "case kling-text-to-video.plugin.provider.type (baseline kling, fixed openai)",
    ),
    "a field more in a plugin's configuration": (
        {"cases": with_plugin(timeout=1)},
        "case kling-text-to-video.plugin.provider.timeout (baseline none, fixed 1)",
    ),
    "what must fail": (
        {"cases": (msgspec.structs.replace(KLING, must_fail={}), CONTROL)},
        (
            "case kling-text-to-video.must_fail.retry (baseline ['retry_path', 'retry_body', "
            "'client_status', 'client_body'], fixed none)"
        ),
    ),
    "a case less": ({"cases": CASES[:1]}, "case openai-chat (baseline has it, fixed none)"),
    "the engine": (
        {"testbed": facts(engine=EngineKind.DOCKER)},
        "engine (baseline process, fixed docker)",
    ),
    "the gateway's version": (
        {"testbed": facts(gateway=replace(GATEWAY, envoy_version="abc/1.39.3"))},
        "gateway.envoy_version (baseline abc/1.40.0/Clean/RELEASE/BoringSSL, fixed abc/1.39.3)",
    ),
    "the gateway's digest and image": (
        {"testbed": facts(gateway=replace(GATEWAY, image="higress:2", digest="sha256:1"))},
        (
            "gateway.image (baseline none, fixed higress:2); gateway.digest (baseline sha256:"
            "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee..., fixed sha256:1)"
        ),
    ),
    "the upstream": (
        {"testbed": facts(upstream_sha256=OTHER_SHA)},
        f"upstream (baseline {'2' * 60}..., fixed {'8' * 60}...)",
    ),
    "the adapter": (
        {"testbed": facts(adapter=None)},
        f"adapter (baseline {'5' * 60}..., fixed none)",
    ),
    "the gateway's configuration": (
        {"configuration_sha256": OTHER_SHA},
        f"gateway configuration (baseline none, fixed {'8' * 60}...)",
    ),
    "the source's commit": (
        {"module": module(F, commit="9" * 40)},
        f"source commit (baseline {'c' * 40}, fixed {'9' * 40})",
    ),
    "uncommitted changes": (
        {"module": module(F, uncommitted=Patch.of(b"x"))},
        f"source uncommitted changes (baseline none, fixed {Patch.of(b'x').sha256[:60]}...)",
    ),
    "the repository": (
        {"module": module(F, repository="elsewhere")},
        "source repository (baseline https://git.example/higress.git, fixed elsewhere)",
    ),
    "the plugin": (
        {"module": module(F, plugin="plugins/cors")},
        "source plugin (baseline plugins/ai-proxy, fixed plugins/cors)",
    ),
    "Go": (
        {"module": replace(module(F), go_version="go version go1.27")},
        "source Go (baseline go version go1.26.8 linux/amd64, fixed go version go1.27)",
    ),
    "the inputs' digest alone": (
        {"inputs_sha256": OTHER_SHA},
        f"inputs (baseline {'1' * 64}, fixed {OTHER_SHA})",
    ),
}


@pytest.mark.parametrize(("change", "difference"), UNLIKE.values(), ids=UNLIKE)
def test_two_runs_that_differ_in_anything_else_are_refused_naming_it(
    change: dict[str, Any], difference: str
) -> None:
    assert refusal(run(B), run(F, **change)) == (
        f"the two runs cannot be compared, they differ in {difference}; expected nothing but the "
        "module to differ; run both with the same options"
    )


def test_every_difference_is_named() -> None:
    sentence = refusal(run(B), run(F, repeats=3, testbed=facts(engine=EngineKind.DOCKER)))
    assert "repeats (baseline 2, fixed 3); engine (baseline process, fixed docker);" in sentence


def test_two_refs_that_were_named_may_be_of_different_commits() -> None:
    for kind in (FixKind.REF, FixKind.WORK_TREE):
        fix = replace(FIX, origin=Origin(kind=kind, name="my-fix"))
        refuse_unlike(run(B), run(F, module=module(F, commit="9" * 40, fix=fix)))


@pytest.mark.parametrize("kind", FixKind)
@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (
            {"go_version": "go version go1.27"},
            "Go (baseline go version go1.26.8 linux/amd64, fixed go version go1.27)",
        ),
        (
            {"command": ["go", "build", "-tags=x"]},
            "build command (baseline ['go', 'build'], fixed ['go', 'build', '-tags=x'])",
        ),
        (
            {"environment": {"GOOS": "wasip1", "GOEXPERIMENT": "x"}},
            "GOEXPERIMENT (baseline none, fixed x)",
        ),
    ],
)
def test_two_modules_that_were_not_built_alike_are_refused_naming_both(
    kind: FixKind, change: dict[str, Any], difference: str
) -> None:
    fix = replace(FIX, origin=Origin(kind=kind, name="my-fix"))
    sentence = refusal(run(B), run(F, module=replace(module(F, fix=fix), **change)))
    assert difference in sentence


@pytest.mark.parametrize("name", ["ref main", "higress-4396", "the work tree"])
def test_a_patch_files_name_is_never_taken_for_another_kind_of_fix(name: str) -> None:
    fix = replace(FIX, origin=Origin(kind=FixKind.PATCH, name=name))
    fixed = run(F, module=module(F, commit="9" * 40, fix=fix))
    assert f"source commit (baseline {'c' * 40}, fixed {'9' * 40})" in refusal(run(B), fixed)
    assert told.issue(fixed) is None


@pytest.mark.parametrize("kind", FixKind)
def test_a_fix_that_was_made_on_another_tree_is_refused(kind: FixKind) -> None:
    fix = replace(FIX, origin=Origin(kind=kind, name="x"), baseline_sha256="9" * 64)
    assert (
        f"differ in source files without the fix (baseline {'b' * 60}..., fixed {'9' * 60}...);"
        in refusal(run(B), run(F, module=module(F, fix=fix)))
    )


def test_two_baselines_are_refused() -> None:
    assert refusal(run(B), run(B)) == (
        "run 20260101T000000Z-baseline-000000 is of the baseline variant, expected one of the "
        "fixed variant; give the folder that `nox -s runtime-fixed` wrote"
    )


def test_two_runs_the_wrong_way_round_are_refused() -> None:
    assert refusal(run(F), run(B)).startswith(
        "run 20260101T000000Z-fixed-000000 is of the fixed variant, expected one of the baseline"
    )


def test_a_run_whose_gateway_never_came_up_is_refused_with_its_failure() -> None:
    assert refusal(run(B, testbed=None, failure="Envoy is missing"), run(F)) == (
        "the baseline run 20260101T000000Z-baseline-000000 has no testbed to compare: Envoy is "
        "missing; expected a run whose gateway came up; mend that and run it again"
    )


def test_of_two_long_values_that_begin_alike_the_difference_is_shown() -> None:
    """A prompt of a case, say; and of a record, what `verify` names."""
    long = "x" * 500
    texts = [f"{long}one", f"{long}two"]
    cases = [(msgspec.structs.replace(CASES[0], title=text), *CASES[1:]) for text in texts]
    sentence = refusal(run(B, cases=cases[0]), run(F, cases=cases[1]))
    assert [text[-4:] in sentence for text in texts] == [True, True]
    (told,) = differences({"body": texts[0]}, {"body": texts[1]})
    assert [f'{text[-4:]}"' in told for text in texts] == [True, True]
