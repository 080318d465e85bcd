"""Whether two runs may be compared: nothing but the module may differ (docs/evidence.md, 1).

Each difference is named. A run's folder, its ports and the paths of its files are its own and are
not compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from sessions.matrix import text_diff
from wasm.foundation.errors import EvidenceError
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions.evidence.record.records import Run
    from wasm.records import Module

_SHOWN_AT_MOST = 60
_ABSENT = object()


def refuse_unlike(baseline: Run, fixed: Run) -> None:
    """Refuse two runs that differ in something else than the module.

    Raises:
        EvidenceError: They do, or one is not of the variant it is taken for, or has no testbed.
    """
    for run, variant in ((baseline, Variant.BASELINE), (fixed, Variant.FIXED)):
        if run.variant is not variant:
            raise EvidenceError(
                f"run {run.id} is of the {run.variant} variant, expected one of the {variant} "
                f"variant; give the folder that `nox -s runtime-{variant}` wrote"
            )
        if run.testbed is None:
            raise EvidenceError(
                f"the {variant} run {run.id} has no testbed to compare: {run.failure}; expected a "
                "run whose gateway came up; mend that and run it again"
            )
    by_ref = _by_ref(fixed)
    found = list(_differences(_shared(baseline, by_ref=by_ref), _shared(fixed, by_ref=by_ref)))
    if not found and baseline.inputs_sha256 != fixed.inputs_sha256:
        found = [f"inputs (baseline {baseline.inputs_sha256}, fixed {fixed.inputs_sha256})"]
    if found:
        raise EvidenceError(
            f"the two runs cannot be compared, they differ in {'; '.join(found)}; expected nothing "
            "but the module to differ; run both with the same options"
        )


def _by_ref(fixed: Run) -> bool:
    """Whether the fix is another commit or the work tree, which may differ in all of it."""
    fix = fixed.module.source.fix
    return fix is not None and fix.origin.is_a_tree


def _shared(run: Run, *, by_ref: bool) -> dict[str, Any]:
    """Return what must be the same in two runs, by the words that name a difference."""
    testbed = run.testbed
    if testbed is None:  # pragma: no cover - refused before
        raise AssertionError
    return {
        "repeats": run.repeats,
        "case": {case.name: msgspec.to_builtins(case) for case in run.cases},
        "engine": testbed.engine,
        "gateway": msgspec.to_builtins(testbed.gateway),
        "upstream": testbed.upstream_sha256,
        "adapter": testbed.adapter and testbed.adapter.cluster_filter_sha256,
        "gateway configuration": run.configuration_sha256,
        "source": _origin(run.module, by_ref=by_ref),
    }


def _origin(module: Module, *, by_ref: bool) -> dict[str, Any]:
    source = module.source
    fixed = module.variant is Variant.FIXED
    made_on = source.fix and source.fix.baseline_sha256 if fixed else source.files_sha256
    origin: dict[str, Any] = {
        "repository": source.repository,
        "plugin": source.plugin,
        "files without the fix": made_on,
        "Go": module.go_version,
        "build command": module.command,
        "build environment": module.environment,
    }
    if not by_ref:
        origin |= {
            "commit": source.commit,
            "uncommitted changes": source.uncommitted.sha256 if source.uncommitted else None,
        }
    return origin


def _differences(one: Any, other: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401 - JSON's
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            below = f"{path} {key}" if path in ("case", "source") else f"{path}.{key}"
            yield from _differences(
                one.get(key, _ABSENT), other.get(key, _ABSENT), below.removeprefix(".")
            )
    elif one != other or isinstance(one, bool) is not isinstance(other, bool):
        shown = text_diff.apart(_text(one), _text(other), _SHOWN_AT_MOST)
        yield f"{path} (baseline {shown[0]}, fixed {shown[1]})"


def _text(value: Any) -> str:  # noqa: ANN401 - likewise
    if value is _ABSENT or value is None or value == "":
        return "none"
    if isinstance(value, dict):
        return "has it"
    return str(value)
