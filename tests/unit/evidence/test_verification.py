"""``verify``: what is whole passes; whatever was changed since fails, and is named."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from containers.records import Listed, ProcessSeen
from sessions.evidence import verify
from sessions.evidence.pair import bundle
from sessions.evidence.record import store
from sessions.evidence.record.check_results import Findings
from sessions.evidence.verify import pair, reading
from sessions.matrix import cells
from sessions.matrix.checks import CheckName
from sessions.matrix.verdict import Verdict
from tests.unit.evidence import forging, recorded
from tests.unit.evidence.forging import change_cell, change_run
from tests.unit.evidence.runs import FIX
from tests.unit.matrix.observations import ADDRESS, CONTROL
from wasm.foundation.errors import EvidenceError
from wasm.golang.goversion import GoChoice
from wasm.records import Patch, Variant, sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from containers.exchange import Attempt
    from sessions.evidence.record.records import Run
    from sessions.matrix.records import Result

pytestmark = pytest.mark.timeout(120)

B, F = Variant.BASELINE, Variant.FIXED
# The first cell: the video's retry, which shows the defect on the baseline.
VIDEO = 0

OF_A_RUN = (
    "SHA256SUMS",
    "cells.jsonl",
    "cleanup.json",
    "config/envoy.json",
    "config/listeners.json",
    "config/plugins/kling-text-to-video.json",
    "config/plugins/openai-chat.json",
    "junit.xml",
    "logs/access.log",
    "logs/clusters.txt",
    "logs/gateway.log",
    "logs/server_info.json",
    "logs/stats.txt",
    "logs/upstream.log",
    "run.json",
)
SCHEMAS = ("cell", "cleanup", "comparison", "run", "statement", "unit")
DRAWN = (
    *("comparison.json", "statement.json", *bundle.REPORTS),
    *(f"schemas/{name}.schema.json" for name in SCHEMAS),
)
FILES = (
    "SHA256SUMS",
    *(f"baseline/{name}" for name in OF_A_RUN),
    *(f"fixed/{name}" for name in OF_A_RUN),
    "fixed/config/fix.patch",
    *DRAWN,
)

A_FILE_IN_EACH_FOLDER = tuple({name.rpartition("/")[0]: name for name in FILES}.values())


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle as `nox -s report` leaves it; not to be changed."""
    evidence = tmp_path_factory.mktemp("evidence")
    return bundle.make(evidence, recorded.pair(evidence, repeats=1), None).folder


@pytest.fixture
def folder(fresh: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return shutil.copytree(fresh, tmp_path / "bundle")


def failed(folder: Path) -> list[str]:
    """The checks that do not hold, each with whom it is about."""
    return [f"{each.about} {each.check}".strip() for each in verify.of(folder).failed]


def told(folder: Path) -> str:
    """Everything that does not hold, in one text."""
    found = verify.of(folder)
    assert not found.holds, "it was verified"
    return "\n".join(problem for each in found.failed for problem in each.problems)


# --- A fresh bundle -----------------------------------------------------------------------------


def test_a_fresh_bundle_passes_and_each_check_is_listed(fresh: Path) -> None:
    found = verify.of(fresh)
    assert found.failed == ()
    assert found.holds
    *lines, last = found.lines
    assert all(line.startswith("ok ") for line in lines)
    assert {each.check for each in found.made} == {*verify.CHECKS}
    assert last.startswith(f"verified: all {len(lines)} checks of the bundle hold; ")
    assert last.endswith("; what it says is: proven; Go's tests: not run")
    assert f"ok    cells         {B:<9} 4 of 4 planned cells, 1 repeats" in lines
    assert f"ok    access log    {F:<9} 4 requests, 4 lines, one to one" in lines


def test_the_files_of_this_bundle_are_those_that_are_tampered_with_below(fresh: Path) -> None:
    there = {p.relative_to(fresh).as_posix() for p in fresh.rglob("*") if p.is_file()}
    assert there == {*FILES}


def test_a_bundle_is_verified_wherever_it_lies(fresh: Path, tmp_path: Path) -> None:
    elsewhere = shutil.copytree(fresh, tmp_path / "another name")
    assert failed(elsewhere) == []


def test_the_archive_is_verified_like_the_folder(fresh: Path) -> None:
    archive = fresh.with_name(f"{fresh.name}.zip")
    assert verify.of(archive).lines == verify.of(fresh).lines


def test_a_lone_run_is_verified_too_and_its_change_is_seen(fresh: Path, tmp_path: Path) -> None:
    run = shutil.copytree(fresh / B, tmp_path / "run")
    found = verify.of(run)
    assert found.failed == ()
    assert found.lines[-1].endswith(
        " checks of the run hold; what it says is: every cell is as declared of baseline"
    )
    (run / "logs" / "gateway.log").write_text("another\n")
    assert failed(run) == ["hashes", "files"]


def test_what_is_neither_a_bundle_nor_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError) as caught:
        verify.of(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} holds neither a bundle nor a run; expected baseline/, fixed/ and "
        "comparison.json, or run.json; run `nox -s report`, or name another"
    )


def test_nothing_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match=r"no evidence at .*; expected a bundle's folder or"):
        verify.of(tmp_path / "none")


# --- Any file -----------------------------------------------------------------------------------


