"""What of a run may be published: in a patch, credentials are seen across its lines."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from sessions.evidence import verify
from sessions.evidence.pair import bundle
from sessions.evidence.record import redact, store
from sessions.evidence.report import markdown
from tests.unit.evidence import forging, pairs, recorded
from tests.unit.evidence.runs import FIX, module, results, run
from wasm.records import FixKind, Origin, Patch, Variant

if TYPE_CHECKING:
    from sessions.evidence.record.records import Run

B, F = Variant.BASELINE, Variant.FIXED
# Made up, and put together here so that no scanner takes this file for a leak.
BASE64 = [base64.b64encode(hashlib.sha512(bytes([n])).digest()).decode()[:64] for n in range(3)]
BEGIN, END = "-----BEGIN " + "PRIVATE KEY-----", "-----END " + "PRIVATE KEY-----"
HEAD = "diff --git a/key.pem b/key.pem\n--- a/key.pem\n+++ b/key.pem\n"


def patch(*lines: str) -> str:
    return HEAD + "@@ -1,9 +1,9 @@\n" + "".join(f"{line}\n" for line in lines)


PATCHES = {
    "a new key": (
        patch(f"+{BEGIN}", *(f"+{line}" for line in BASE64), f"+{END}"),
        patch("+masked-27-characters", *["+masked-64-characters"] * 3, "+masked-25-characters"),
    ),
    "a new key, indented in a file of Windows": (
        patch(f"+  {BEGIN}\r", *(f"+  {line}\r" for line in BASE64), f"+  {END}\r"),
        patch(
            "+  masked-27-characters\r",
            *["+  masked-64-characters\r"] * 3,
            "+  masked-25-characters\r",
        ),
    ),
    "another key in place of one": (
        patch(f" {BEGIN}", f"-{BASE64[0]}", f"+{BASE64[1]}", f"-{BASE64[2]}", f"+{END}"),
        patch(
            f" {BEGIN}",
            f"-{BASE64[0]}",
            "+masked-64-characters",
            f"-{BASE64[2]}",
            "+masked-25-characters",
        ),
    ),
    "the last lines of a key": (
        patch(f"-{BASE64[0]}", f"+{BASE64[1]}", f"+{BASE64[2]}", f" {END}"),
        patch(f"-{BASE64[0]}", "+masked-64-characters", "+masked-64-characters", f" {END}"),
    ),
    "the end of a key alone": (patch(f"+{END}"), patch("+masked-25-characters")),
    "a header whose value is on the next line": (
        patch('+"authorization":', '+  "basic c29tZW9uZTE="', "+}"),
        patch('+"authorization":', '+  "basic masked-12-characters"', "+}"),
    ),
    "a value of a header that was there": (
        patch(' "authorization":', '-  "x"', '+  "basic c29tZW9uZTE="'),
        patch(' "authorization":', '-  "x"', '+  "basic masked-12-characters"'),
    ),
    "two shapes, the second of which reaches further": (
        patch("+key sk-live-eyJhbGciOiJIUzI1NiJ9" + ".eyJpc3MiOiJhayJ9." + "c2lnbmF0dXJl"),
        patch("+key masked-58-characters"),
    ),
    "two shapes in one place": (
        patch('+"authorization": "Bearer sk-live-0123456789abcdef"'),
        patch('+"authorization": "Bearer masked-24-characters"'),
    ),
}


@pytest.mark.parametrize(("before", "after"), PATCHES.values(), ids=PATCHES)
def test_what_a_patch_adds_is_masked_line_by_line_so_that_it_still_applies(
    before: str, after: str
) -> None:
    changed, masked = redact.module(module(B, uncommitted=Patch.of(before.encode())))
    assert changed.source.uncommitted == Patch.of(after.encode())
    assert masked == [store.UNCOMMITTED]
    assert after.count("\n") == before.count("\n")
    assert [*redact.in_patch(after)] == []
    assert redact.module(changed) == (changed, [])


KEPT = {
    "a key that is taken out": patch(f"-{BEGIN}", *(f"-{line}" for line in BASE64), f"-{END}"),
    "a key that stands around": patch(f" {BEGIN}", f" {BASE64[0]}", f" {END}", "+more"),
    "a dummy": patch('+"authorization":', '+  "Bearer dummy-key-a"'),
    "a key and a line of another hunk": patch(f" {BEGIN}", "@@ -9 +9 @@", f"+{BASE64[0]}", " x"),
    "a header and a file that is named after it": (
        patch(' "authorization":') + HEAD + "@@ -0,0 +1 @@\n+0123456789\n"
    ),
    "no line feed at the end": patch("-old", "+new", "\\ No newline at end of file"),
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_a_patch_does_not_add_is_kept(text: str) -> None:
    built = module(B, uncommitted=Patch.of(text.encode()))
    assert redact.module(built) == (built, [])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of changed sources; not to be changed but for its patch."""
    evidence = tmp_path_factory.mktemp("evidence")
    runs = recorded.pair(evidence, repeats=1)
    changes = Patch.of(patch("-old", "+new").encode())
    for folder in runs.values():
        told, _ = store.read_run(folder)
        source = replace(told.module.source, dirty=True, uncommitted=changes)
        changed = replace(told.module, source=source)
        store.write_patches(folder, changed)
        recorded.rewrite(folder, msgspec.structs.replace(told, module=changed))
    return bundle.make(evidence, runs, None).folder


