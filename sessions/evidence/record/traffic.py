"""A run's logs, held against its cells: what gateway and upstream tell of the same requests.

A session looks at them as soon as its gateway has stopped, `verify` whenever it is asked to.
"""

from __future__ import annotations

import ast
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from containers.endings import Ending
from containers.envoy_config import UPSTREAM_CLUSTER
from sessions.evidence.record.check_results import Findings
from sessions.evidence.record.json_diff import differences
from sessions.matrix import crash_lines, credentials, masking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from containers.exchange import Attempt
    from sessions.evidence.record.check_results import Check
    from sessions.evidence.record.recorded import Recorded
    from sessions.matrix.records import Observation

ACCESS, UPSTREAM, STATS, CLUSTERS, GATEWAY = (
    f"logs/{name}"
    for name in ("access.log", "upstream.log", "stats.txt", "clusters.txt", "gateway.log")
)
_TOTAL = ".upstream_rq_total"
# Go's %q writes what Python reads (containers/upstream/model.go, end).
_MODEL = re.compile(
    r"\S+ model (?P<sequence>\d+) (?P<method>\S+) (?P<target>\"(?:[^\"\\]|\\.)*\") "
    r"(?P<status>\d+) epoch=(?P<epoch>\d+) order=(?P<order>\d+) step=(?P<step>\"[^\"]*\") "
    r"matched=(?P<matched>true|false) unmet=\[(?P<unmet>[^\]]*)\] action=.*"
)


def access_log(side: Recorded) -> Check:
    """Each request that was sent has one line, in order, and each line has its request.

    A gateway that was killed takes the lines along that it had not written yet.
    """
    lines = side.text(ACCESS).split("\n")
    if not side.whole or not lines[-1]:
        lines.pop()
    rows = [msgspec.json.decode(line) for line in lines]
    if not rows and side.whole:
        yield f"{ACCESS} is empty"
    by_id: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_id.setdefault(row["request_id"], []).append(row)
    ids = [name for name, _, _ in side.exchanges]
    known = {*ids}
    for stranger in [name for name in by_id if name not in known]:
        yield f"{ACCESS} has a request {stranger} that no cell sent"
    for name, result, seen in side.exchanges:
        found = by_id.get(name, [])
        if len(found) > 1 or (not found and side.whole):
            yield f"{ACCESS} has {len(found)} lines for {name}, expected 1"
        elif found and (seen.response is not None or seen.ending is not None):
            judged = name == result.cell.id and result.checks
            failed = bool(result.failed_checks) if judged else None
            yield from _told_otherwise(name, found[0], seen, failed=failed)
    if side.whole and [row["request_id"] for row in rows] != ids:
        yield f"{ACCESS} does not have the requests in the order in which they were sent"
    told = f"{len(ids)} requests, {len(rows)} lines"
    return f"{told}, one to one" if side.whole else f"{told}; the run is not whole"


def _told_otherwise(
    name: str, row: dict[str, Any], seen: Observation, *, failed: bool | None
) -> Iterator[str]:
    """Give what a line has otherwise than its request.

    Args:
        name: The request's id.
        row: The line.
        seen: What was seen of the request.
        failed: Whether a check of it failed; None when it was not judged.
    """
    own = Ending(flags=row["flags"], details=row["details"]).own
    if own and failed is not None:
        yield f"{ACCESS}: the gateway itself ended {name} ({own}), yet it was judged"
    if failed and seen.ending is None:
        yield f"{name} was judged without its line of {ACCESS}"
    for difference in differences(row, _access_row(row, seen)):
        yield f"{ACCESS}, {name}: {difference}"


def _access_row(row: dict[str, Any], seen: Observation) -> dict[str, Any]:
    """Return a line as the cell has it."""
    wanted: dict[str, Any] = {"method": seen.request.method, "vm": seen.vm}
    if seen.response is not None:
        wanted["status"] = seen.response.status
        if not any(map(credentials.masks, masking.texts_of_response(seen.response))):
            wanted["bytes_sent"] = len(seen.response.body) + len(seen.response.trailing)
    if seen.ending is not None:
        wanted |= {"flags": seen.ending.flags, "details": seen.ending.details}
    if seen.attempts:
        first = seen.attempts[0]
        wanted |= {
            "method": first.method,
            "upstream_cluster": UPSTREAM_CLUSTER,
            "upstream_host": first.arrived_on,
        }
        # As the client sent it, where a plugin keeps that (x-envoy-original-path; ai-proxy does).
        if row["target"] != seen.request.target:
            wanted["target"] = first.target
    return row | wanted


def upstream_log(side: Recorded) -> Check:
    """Each attempt of the journal has one line, in order, and each line has its attempt."""
    rows = [line for line in side.text(UPSTREAM).splitlines() if " model " in line]
    attempts = [attempt for _, _, seen in side.exchanges for attempt in seen.attempts]
    found = {}
    for line in rows:
        row = _model_row(line)
        if row is None:
            if side.whole:
                yield f"{UPSTREAM} has the line {line[:120]!r}"
            continue
        if row["sequence"] in found:
            yield f"{UPSTREAM} has attempt {row['sequence']} twice"
        found[row["sequence"]] = row
    for attempt in attempts:
        row = found.pop(attempt.sequence, None)
        if row is None:
            yield f"{UPSTREAM} does not have attempt {attempt.sequence}"
        else:
            for difference in differences(_attempt_row(attempt), row):
                yield f"attempt {attempt.sequence}: {difference}, as {UPSTREAM} has it"
    # After its journal could not be read any more, an attempt is in the log alone.
    if found and side.whole:
        yield (
            f"{UPSTREAM} has attempts that no cell has: {', '.join(map(str, found))} (sent between "
            "two cells, by a timer of the plugin or by what an earlier cell left)"
        )
    return f"{len(attempts)} attempts, {len(rows)} lines, one to one"