def flip(path: Path) -> None:
    """Change one byte in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_is_seen_and_its_file_named(folder: Path, name: str) -> None:
    flip(folder / name)
    text = told(folder)
    assert name == "SHA256SUMS" or f"{name} was changed: its SHA-256 is " in text


@pytest.mark.parametrize("name", FILES)
def test_a_dropped_file_is_seen_and_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert f"{name} is missing" in told(folder)


@pytest.mark.parametrize("name", A_FILE_IN_EACH_FOLDER)
def test_an_added_file_is_seen_and_named(folder: Path, name: str) -> None:
    (folder / f"{name}.copy").write_text("another\n")
    assert f"{name}.copy is not in SHA256SUMS" in told(folder)


@pytest.mark.parametrize("name", [f for f in FILES[1:] if not f.startswith("fixed/")])
def test_two_swapped_files_are_seen_and_named(folder: Path, name: str) -> None:
    other = "statement.json" if name != "statement.json" else "comparison.json"
    one, two = (folder / name).read_bytes(), (folder / other).read_bytes()
    (folder / name).write_bytes(two)
    (folder / other).write_bytes(one)
    text = told(folder)
    assert f"{name} was changed" in text
    assert f"{other} was changed" in text


def test_sums_that_name_a_file_twice_are_refused(folder: Path) -> None:
    sums = folder / store.SUMS
    first = sums.read_text().splitlines()[0]
    sums.write_text(f"{first}\n{sums.read_text()}")
    name = first.partition("  ")[2]
    problems = ("SHA256SUMS names " + name + " twice",)
    assert verify.of(folder).failed[0].problems[:1] == problems
    assert failed(folder) == ["hashes"]


def test_sums_without_a_last_line_feed_are_not_as_they_are_written(folder: Path) -> None:
    sums = folder / store.SUMS
    sums.write_text(sums.read_text().removesuffix("\n"))
    assert failed(folder) == ["hashes"]
    assert verify.of(folder).failed[0].problems == (
        "SHA256SUMS is not written as `nox -s report` writes it",
    )


# With SHA256SUMS made to match, it is no longer the hashes that tell.
# SHA256SUMS itself is what is made again, so nothing of a change to it is left.
HELD = [name for name in FILES if not name.endswith("SHA256SUMS")]


def seen_though_the_sums_match(folder: Path, name: str) -> None:
    found = verify.of(folder)
    assert found.failed
    assert "hashes" not in {each.check for each in found.failed}
    # A byte of a run's record may be one of a value, and then what contradicts it is named.
    problems = "\n".join(problem for each in found.failed for problem in each.problems)
    assert name in problems or (name == "run.json" and problems)


@pytest.mark.parametrize("name", HELD)
def test_a_changed_byte_is_seen_though_the_sums_match(folder: Path, name: str) -> None:
    flip(folder / name)
    forging.reseal(folder)
    seen_though_the_sums_match(folder, name.rpartition("/")[2])


@pytest.mark.parametrize("name", HELD)
def test_a_dropped_file_is_seen_though_the_sums_match(folder: Path, name: str) -> None:
    (folder / name).unlink()
    forging.reseal(folder)
    seen_though_the_sums_match(folder, name.rpartition("/")[2])


@pytest.mark.parametrize("name", A_FILE_IN_EACH_FOLDER)
def test_an_added_file_is_seen_though_the_sums_match(folder: Path, name: str) -> None:
    (folder / f"{name}.copy").write_text("another\n")
    forging.reseal(folder)
    seen_though_the_sums_match(folder, f"{name.rpartition('/')[2]}.copy")


@pytest.mark.parametrize("name", [f"{B}/{name}" for name in OF_A_RUN if name != "SHA256SUMS"])
def test_a_file_of_the_other_run_is_seen_though_the_sums_match(folder: Path, name: str) -> None:
    theirs = folder / name.replace(B, F, 1)
    ours = folder / name
    same = ours.read_bytes() == theirs.read_bytes()
    shutil.copyfile(theirs, ours)
    forging.reseal(folder)
    # Cases and the script of the mock are the same for both, and so are some files.
    alike = ("plugins/", "cleanup", "clusters", "gateway.log", "server_info", "stats")
    assert same is any(part in name for part in alike)
    assert bool(failed(folder)) is not same


def test_a_signature_of_one_run_is_no_file_of_a_bundle(folder: Path) -> None:
    (folder / B / store.SIGNATURE).write_text("x")
    forging.reseal(folder)
    assert failed(folder) == ["baseline files"]


def test_two_swapped_runs_are_seen_though_the_sums_match(folder: Path) -> None:
    (folder / B).rename(folder / "aside")
    (folder / F).rename(folder / B)
    (folder / "aside").rename(folder / F)
    forging.reseal(folder)
    assert "the module is of the fixed variant, expected baseline" in told(folder)
    assert "pairing" in failed(folder)


@pytest.mark.parametrize("kind", ["link", "link out", "pipe", "linked folder"])
def test_what_is_no_plain_file_is_never_followed(folder: Path, kind: str) -> None:
    place = folder / "logs"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "linked folder":
        place.symlink_to(folder / B)
    else:
        place.symlink_to(folder / "SHA256SUMS" if kind == "link" else "/etc/hostname")
    found = verify.of(folder)
    assert [each.check for each in found.made] == ["plain files"]
    assert found.failed[0].problems == (
        "logs is no plain file" if kind == "pipe" else "logs is a link",
    )


# --- Any field of comparison.json ---------------------------------------------------------------


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield from leaves(value[key], (*path, key))
        if path:
            yield path
    else:
        yield path


def other(value: Any) -> Any:
    """Return another value of the same kind, where that is a kind with others."""
    others = {"proven": "refuted", "pass": "mismatch", "mismatch": "pass", "process": "docker"}
    others |= {"retry": "direct", "direct": "retry"}
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return others.get(value, f"{value}x")
    if isinstance(value, list):
        return value[:-1] if value else ["x"]
    if isinstance(value, dict):
        return {}
    return "x"


def test_any_changed_field_of_the_comparison_is_seen_though_the_sums_match(
    folder: Path,
) -> None:
    path = folder / bundle.COMPARISON
    whole = msgspec.json.decode(path.read_bytes())
    places = list(leaves(whole))
    assert len(places) > 80
    # The checks of the runs alone do not look at it, and would take most of the time.
    sides = [reading.side(Findings("bundle"), folder, variant) for variant in Variant]
    assert sides[0] is not None
    assert sides[1] is not None
    for place in places:
        changed = msgspec.json.decode(msgspec.json.encode(whole))
        at = changed
        for key in place[:-1]:
            at = at[key]
        at[place[-1]] = other(at[place[-1]])
        store.write_json(path, changed)
        checked = Findings("bundle")
        pair.check(checked, folder, sides[0], sides[1], reading.pair(checked, folder))
        found = {each.check: each.problems for each in checked.failed}
        assert {"comparison", "schemas"} & {*found}, place
        told = " ".join(found.get("schemas", ()) + found.get("comparison", ()))
        # The field, or the record that can no longer be one.
        assert str(place[0]) in told or "comparison.json is not as its schema says" in told, place
        assert "reports" in found, place


@pytest.mark.parametrize("change", ["drop", "add"])
def test_a_field_dropped_from_the_comparison_or_added_to_it_is_seen(
    folder: Path, change: str
) -> None:
    path = folder / bundle.COMPARISON
    whole = msgspec.json.decode(path.read_bytes())
    for key in [*whole] if change == "drop" else ["approved"]:
        changed = {k: v for k, v in whole.items() if k != key}
        store.write_json(path, changed if change == "drop" else {**whole, key: True})
        store.seal(folder)
        assert "schemas" in failed(folder), key
        if change == "add":
            assert "comparison.json: approved is true, expected not there" in told(folder)


# --- Any judged field of a cell: every digest matches, and still it does not follow --------------


def with_attempt(number: int, **changes: Any) -> Callable[[Result], Result]:
    def change(result: Result) -> Result:
        attempts = [*result.attempts]
        attempts[number] = msgspec.structs.replace(attempts[number], **changes)
        return msgspec.structs.replace(result, attempts=tuple(attempts))

    return change


def with_attempts(change: Callable[[list[Attempt]], list[Attempt]]) -> Callable[[Result], Result]:
    return lambda result: msgspec.structs.replace(
        result, attempts=tuple(change([*result.attempts]))
    )


def body(content: bytes) -> dict[str, Any]:
    return {"body": content, "body_bytes": len(content), "body_sha256": sha256_of(content)}


def key(name: str) -> dict[str, Any]:
    return {"headers": (("authorization", f"Bearer {name}"), ("content-type", "application/json"))}


def with_response(**changes: Any) -> Callable[[Result], Result]:
    def change(result: Result) -> Result:
        assert result.response is not None
        return msgspec.structs.replace(
            result, response=msgspec.structs.replace(result.response, **changes)
        )

    return change


def with_check(number: int, **changes: Any) -> Callable[[Result], Result]:
    def change(result: Result) -> Result:
        checks = [*result.checks]
        checks[number] = msgspec.structs.replace(checks[number], **changes)
        return msgspec.structs.replace(result, checks=tuple(checks))

    return change


def renumbered(attempts: list[Attempt]) -> list[Attempt]:
    """Swap two attempts, and make their numbers look as if they had come so."""
    one, two = attempts
    times = ("order", "sequence", "received_mono_ns", "answered_mono_ns")
    return [
        msgspec.structs.replace(two, **{name: getattr(one, name) for name in times}),
        msgspec.structs.replace(one, **{name: getattr(two, name) for name in times}),
    ]


def replaced(**changes: Any) -> Callable[[Result], Result]:
    return lambda result: msgspec.structs.replace(result, **changes)


RIGHT_PATH = "/v1/videos/text2video?trace=1"
RIGHT_BODY = b'{"model_name":"up-m1","prompt":"a paper boat on a lake"}'
ANSWER = b'{"code":0,"data":{"task_id":"kling-t2v-task-1","task_status":"submitted"}}'
JUDGED: dict[str, tuple[Callable[[Result], Result], str]] = {
    "the first path": (with_attempt(0, target="/v1/other"), "verdicts"),
    "the retry's path, made right": (with_attempt(1, target=RIGHT_PATH), "upstream log"),
    "the retry's body, made right": (with_attempt(1, **body(RIGHT_BODY)), "decisions"),
    "the retry's body, written otherwise": (
        with_attempt(1, **body(b'{"model": "up-m1", "prompt": "a paper boat on a lake"}')),
        "verdicts",
    ),
    "the first body": (with_attempt(0, **body(b"{}")), "verdicts"),
    "a body without its digest": (with_attempt(0, body=RIGHT_BODY[:-1] + b" "), "bodies"),
    "a body's length": (with_attempt(0, body_bytes=1), "bodies"),
    "the retry's key": (with_attempt(1, **key("dummy-key-a")), "verdicts"),
    "the first key": (with_attempt(0, **key("dummy-key-b")), "verdicts"),
    "a key that nobody declared": (with_attempt(0, **key("dummy-key-c")), "verdicts"),
    "a method": (with_attempt(1, method="PUT"), "verdicts"),
    "where it arrived": (with_attempt(1, arrived_on="203.0.113.9:443"), "routing"),
    "a body that was cut": (with_attempt(1, truncated=True), "bodies"),
    "an answer before its attempt": (with_attempt(1, answered_mono_ns=1), "order"),
    "an exchange that broke off": (with_attempt(1, error="the client went away"), "verdicts"),
    "an attempt's order": (with_attempt(1, order=3), "order"),
    "an attempt's sequence": (with_attempt(1, sequence=9), "order"),
    "an attempt's time": (with_attempt(1, received_mono_ns=1), "order"),
    "an attempt's epoch": (with_attempt(1, epoch=9), "order"),
    "what the upstream wanted of it": (with_attempt(1, step="first"), "decisions"),
    "whether the upstream took it": (with_attempt(1, matched=True, unmet=()), "decisions"),
    "what it was answered": (with_attempt(1, answered=None), "upstream log"),
    "the attempts, swapped": (with_attempts(lambda both: both[::-1]), "order"),
    "the attempts, swapped and renumbered": (with_attempts(renumbered), "upstream log"),
    "an attempt less": (with_attempts(lambda both: both[:1]), "verdicts"),
    "an attempt more": (with_attempts(lambda both: [*both, both[1]]), "verdicts"),
    "the client's status": (with_response(status=200), "access log"),
    "the client's body": (
        with_response(body=ANSWER, body_sha256=sha256_of(ANSWER)),
        "verdicts",
    ),
    "no response": (replaced(response=None), "verdicts"),
    "the request": (
        lambda r: msgspec.structs.replace(
            r, request=msgspec.structs.replace(r.request, target="/v1/other")
        ),
        "verdicts",
    ),
    "a check's name": (with_check(9, name=CheckName.FIRST_PATH), "verdicts"),
    "what a check expected": (with_check(9, expected="/v1/videos"), "verdicts"),
    "what a check found": (with_check(9, actual=RIGHT_PATH), "verdicts"),
    "whether a check holds": (with_check(9, holds=True), "verdicts"),
    "the checks": (replaced(checks=()), "verdicts"),
    "the verdict": (replaced(verdict=Verdict.PASS), "verdicts"),
    "the expected verdict": (replaced(expected=Verdict.PASS), "verdicts"),
    "what had to fail": (replaced(must_fail=()), "verdicts"),
    "whether it is as declared": (replaced(as_declared=False), "verdicts"),
    "the reason": (replaced(reason="another"), "verdicts"),
    "the variant": (replaced(variant="fixed"), "verdicts"),
    "the cell": (
        lambda r: msgspec.structs.replace(r, cell=msgspec.structs.replace(r.cell, repeat=2)),
        "cells",
    ),
    "a body's JSON": (replaced(bodies={}), "verdicts"),
}


@pytest.mark.parametrize(("change", "check"), JUDGED.values(), ids=JUDGED)
def test_what_was_judged_cannot_be_changed_though_every_digest_matches(
    folder: Path, change: Callable[[Result], Result], check: str
) -> None:
    change_cell(folder, B, VIDEO, change)
    forging.rehash(folder)
    found = failed(folder)
    assert f"baseline {check}" in found
    assert not [name for name in found if name.split()[-1] in ("hashes", "files", "schemas")]


NOT_RETOLD = {
    "the retry's path, made right": "upstream log",
    "the first path": "upstream log",
    "the retry's body, made right": "decisions",
    "the retry's key": "decisions",
    "a key that nobody declared": "junit",
    "a method": "upstream log",
    "where it arrived": "routing",
    "the attempts, swapped and renumbered": "upstream log",
    "an attempt less": "upstream log",
    "the client's status": "access log",
    "no response": "cells",
}


@pytest.mark.parametrize(("name", "check"), NOT_RETOLD.items(), ids=NOT_RETOLD)
def test_nor_when_all_that_was_concluded_is_made_to_follow_from_it(
    folder: Path, name: str, check: str
) -> None:
    """The logs tell of the same requests, and tell otherwise."""
    change_cell(folder, B, VIDEO, JUDGED[name][0])
    forging.conclude_again(folder)
    found = failed(folder)
    assert f"baseline {check}" in found
    assert "baseline verdicts" not in found


def test_a_cell_that_is_left_out_is_seen_though_every_digest_matches(folder: Path) -> None:
    _, results = store.read_run(folder / B)
    store.write_cells(folder / B, results[:-1])
    forging.rehash(folder)
    text = told(folder)
    assert "3 cells are there, 4 were planned: openai-chat/direct/1 is missing" in text
    assert "logs/access.log has a request openai-chat/direct/1 that no cell sent" in text


def test_two_swapped_cells_are_seen_though_every_digest_matches(folder: Path) -> None:
    _, (one, two, *rest) = store.read_run(folder / B)
    store.write_cells(folder / B, [two, one, *rest])
    forging.rehash(folder)
    assert {"baseline cells", "baseline order", "baseline access log"} <= {*failed(folder)}


# --- What a run tells of itself ------------------------------------------------------------------


def run_of(folder: Path, variant: Variant) -> Run:
    return store.read_run(folder / variant)[0]


def with_testbed(folder: Path, **changes: Any) -> dict[str, Any]:
    facts = run_of(folder, F).testbed
    assert facts is not None
    return {"testbed": replace(facts, **changes)}


def with_module(folder: Path, **changes: Any) -> dict[str, Any]:
    return {"module": replace(run_of(folder, F).module, **changes)}


def with_gateway(folder: Path, **changes: Any) -> dict[str, Any]:
    facts = run_of(folder, F).testbed
    assert facts is not None
    return with_testbed(folder, gateway=replace(facts.gateway, **changes))


def with_adapter(folder: Path, **changes: Any) -> dict[str, Any]:
    facts = run_of(folder, F).testbed
    assert facts is not None
    assert facts.adapter is not None
    return with_testbed(folder, adapter=replace(facts.adapter, **changes))


def with_source(folder: Path, **changes: Any) -> dict[str, Any]:
    module = run_of(folder, F).module
    return with_module(folder, source=replace(module.source, **changes))


SHA = "9" * 64
TOLD: dict[str, tuple[Callable[[Path], dict[str, Any]], str]] = {
    "the module's digest": (lambda f: with_module(f, sha256=SHA), "fixed gateway"),
    "the module's variant": (lambda f: with_module(f, variant=B), "fixed provenance"),
    "the commit": (lambda f: with_source(f, commit="9" * 40), "pairing"),
    "the repository": (lambda f: with_source(f, repository="elsewhere"), "pairing"),
    "a dirty tree": (lambda f: with_source(f, dirty=True), "fixed provenance"),
    "the tree, no digest": (lambda f: with_source(f, tree="main"), "fixed provenance"),
    "the fix": (
        lambda f: with_source(f, fix=replace(FIX, patch=Patch.of(b"another"))),
        "fixed provenance",
    ),
    "no fix": (lambda f: with_source(f, fix=None), "fixed provenance"),
    "Go": (lambda f: with_module(f, go_version="go version go1.1"), "pairing"),
    "the Go that was asked for": (
        lambda f: with_source(f, go=GoChoice(version="go1.24.4", because="x")),
        "fixed provenance",
    ),
    "the gateway's version": (
        lambda f: with_gateway(f, envoy_version="abc/1.36.4/Clean"),
        "fixed gateway",
    ),
    "the gateway's digest": (lambda f: with_gateway(f, digest="latest"), "fixed gateway"),
    "release evidence": (lambda f: with_gateway(f, release_evidence=True), "fixed gateway"),
    "the gateway's kind": (lambda f: with_gateway(f, kind="higress"), "fixed gateway"),
    "a module that was not adapted": (lambda f: with_testbed(f, adapter=None), "fixed gateway"),
    "another module that was adapted": (
        lambda f: with_adapter(f, original_sha256=SHA),
        "fixed gateway",
    ),
    "a Docker server": (lambda f: with_testbed(f, docker_server="27"), "fixed gateway"),
    "no commands": (lambda f: with_testbed(f, commands={}), "fixed gateway"),
    "the configuration's digest": (
        lambda f: with_testbed(f, gateway_config_sha256=SHA),
        "fixed configuration",
    ),
    "the shared configuration": (
        lambda _: {"configuration_sha256": SHA},
        "fixed configuration",
    ),
    "the inputs": (lambda _: {"inputs_sha256": SHA}, "fixed inputs"),
    "the repeats": (lambda _: {"repeats": 3}, "fixed cells"),
    "the counts": (
        lambda f: {"counts": msgspec.structs.replace(run_of(f, F).counts, passed=3)},
        "fixed counts",
    ),
    "the first keys": (lambda _: {"first_keys": {"dummy-key-a": 4}}, "fixed counts"),
    "the exchanges' time": (lambda _: {"exchanges_s": 9.0}, "fixed counts"),
    "the mock's address": (lambda _: {"upstream_address": "127.0.0.1:9"}, "fixed routing"),
    "the listeners": (lambda _: {"listeners": {}}, "fixed configuration"),
    "the cases": (lambda f: {"cases": run_of(f, F).cases[:1]}, "fixed inputs"),
    "the command": (lambda _: {"command": ["pytest"]}, "fixed commands"),
    "no clean-up command": (lambda _: {"cleanup_command": []}, "fixed commands"),
    "the end": (lambda _: {"finished_at": "2025-01-01T00:00:00.000Z"}, "fixed commands"),
    "a failure": (lambda _: {"failure": "interrupted"}, "comparison"),
    "the id": (lambda _: {"id": "20260101T000000Z-baseline-000000"}, "pairing"),
    "the variant": (lambda _: {"variant": B}, "fixed provenance"),
}


@pytest.mark.parametrize(("change", "check"), TOLD.values(), ids=TOLD)
def test_what_a_run_tells_of_itself_is_held_against_the_rest(
    folder: Path, change: Callable[[Path], dict[str, Any]], check: str
) -> None:
    change_run(folder, F, **change(folder))
    forging.rehash(folder)
    assert check in failed(folder)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"processes": [ProcessSeen(name="gateway", pid=7, exit_status=None, ended=False)]},
            "gateway (process 7) is still there",
        ),
        ({"refused": {}}, "nobody has looked whether anything was left"),
        (
            {"refused": {**recorded.CLEANUP.refused, recorded.PORTS[0]: False}},
            f"port of {recorded.PORTS[0]} is still there",
        ),
        (
            {"listening": {**recorded.CLEANUP.listening, recorded.PORTS[0]: False}},
            "a port took no connection before closing, so its refusal shows nothing",
        ),
        ({"listening": {}}, "other ports were looked at before closing than afterwards"),
        ({"after": Listed(containers=["gateway-1 ab"])}, "container gateway-1 ab is still there"),
        ({"processes": []}, "nobody has looked whether anything was left"),
    ],
)
def test_a_clean_up_that_is_not_proved_is_seen(
    folder: Path, change: dict[str, Any], problem: str
) -> None:
    store.write_json(folder / F / store.CLEANUP, replace(recorded.CLEANUP, **change))
    forging.rehash(folder)
    assert problem in told(folder)
    proof = replace(recorded.CLEANUP, **change)
    # What is not proved to be gone is no part of a proof either.
    others = [] if proof.complete else ["comparison", "reports"]
    assert failed(folder) == ["fixed clean-up", *others]


LOGS = [
    ("access.log", lambda _: "", "logs/access.log is empty"),
    (
        "access.log",
        lambda text: text + text.splitlines()[0] + "\n",
        "logs/access.log has 2 lines for kling-text-to-video/retry/1, expected 1",
    ),
    (
        "access.log",
        lambda text: text.replace("kling-text-to-video/direct/1", "a-stranger", 1),
        "logs/access.log has a request a-stranger that no cell sent",
    ),
    (
        "access.log",
        lambda text: "\n".join(text.splitlines()[::-1]),
        "logs/access.log does not have the requests in the order in which they were sent",
    ),
    (
        "access.log",
        lambda text: text.replace("mock-upstream", "outbound"),
        'upstream_cluster is "outbound", expected "mock-upstream"',
    ),
    (
        "access.log",
        lambda text: text.replace('"bytes_sent": ', '"bytes_sent": 1', 1),
        "logs/access.log, kling-text-to-video/retry/1: bytes_sent is 1",
    ),
    (
        "access.log",
        lambda text: text.replace("via_upstream", "response_payload_too_large"),
        "the gateway itself ended kling-text-to-video/retry/1 (response_payload_too_large)",
    ),
    (
        "access.log",
        lambda text: text.replace('"flags": "-"', '"flags": "UC"'),
        "the gateway itself ended kling-text-to-video/retry/1 (flags UC)",
    ),
    (
        "upstream.log",
        lambda text: text + text.splitlines()[-1] + "\n",
        "logs/upstream.log has attempt 6 twice",
    ),
    (
        "upstream.log",
        lambda text: "\n".join(text.splitlines()[1:]),
        "logs/upstream.log does not have attempt 1",
    ),
    (
        "upstream.log",
        lambda text: text + text.splitlines()[-1].replace("model 6", "model 7"),
        "logs/upstream.log has attempts that no cell has: 7",
    ),
    (
        "upstream.log",
        lambda text: text.replace("dummy", "x").replace("epoch=1", "epoch=one", 1),
        "logs/upstream.log has the line",
    ),
    (
        "stats.txt",
        lambda text: text + "cluster.outbound.upstream_rq_total: 1\n",
        "the gateway's cluster outbound had traffic; expected mock-upstream alone",
    ),
    (
        "stats.txt",
        lambda text: text.replace("upstream_rq_total: 6", "upstream_rq_total: 7"),
        "the gateway sent 7 requests to the mock, and 6 arrived",
    ),
    (
        "stats.txt",
        lambda text: text.replace("downstream_rq_total: 2", "downstream_rq_total: 3"),
        "the gateway's listener kling-text-to-video got 3 requests, and 2 were sent",
    ),
    (
        "gateway.log",
        lambda text: (
            text + "[2026-11-30 07:51:03.835][9][error][wasm] [source/x.cc:1] wasm log "
            "plugin kling plugin: fatal error: "
        ),
        "the plugin broke down in the gateway, whose log says: [error] wasm log plugin kling",
    ),
    (
        "stats.txt",
        lambda _: "",
        "the gateway counts no request to mock-upstream",
    ),
    (
        "clusters.txt",
        lambda text: text + "outbound::203.0.113.9:443::rq_total::1\n",
        "the gateway has a cluster outbound; expected mock-upstream alone",
    ),
    (
        "clusters.txt",
        lambda text: text.replace("127.0.0.1", "203.0.113.9"),
        "the cluster mock-upstream leads to 203.0.113.9:40001, expected 127.0.0.1:40001",
    ),
    (
        "server_info.json",
        lambda text: text.replace("1.40.0", "1.36.4"),
        "expected abc/1.36.4/Clean/RELEASE/BoringSSL, as it said itself",
    ),
]


def unobserved(found: list[Result]) -> list[Result]:
    """The same cells, the last one not observed."""
    seen = msgspec.structs.replace(found[-1].observation, response=None, fault="it is gone")
    return [*found[:-1], cells.conclude(CONTROL, found[-1].cell, F, seen, ADDRESS)]


# What a gateway that ends before its time takes along, or leaves half written.
NOT_WHOLE: dict[str, tuple[str, Callable[[str], str], str]] = {
    "a torn last line": (
        "access.log",
        lambda text: text[:-30],
        "4 requests, 3 lines; the run is not whole",
    ),
    "a line that was not written": (
        "access.log",
        lambda text: "".join(text.splitlines(keepends=True)[:2]),
        "4 requests, 2 lines; the run is not whole",
    ),
    "no lines at all": ("access.log", lambda _: "", "4 requests, 0 lines; the run is not whole"),
    "lines in another order": (
        "access.log",
        lambda text: "".join(text.splitlines(keepends=True)[::-1]),
        "4 requests, 4 lines; the run is not whole",
    ),
    "an attempt that no journal tells of": (
        "upstream.log",
        lambda text: text + text.splitlines()[-1].replace("model 6", "model 7") + "\n",
        "6 attempts, 7 lines, one to one",
    ),
    "an attempt's torn line": (
        "upstream.log",
        lambda text: text + text.splitlines()[-1].replace("model 6", "model 7")[:60],
        "6 attempts, 7 lines, one to one",
    ),
    "a panic": (
        "gateway.log",
        lambda text: text + PANIC,
        "2 lines; the run is not whole",
    ),
    "no counts": (
        "stats.txt",
        lambda _: "",
        "every attempt arrived at the mock; the gateway ended before it could say more",
    ),
    "a request that was counted and is not in the journal": (
        "stats.txt",
        lambda text: text.replace("upstream_rq_total: 6", "upstream_rq_total: 7"),
        f"6 attempts arrived at {ADDRESS}; no other cluster had traffic",
    ),
    "a request that no listener counted": (
        "stats.txt",
        lambda text: text.replace("chat.downstream_rq_total: 2", "chat.downstream_rq_total: 1"),
        f"6 attempts arrived at {ADDRESS}; no other cluster had traffic",
    ),
}
PANIC = (
    "[2026-11-30 07:50:03.013][689][error][wasm] [source/extensions/common/wasm/context.cc:1157] "
    "wasm log plugin kling plugin: [ai-proxy] [nil] [kling/direct/1] recovered from panic x\n"
)


@pytest.fixture(scope="module")
def not_whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of which the last cell was not observed; not to be changed."""
    folder = tmp_path_factory.mktemp("evidence") / "20260101T000000Z-fixed-000000"
    whole = recorded.results(F, 1)
    found = unobserved(whole)
    recorded.write(folder, F, found, repeats=1)
    shutil.rmtree(folder / "logs")
    recorded.write_logs(folder, whole)
    recorded.rewrite(folder, store.read_run(folder)[0])
    return folder


