"""Pairs of runs as reports draw them: proven, refuted, inconclusive, hostile, and very many."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from containers.exchange import Answer
from containers.records import Cleanup, ProcessSeen
from sessions.evidence.pair.compare import compare
from sessions.evidence.report.log_excerpts import Attached, Excerpt
from sessions.matrix.case import Mode
from tests.unit.evidence import runs
from tests.unit.evidence.runs import module, results, run
from tests.unit.matrix.observations import KLING, defective, response, result, right
from wasm.records import Fix, FixKind, Origin, Patch, Variant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from containers.exchange import Attempt
    from sessions.evidence.record.records import Comparison, Run
    from sessions.matrix.case import Case
    from sessions.matrix.records import Observation, Result

B, F = Variant.BASELINE, Variant.FIXED

TAGS = "</code></pre><script>document.title='owned'</script><img src=http://evil.example/x>"
QUOTES = '"\'`<!--"><svg onload=alert(1)>'
BIDI = "safe\u202egnp.exe\u2066hidden\u2069"
ESCAPE = "\x1b[31mred\x07\x00nul"
MARKDOWN = (
    "```\n@maintainer #4396 GH-7 [x](http://evil.example) ![i](http://evil.example/p.png) | a | "
    "https://evil.example www.evil.example <details> **bold** ~~~~ ``` </details>\n# Heading\n- x"
)
CONTROLS = ("\u202e", "\u2066", "\u2069", "\x1b", "\x07", "\x00")
NOT_UTF8 = b'{"model":"\xff\xfe\x80","prompt":"' + TAGS.encode() + b'"}\x00\xc3'
LONG = b'{"model":"' + b"A" * 5_000_000 + b'"}'


class Pair(NamedTuple):
    """Two runs compared, as ``render`` takes them."""

    comparison: Comparison
    baseline: Run
    baseline_results: Sequence[Result]
    fixed: Run
    fixed_results: Sequence[Result]


def pair(
    baseline: Run, baseline_results: Sequence[Result], fixed: Run, fixed_results: Sequence[Result]
) -> Pair:
    """Two runs compared by the very function that judges them."""
    told = compare(baseline, baseline_results, fixed, fixed_results, cleanup=runs.GONE)
    return Pair(told, baseline, baseline_results, fixed, fixed_results)


def in_time(seen: Observation) -> Observation:
    """An observation with the times and the answers that an upstream records."""
    started = 13_063_268_911
    attempts = tuple(
        msgspec.structs.replace(
            each,
            received_mono_ns=started + number * 1_200_000,
            answered_mono_ns=started + number * 1_200_000 + 100_000,
            answered=Answer(status=503 if number + 1 < len(seen.attempts) else 200, body=b"{}"),
        )
        for number, each in enumerate(seen.attempts)
    )
    return msgspec.structs.replace(seen, attempts=attempts)


def timed(those: Sequence[Result], cases: Sequence[Case] = runs.CASES) -> list[Result]:
    """Results with such times, judged again."""
    by_name = {case.name: case for case in cases}
    return [
        result(
            by_name[each.cell.case],
            each.cell.mode,
            Variant(each.variant),
            in_time(each.observation),
            each.cell.repeat,
        )
        for each in those
    ]


def proven() -> Pair:
    """The baseline shows the defect, and the fixed module does not."""
    return pair(run(B), timed(results(B)), run(F), timed(results(F)))


def refuted() -> Pair:
    """The fixed module still shows the defect in one repeat, and one retry never comes."""
    fixed = timed(results(F))
    fixed[0] = result(KLING, Mode.RETRY, F, in_time(defective(KLING)), 1)
    seen = in_time(right(KLING, Mode.RETRY))
    lost = msgspec.structs.replace(
        seen,
        attempts=seen.attempts[:1],
        response=response(503, msgspec.json.encode(KLING.failure.json)),
    )
    fixed[4] = result(KLING, Mode.RETRY, F, lost, 2)
    return pair(run(B), timed(results(B)), run(F), fixed)


def inconclusive() -> Pair:
    """The gateway went away while the fixed module ran."""
    fixed = timed(results(F))[:-1]
    for place, each in enumerate(fixed[4:], 4):
        silent = msgspec.structs.replace(
            each.observation, response=None, attempts=(), fault="the gateway ended by signal 9"
        )
        case = next(case for case in runs.CASES if case.name == each.cell.case)
        fixed[place] = result(case, each.cell.mode, F, silent, each.cell.repeat)
    ended = run(F, failure="interrupted before the matrix was done; run it again")
    return pair(run(B), timed(results(B)), ended, fixed)


def altered(seen: Observation, place: int, **changes: Any) -> Observation:
    """An observation with one attempt changed; a body brings its length and digest along."""
    attempts: list[Attempt] = list(seen.attempts)
    if "body" in changes:
        digest = hashlib.sha256(changes["body"]).hexdigest()
        changes |= {"body_bytes": len(changes["body"]), "body_sha256": digest}
    attempts[place] = msgspec.structs.replace(attempts[place], **changes)
    return msgspec.structs.replace(seen, attempts=tuple(attempts))


def hostile() -> Pair:
    """Whatever can come from outside tries to be more than text."""
    evil = f"{TAGS}{QUOTES}{BIDI}{ESCAPE}{MARKDOWN}"
    case = msgspec.structs.replace(
        KLING, title=evil, plugin={**KLING.plugin, evil: evil}, name=f"case-{evil}"
    )
    cases = (case, *runs.CASES[1:])
    base = in_time(defective(case))
    header = (("x-evil", evil), ("x-evil", evil))
    seen = [
        altered(base, 1, target=f"/v1/videos?{evil}", body=NOT_UTF8, headers=header),
        altered(base, 1, body=LONG),
    ]
    bad = response(200, evil.encode() + b"\xff")
    seen[0] = msgspec.structs.replace(seen[0], response=bad)
    fixed_seen = msgspec.structs.replace(seen[0], response=None, fault=evil)
    recorded: dict[Variant, list[Result]] = {}
    for variant in Variant:
        those = [each for each in timed(results(variant)) if each.cell.case != KLING.name]
        for repeat in range(1, runs.REPEATS + 1):
            retry = seen[repeat - 1] if variant is B else fixed_seen
            those.append(result(case, Mode.RETRY, variant, retry, repeat))
            those.append(
                result(case, Mode.DIRECT, variant, in_time(right(case, Mode.DIRECT)), repeat)
            )
        recorded[variant] = those
    patch = Patch.of(f"--- a\n+++ b\n+{evil}\n".encode() + b"\xff")
    fix = Fix(
        origin=Origin(kind=FixKind.PATCH, name=evil),
        patch=patch,
        baseline_sha256=runs.SOURCE.files_sha256,
    )
    source = {"repository": evil, "ref": evil}
    facts = runs.facts(notes=[evil])
    facts = replace(facts, gateway=replace(facts.gateway, image=evil))
    return pair(
        run(B, cases=cases, module=module(B, **source), testbed=facts, command=["x", evil]),
        recorded[B],
        run(F, cases=cases, module=module(F, **source, fix=fix), testbed=facts, failure=evil),
        recorded[F],
    )


def many(cases: int, repeats: int) -> Pair:
    """A survey of very many cells, and one of them wrong."""
    named = tuple(
        msgspec.structs.replace(KLING, name=f"survey-{number:04}") for number in range(cases)
    )
    recorded: dict[Variant, list[Result]] = {}
    for variant in Variant:
        shown = {
            Mode.RETRY: in_time(defective(KLING) if variant is B else right(KLING, Mode.RETRY)),
            Mode.DIRECT: in_time(right(KLING, Mode.DIRECT)),
        }
        recorded[variant] = [
            result(case, mode, variant, shown[mode], repeat)
            for repeat in range(1, repeats + 1)
            for case in named
            for mode in Mode
        ]
    wrong = named[-1]
    recorded[F][2 * (cases - 1)] = result(wrong, Mode.RETRY, F, in_time(defective(KLING)), 1)
    return pair(
        run(B, cases=named, repeats=repeats),
        recorded[B],
        run(F, cases=named, repeats=repeats),
        recorded[F],
    )


def beside(text: str = "[info] a line") -> Mapping[Variant, Attached]:
    """What lies beside the records: a clean-up proof and the end of a log."""
    proof = Cleanup(
        processes=[ProcessSeen(name="gateway", pid=7, exit_status=0, ended=True)],
        refused={"gateway kling 127.0.0.1:40001": True},
        network_isolation="none was enforced",
    )
    log = Excerpt(name="logs/gateway.log", size_bytes=len(text), text=text)
    each = Attached(cleanup=proof, excerpts=(log,), sums_sha256="9" * 64)
    return dict.fromkeys(Variant, each)
