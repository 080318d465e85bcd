"""A run's cells: what was seen, and whether all that is said of it follows from that."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sessions.evidence.pair import rejudge
from sessions.evidence.record.records import Counts, exchanges_s, first_keys
from sessions.matrix import cells, credentials, exact_json, masking
from sessions.matrix.cells import plan
from wasm.records import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from containers.exchange import Attempt
    from sessions.evidence.record.check_results import Check
    from sessions.evidence.verify.reading import Side
    from sessions.matrix.records import Observation, Result

_REFUSED = 400


def planned(side: Side) -> Check:
    """Every cell that was planned is there, once, in order; fewer only when the run says why."""
    wanted = [cell.id for cell in plan(side.run.cases, side.run.repeats)]
    there = [result.cell.id for result in side.results]
    if side.run.failure:
        if there != wanted[: len(there)]:
            yield f"{len(there)} cells are there, not the first of those that were planned"
    elif there != wanted:
        missing = [cell for cell in wanted if cell not in set(there)]
        what = f"{missing[0]} is missing" if missing else "they are not those planned, in order"
        yield f"{len(there)} cells are there, {len(wanted)} were planned: {what}"
    if not there:
        yield "not a single cell is there"
    for result in side.results:
        if not result.checks and not result.reason:
            yield f"{result.cell.id} has no valid observation, and does not say why"
    return f"{len(there)} of {len(wanted)} planned cells, {side.run.repeats} repeats"


def bodies(side: Side) -> Check:
    """Each body has its SHA-256 and its length, and holds no credential but a dummy."""
    number = 0
    for name, result, seen in side.exchanges:
        for what, body, digest in _bodies(seen):
            number += 1
            if digest is not None and sha256_of(body) != digest:
                yield f"{name}: the body of {what} does not have the SHA-256 {digest}"
        for attempt in seen.attempts:
            if attempt.truncated and result.checks:
                # Of a body that was cut nothing can be judged.
                yield f"{name}: the body of attempt {attempt.order} was cut, and judged"
            if not attempt.truncated and len(attempt.body) != attempt.body_bytes:
                yield (
                    f"{name}: the body of attempt {attempt.order} has {len(attempt.body)} bytes, "
                    f"expected {attempt.body_bytes}"
                )
        yield from _credentials(name, seen)
    return f"{number} bodies, each with its SHA-256"


def _bodies(seen: Observation) -> Iterator[tuple[str, bytes, str | None]]:
    yield "the request", seen.request.body, seen.request.body_sha256
    if seen.response is not None:
        yield "the response", seen.response.body, seen.response.body_sha256
    for attempt in seen.attempts:
        # Of a body that was cut, the digest is the complete one's.
        digest = None if attempt.truncated else attempt.body_sha256
        yield f"attempt {attempt.order}", attempt.body, digest


def _credentials(name: str, seen: Observation) -> Iterator[str]:
    texts = [*masking.texts_of_attempts(seen.attempts), seen.request.body.decode("latin-1")]
    if seen.response is not None:
        texts += masking.texts_of_response(seen.response)
    for text in texts:
        for credential in credentials.by_shape(text):
            if not credentials.is_dummy(credential):
                yield f"{name} holds what looks like a credential, not masked"


def order(side: Side) -> Check:
    """The attempts of a cell are in order, and the cells after one another."""
    exchanges = [*side.exchanges]
    for name, _, seen in exchanges:
        yield from _order_of(name, seen.attempts)
    epochs = [attempt.epoch for _, _, seen in exchanges for attempt in seen.attempts[:1]]
    sequence = [attempt.sequence for _, _, seen in exchanges for attempt in seen.attempts]
    if any(other <= one for one, other in pairwise(epochs)):
        yield "the upstream was not reset between two cells"
    if side.whole:
        if sequence != [*range(1, len(sequence) + 1)]:
            yield "the attempts of all cells are not numbered from 1, without a gap"
        if epochs != [*range(1, len(exchanges) + 1)]:
            yield "not every cell has a reset of its own"
    elif any(other <= one for one, other in pairwise(sequence)):
        yield "the attempts of all cells are not in order"
    return f"{len(sequence)} attempts in {len(epochs)} cells"


def _order_of(name: str, attempts: Sequence[Attempt]) -> Iterator[str]:
    if [attempt.order for attempt in attempts] != [*range(1, len(attempts) + 1)]:
        yield f"{name}: the attempts are not numbered from 1"
    if len({attempt.epoch for attempt in attempts}) > 1:
        yield f"{name}: the attempts are of more than one reset of the upstream"
    for one, other in pairwise(attempts):
        if other.received_mono_ns <= one.received_mono_ns:
            yield f"{name}: attempt {other.order} came before attempt {one.order}"
    for attempt in attempts:
        if attempt.answered is not None and attempt.answered_mono_ns < attempt.received_mono_ns:
            yield f"{name}: attempt {attempt.order} was answered before it came"


def fresh_vms(side: Side) -> Check:
    """The first repeats of a case ran in a VM each, and what was run again ran in another.

    Each cell that is not as declared was run again, as far as the rule asks for that.
    """
    cases = {case.name: case for case in side.run.cases}
    vms: dict[tuple[str, int], set[str]] = {}
    earlier: list[Result] = []
    for result in side.results:
        cell, seen = result.cell, result.observation
        vms.setdefault((cell.case, min(cell.repeat, cells.FRESH_VMS)), set()).add(result.vm)
        address = side.run.upstream_address
        first = cells.conclude(cases[cell.case], cell, side.run.variant, seen, address)
        if result.alone is None and cells.to_be_confirmed(first, earlier):
            yield f"{cell.id} is not as declared, and was not run again in a fresh VM"
        if result.alone is not None and result.alone.vm == result.vm:
            yield f"{cell.id} was run again in the same VM, {result.vm}"
        earlier.append(result)
    for (case, repeat), names in vms.items():
        others = set().union(*(vms.get((case, other), set()) for other in range(1, repeat)))
        if names & others or "" in names:
            yield f"{case}: repeat {repeat} did not run in a fresh VM"
    return f"{len(set().union(*vms.values())) if vms else 0} VMs"


def verdicts(side: Side) -> Check:
    """Every check and every verdict, reached again from the observation by the same oracle."""
    for found, expected in rejudge.unfounded(side.run, side.results):
        yield f"{found}; expected {expected}"
    checks = sum(len(result.checks) for result in side.results)
    return f"{checks} checks and {len(side.results)} verdicts, reached again by the oracle"


def decisions(side: Side) -> Check:
    """What the upstream made of each attempt, reached again from the case's script."""
    number = 0
    cases = {case.name: case for case in side.run.cases}
    for name, result, observed in side.exchanges:
        steps = cells.script(cases[result.cell.case], result.cell.mode)["steps"]
        seen: set[str] = set()
        for place, attempt in enumerate(observed.attempts):
            number += 1
            if attempt.error or attempt.truncated or _masked(attempt):
                continue
            step = steps[place] if place < len(steps) else None
            for problem in _decision(attempt, step, seen):
                yield f"{name}, attempt {attempt.order}: {problem}"
            seen.add(attempt.key or "")
    return f"{number} decisions of the upstream, reached again from its script"