@pytest.mark.parametrize("names", [*([name] for name in NOT_WHOLE), [*NOT_WHOLE]], ids=str)
def test_what_a_run_that_is_not_whole_lacks_is_no_contradiction(
    not_whole: Path, tmp_path: Path, names: list[str]
) -> None:
    folder = shutil.copytree(not_whole, tmp_path / not_whole.name)
    for log, change, _ in (NOT_WHOLE[name] for name in names):
        path = folder / "logs" / log
        before = path.read_text()
        path.write_text(change(before))
        assert path.read_text() != before or len(names) > 1
    recorded.rewrite(folder, store.read_run(folder)[0])
    found = verify.of(folder)
    assert found.failed == ()
    if len(names) == 1:
        assert NOT_WHOLE[names[0]][2] in "\n".join(found.lines)


def test_the_access_log_may_name_the_path_as_the_client_sent_it(folder: Path) -> None:
    """Higress' ai-proxy keeps it in x-envoy-original-path, the reference plugin does not."""
    path = folder / F / "logs" / "access.log"
    before = path.read_text()
    path.write_text(before.replace("/v1/videos/text2video?trace=1", "/v1/videos?trace=1"))
    assert path.read_text() != before
    forging.rehash(folder)
    assert failed(folder) == []
    path.write_text(before.replace("/v1/videos/text2video?trace=1", "/v1/videos/other"))
    forging.rehash(folder)
    assert failed(folder) == ["fixed access log"]