def secrets(folder: Path) -> tuple[str, ...]:
    return next(each.problems for each in verify.of(folder).made if each.check == "secrets")


@pytest.mark.parametrize(("before", "after"), PATCHES.values(), ids=PATCHES)
def test_verify_sees_what_was_not_masked_and_nothing_in_what_was(
    made: Path, before: str, after: str
) -> None:
    path = made / F / store.UNCOMMITTED
    for text, clean in ((before, False), (after, True)):
        path.write_text(text, newline="")
        forging.reseal(made)
        found = secrets(made)
        assert (found == ()) is clean
        start = "fixed/config/uncommitted.patch holds what looks like a credential, "
        assert all(problem.startswith(start) for problem in found)


def test_verify_names_each_line_of_a_key_that_was_not_masked(made: Path) -> None:
    (made / F / store.UNCOMMITTED).write_text(PATCHES["a new key"][0])
    forging.reseal(made)
    what = "fixed/config/uncommitted.patch holds what looks like a credential"
    assert secrets(made) == tuple(f"{what}, {n} characters" for n in (27, 64, 64, 64, 25))


# --- The author's folders -------------------------------------------------------------------------

PROJECT = Path(__file__).parents[3]


def told_at(home: str, variant: Variant = F) -> Run:
    source = {"repository": f"{home}/higress", "ref": f"{home}/other"}
    built = replace(
        module(variant, **source),
        command=["go", "build", f"-o={home}/.cache/x.wasm"],
        environment={"GOCACHE": f"{home}/.cache/go-build", "GOFLAGS": f"-modfile={home}/go.mod"},
    )
    return run(
        variant,
        command=["python", f"--run-dir={PROJECT}/evidence/runs/x", f"--source={home}/higress"],
        session_command=["nox", "--", f"--source={home}/higress"],
        environment={"GOPATH": f"{home}/go:{home}", "DOCKER_HOST": f"unix://{home}/docker.sock"},
        module=built,
        failure=f"see {home}, {home}/x and {PROJECT}/evidence; not {home}s or /mnt{home}",
    )


def test_the_author_s_folders_are_named_as_anyone_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    told, masked = redact.record(told_at("/home/someone"))
    assert masked == []
    assert told.command == [
        *("python", "--run-dir=./evidence/runs/x", "--source=~/higress"),
    ]
    assert told.session_command == ["nox", "--", "--source=~/higress"]
    assert told.environment == {"GOPATH": "~/go:~", "DOCKER_HOST": "unix://~/docker.sock"}
    assert (told.module.source.repository, told.module.source.ref) == ("~/higress", "~/other")
    assert told.module.command == ["go", "build", "-o=~/.cache/x.wasm"]
    assert told.failure == ("see ~, ~/x and ./evidence; not /home/someones or /mnt/home/someone")


def test_a_report_to_be_pasted_does_not_say_where_its_author_keeps_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = "/home/someone"
    monkeypatch.setenv("HOME", home)
    for told, at_home in (
        ([told_at(home, variant) for variant in Variant], True),
        ([redact.record(told_at(home, variant))[0] for variant in Variant], False),
    ):
        baseline, fixed = told
        pair = pairs.pair(baseline, results(B), fixed, results(F))
        text = markdown.render(*pair)
        assert ("someone/" in text) is at_home
        assert (f"{PROJECT}/" in text) is at_home
        assert "--source=" in text


def test_a_home_that_is_the_root_itself_is_no_name_for_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/")
    assert redact.texts(["/usr/bin/go", "/"]) == ["/usr/bin/go", "/"]


@pytest.mark.parametrize("kind", FixKind)
def test_of_a_fix_only_what_the_work_tree_adds_is_masked(kind: FixKind) -> None:
    """It may be uncommitted; every other fix is published as it is, or would be another patch."""
    before, after = PATCHES["a new key"]
    fix = replace(FIX, origin=Origin(kind=kind, name="x"), patch=Patch.of(before.encode()))

    found, masked = redact.module(module(F, fix=fix))

    is_masked = kind is FixKind.WORK_TREE
    assert found.source.fix is not None
    assert found.source.fix.patch == Patch.of((after if is_masked else before).encode())
    assert masked == ([store.FIX] if is_masked else [])