def _decision(attempt: Attempt, step: dict[str, Any] | None, seen: set[str]) -> Iterator[str]:
    name = step["name"] if step else "after"
    unmet = tuple(_unmet(attempt, step.get("match"), seen)) if step else ()
    if (attempt.step, attempt.matched, attempt.unmet) != (name, bool(step) and not unmet, unmet):
        yield (
            f"the upstream is said to have taken it for {attempt.step}, unmet "
            f"{', '.join(attempt.unmet) or 'nothing'}; expected {name}, unmet "
            f"{', '.join(unmet) or 'nothing'}"
        )
    if step is None or attempt.answered is None:
        return
    refusal = {"error": "attempt did not match", "step": name, "unmet": list(unmet)}
    status, body = (
        (_REFUSED, refusal) if unmet else (step["respond"]["status"], step["respond"]["json_body"])
    )
    if attempt.answered.status != status:
        yield f"it was answered {attempt.answered.status}, expected {status}"
    if not {*map(tuple, step["respond"]["headers"])} <= {*attempt.answered.headers}:
        yield "it was answered without the script's headers"
    if attempt.answered.action:
        yield f"it was answered with the action {attempt.answered.action}, which no script asks for"
    if not _is_json(attempt.answered.body, body):
        yield "it was answered with another body than the script's"


def _unmet(attempt: Attempt, match: dict[str, Any] | None, seen: set[str]) -> Iterator[str]:
    """Give what an attempt left unmet, in the upstream's order (containers/upstream/match.go)."""
    if match is None:
        return
    if attempt.method != match["method"]:
        yield "method"
    if attempt.target != match["path"]:
        yield "path"
    if attempt.key not in match["bearer_in"]:
        yield "bearer_in"
    if match.get("bearer_differs_from_previous") and (not attempt.key or attempt.key in seen):
        yield "bearer_differs_from_previous"
    if not _is_json(attempt.body, match["json_body"]):
        yield "json_body"


def _is_json(body: bytes, wanted: Any) -> bool:  # noqa: ANN401 - a case's value
    try:
        return exact_json.same(exact_json.read(body), exact_json.exactly(wanted))
    except ValueError:
        return False


def _masked(attempt: Attempt) -> bool:
    """Whether the upstream saw something else than what may be written."""
    return any(credentials.masks(text) for text in masking.texts_of_attempts([attempt]))


def counts(side: Side) -> Check:
    """What a run counts is what its cells show."""
    run = side.run
    if run.counts != Counts.of(side.results):
        yield f"the counts are {run.counts}, expected {Counts.of(side.results)}"
    keys = first_keys(side.results)
    if run.first_keys != keys:
        yield f"the first keys are {run.first_keys}, expected {keys}"
    spent_s = exchanges_s(side.results)
    if run.exchanges_s != spent_s:
        yield f"the exchanges took {run.exchanges_s} s, expected {spent_s} s"
    told = ", ".join(f"{key} {number} times" for key, number in keys.items())
    return f"{run.counts.cells} cells; came first: {told}"