@pytest.mark.parametrize(("log", "change", "problem"), LOGS, ids=[each[2] for each in LOGS])
def test_a_log_that_tells_otherwise_is_seen_though_every_digest_matches(
    folder: Path, log: str, change: Callable[[str], str], problem: str
) -> None:
    path = folder / F / "logs" / log
    before = path.read_text()
    path.write_text(change(before))
    assert path.read_text() != before
    forging.rehash(folder)
    assert problem in told(folder)


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        (store.ENVOY, ("mock-upstream", "elsewhere"), "config/envoy.json has the clusters"),
        (store.ENVOY, ("127.0.0.1", "203.0.113.9"), "config/envoy.json has the clusters"),
        (store.LISTENERS, ("dummy-key-a", "dummy-key-c"), "another configuration than its case's"),
        (store.LISTENERS, ('"fail_open": false', '"fail_open": true'), "do not have the digest"),
    ],
)
def test_a_gateway_configuration_that_tells_otherwise_is_seen(
    folder: Path, name: str, change: tuple[str, str], problem: str
) -> None:
    path = folder / F / name
    assert change[0] in path.read_text()
    path.write_text(path.read_text().replace(*change))
    digest = sha256_of((folder / F / store.ENVOY).read_bytes())
    change_run(folder, F, **with_testbed(folder, gateway_config_sha256=digest))
    forging.rehash(folder)
    assert problem in told(folder)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("<skipped", "<failure"), "expected ['skipped']"),
        (("kling-text-to-video/retry/1", "another"), "has None for kling-text-to-video/retry/1"),
        (
            ("<testsuites>", "<!DOCTYPE x [<!ENTITY a 'b'>]><testsuites>"),
            "junit.xml declares entities",
        ),
        (("</testsuites>", ""), "cannot be checked: "),
    ],
)
def test_a_junit_report_that_tells_otherwise_is_seen(
    folder: Path, change: tuple[str, str], problem: str
) -> None:
    path = folder / B / "junit.xml"
    path.write_text(path.read_text().replace(*change, 1))
    forging.rehash(folder)
    assert problem in told(folder)
    assert failed(folder) == ["baseline junit"]