def _model_row(line: str) -> dict[str, Any] | None:
    row = _MODEL.fullmatch(line)
    if row is None:
        return None
    return {
        "sequence": int(row["sequence"]),
        "method": row["method"],
        "target": ast.literal_eval(row["target"]),
        "status": int(row["status"]),
        "epoch": int(row["epoch"]),
        "order": int(row["order"]),
        "step": ast.literal_eval(row["step"]),
        "matched": row["matched"] == "true",
        "unmet": [ast.literal_eval(name) for name in row["unmet"].split()],
    }


def _attempt_row(attempt: Attempt) -> dict[str, Any]:
    return {
        "sequence": attempt.sequence,
        "method": attempt.method,
        "target": attempt.target,
        "status": attempt.answered.status if attempt.answered else 0,
        "epoch": attempt.epoch,
        "order": attempt.order,
        "step": attempt.step,
        "matched": attempt.matched,
        "unmet": list(attempt.unmet),
    }


def routing(side: Recorded) -> Check:
    """Every attempt arrived at the mock, and the gateway's only cluster with traffic is the mock's.

    Where the gateway ended before its time its counts are not there, and the run is not whole.
    """
    address = side.run.upstream_address
    attempts = [attempt for _, _, seen in side.exchanges for attempt in seen.attempts]
    for attempt in attempts:
        if attempt.arrived_on != address:
            yield f"attempt {attempt.sequence} arrived on {attempt.arrived_on}, expected {address}"
    stats = _stats(side.text(STATS))
    if not stats and not side.whole:
        return "every attempt arrived at the mock; the gateway ended before it could say more"
    totals = {
        name.removeprefix("cluster.").removesuffix(_TOTAL): number
        for name, number in stats.items()
        if name.startswith("cluster.") and name.endswith(_TOTAL)
    }
    traffic = {name: number for name, number in totals.items() if number}
    for stranger in [name for name in traffic if name != UPSTREAM_CLUSTER]:
        yield f"the gateway's cluster {stranger} had traffic; expected {UPSTREAM_CLUSTER} alone"
    number = traffic.get(UPSTREAM_CLUSTER, 0)
    if side.whole and number != len(attempts):
        yield f"the gateway sent {number} requests to the mock, and {len(attempts)} arrived"
    if number == 0 and attempts:
        yield f"the gateway counts no request to {UPSTREAM_CLUSTER}"
    yield from _listeners(side, stats)
    yield from _clusters(side)
    return f"{len(attempts)} attempts arrived at {address}; no other cluster had traffic"


def _listeners(side: Recorded, stats: dict[str, int]) -> Iterator[str]:
    """Each listener got the requests of its case, and no others."""
    for case in side.run.cases:
        sent = sum(result.cell.case == case.name for _, result, _ in side.exchanges)
        got = stats.get(f"http.{case.name}.downstream_rq_total", 0)
        if side.whole and got != sent:
            yield f"the gateway's listener {case.name} got {got} requests, and {sent} were sent"


def _clusters(side: Recorded) -> Iterator[str]:
    for line in side.text(CLUSTERS).splitlines():
        name, _, rest = line.partition("::")
        where = rest.partition("::")[0]
        if name != UPSTREAM_CLUSTER:
            yield f"the gateway has a cluster {name}; expected {UPSTREAM_CLUSTER} alone"
        elif re.fullmatch(r".*:\d+", where) and where != side.run.upstream_address:
            yield f"the cluster {name} leads to {where}, expected {side.run.upstream_address}"


def _stats(text: str) -> dict[str, int]:
    rows = (line.split(": ", 1) for line in text.splitlines() if ": " in line)
    return {name: int(number) for name, number in rows if number.isascii() and number.isdigit()}


def gateway_log(side: Recorded) -> Check:
    """The gateway's log says of no trap, no panic and no VM that failed.

    Where a cell already tells of one, the run is not whole.
    """
    text = side.text(GATEWAY)
    line = crash_lines.first(text)
    if line and side.whole:
        yield crash_lines.said_by(line)
    lines = len(text.splitlines())
    return f"{lines} lines, no breakdown" if not line else f"{lines} lines; the run is not whole"


def unreconciled(side: Recorded) -> str:
    """Say, with the figures, what gateway, mock and cells tell otherwise of a run; else nothing."""
    found = Findings("logs")
    checks = {
        "the gateway's log": gateway_log,
        "the mock's log": upstream_log,
        "the routing": routing,
        "the access log": access_log,
    }
    if all(found.look(name, "", partial(check, side)) for name, check in checks.items()):
        return ""
    problem = found.failed[0].problems[0]
    found.look("the figures", "", partial(_figures, side))
    return (
        f"what was seen does not add up: {problem}{found.made[-1].told}; expected gateway, "
        "mock and cells to tell of the same requests, and no breakdown; see logs/ of this run, and "
        "run it again"
    )


def _figures(side: Recorded) -> Check:
    yield from ()
    stats = _stats(side.text(STATS))
    counted = stats.get(f"cluster.{UPSTREAM_CLUSTER}{_TOTAL}", 0)
    listened = sum(stats.get(f"http.{c.name}.downstream_rq_total", 0) for c in side.run.cases)
    told = sum(" model " in line for line in side.text(UPSTREAM).splitlines())
    seen = sum(len(each.attempts) for _, _, each in side.exchanges)
    sent = len([*side.exchanges])
    lines = len(side.text(ACCESS).splitlines())
    return (
        f" (to the mock: the gateway counts {counted} requests, the mock's log has {told}, the "
        f"cells have {seen}; from the client: {sent} were sent, the gateway counts "
        f"{listened}, the access log has {lines})"
    )