# --- Schemas, secrets, nothing else --------------------------------------------------------------


@pytest.mark.parametrize("name", ["run.json", "cleanup.json", "cells.jsonl"])
def test_an_unknown_field_is_seen_and_named(folder: Path, name: str) -> None:
    path = folder / F / name
    path.write_bytes(path.read_bytes().replace(b"{", b'{"approved":true,', 1))
    forging.reseal(folder)
    assert "fixed schemas" in failed(folder)
    assert "approved is true, expected not there" in told(folder)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (b'"order":1', b'"order":1,"order":2', "cells.jsonl line 1 is not written as a session"),
        (b'"status":200', b'"status":2e2', "cells.jsonl line 1 is not"),
        (b'"truncated":false', b'"truncated":"no"', "is not as its schema says: Expected `bool`"),
        (b'"order":1', b'"order": 1', "cells.jsonl line 1 is not written as a session writes it"),
    ],
)
def test_what_a_session_would_not_write_so_is_seen(
    folder: Path, old: bytes, new: bytes, problem: str
) -> None:
    path = folder / F / store.CELLS
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    forging.reseal(folder)
    assert problem in told(folder)


def test_a_record_of_another_version_is_told_from_one_that_was_changed(folder: Path) -> None:
    change_run(folder, F, schema="gateway-proof/run/1")
    forging.reseal(folder)
    assert (
        "run.json is of schema gateway-proof/run/1, expected gateway-proof/run/3: made by another "
        "version"
    ) in told(folder)


def test_a_secret_is_seen_wherever_it_stands_and_not_repeated(folder: Path) -> None:
    secret = "sk-live-0123456789abcdef"  # noqa: S105 - made up
    (folder / F / "logs" / "gateway.log").write_text(f"[warn] got {secret}\n")
    change_cell(folder, B, VIDEO, with_attempt(0, **body(f'{{"x":"{secret}"}}'.encode())))
    forging.rehash(folder)
    text = told(folder)
    assert "fixed/logs/gateway.log holds what looks like a credential, 24 characters" in text
    assert "kling-text-to-video/retry/1 holds what looks like a credential, not masked" in text
    assert secret not in "\n".join(verify.of(folder).lines).replace("cells.jsonl", "")


MASK = "masked-24-characters"


@pytest.mark.parametrize(
    "name", ["logs/gateway.log", "logs/more.log", "junit.xml", "config/x.txt", store.UNCOMMITTED]
)
def test_a_mask_in_a_run_that_is_said_to_be_valid_is_seen(folder: Path, name: str) -> None:
    path = folder / F / name
    before = path.read_bytes() if path.exists() else b""
    path.write_bytes(before + f"\n+<!-- {MASK} -->\n".encode())
    change_run(folder, F, failure="")
    forging.rehash(folder)
    found = verify.of(folder)
    problems = {(each.about, each.check): each.problems for each in found.failed}
    assert problems[F, "masks"] == (
        f"{name} holds {MASK}, for which the run must have failed, and it has not",
    )
    change_run(folder, F, failure=f"what looks like a credential was found in {name} and masked")
    forging.conclude_again(folder)
    assert "fixed masks" not in failed(folder)
    assert "ok    masks         fixed     1, and the run failed for it" in (verify.of(folder).lines)


def test_a_mask_in_what_the_testbed_says_of_itself_is_seen_too(folder: Path) -> None:
    run, _ = store.read_run(folder / F)
    assert run.testbed is not None
    change_run(folder, F, testbed=replace(run.testbed, notes=[f"a note with {MASK}"]))
    forging.rehash(folder)
    assert f"run.json: testbed holds {MASK}, for which the run must have failed" in told(folder)


def test_a_mask_that_fails_no_run_is_taken(folder: Path) -> None:
    change_run(folder, F, session_command=["nox", f"--source=https://me:{MASK}@git.example/x"])
    context = f"--- a\n+++ b\n context {MASK}\n-old {MASK}\n+new\n"
    (folder / F / store.UNCOMMITTED).write_text(context)
    (folder / F / store.FIX).write_text(f"+{MASK}\n")
    forging.rehash(folder)
    assert "fixed masks" not in failed(folder)
    silent = replace_response(folder, f"the gateway said {MASK}")
    junit = folder / F / "junit.xml"
    junit.write_text(junit.read_text().replace("</testsuites>", f"<!-- {silent} --></testsuites>"))
    forging.rehash(folder)
    assert "fixed masks" not in failed(folder)


def replace_response(folder: Path, fault: str) -> str:
    """Let a cell of the fixed module have no valid observation; return why, as it says."""

    def change(result: Result) -> Result:
        seen = msgspec.structs.replace(result.observation, response=None, fault=fault)
        case = next(each for each in run.cases if each.name == result.cell.case)
        return cells.conclude(case, result.cell, F, seen, run.upstream_address)

    run, _ = store.read_run(folder / F)
    change_cell(folder, F, VIDEO, change)
    return store.read_run(folder / F)[1][VIDEO].reason


def test_what_a_check_stumbles_over_is_a_problem_and_no_traceback(folder: Path) -> None:
    for name in ("logs/access.log", "logs/upstream.log", "config/envoy.json", "junit.xml"):
        (folder / F / name).write_bytes(b"\x00[\xff{" * 500)
    forging.reseal(folder)
    found = verify.of(folder)
    assert {"access log", "configuration", "junit", "upstream log"} <= {
        each.check for each in found.failed
    }
    assert all(line.isprintable() for line in found.lines)


def test_many_problems_are_counted_and_the_first_shown(folder: Path) -> None:
    path = folder / F / "logs" / "access.log"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:1]) * 9)
    for number in range(9):
        (folder / f"extra-{number}").write_text("x")
    lines = verify.of(folder).lines
    at = next(n for n, line in enumerate(lines) if line.startswith("FAIL  hashes"))
    assert lines[at + 1].strip() == "extra-0 is not in SHA256SUMS"
    assert lines[at + 6].strip() == "and 5 more"


def test_the_summary_is_one_sentence_that_names_what_failed(folder: Path) -> None:
    flip(folder / F / "cells.jsonl")
    summary = verify.of(folder).summary
    assert summary.startswith("4 of ") or summary.split()[0].isdigit()
    assert " checks of the bundle do not hold: hashes, fixed hashes" in summary
    assert summary.endswith(
        "expected evidence as it was written, so run it again, or get an unchanged copy"
    )
    assert "\n" not in summary
