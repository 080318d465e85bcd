"""A patch file is one diff, with the tree that git makes of it; or it is refused, and says why."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from wasm.foundation.errors import SourceError
from wasm.records import Variant
from wasm.source import files, variant_tree
from wasm.source.variant_tree import Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.wasm.conftest import Checkout
    from wasm.records import Fix

pytestmark = pytest.mark.usefixtures("cache_folder")
BASELINE, FIXED = Variant
PLUGIN = "extensions/tiny"
LINES = "".join(f"// line {number}\n" for number in range(1, 31))


def request_of(checkout: Checkout, patch: bytes, **asked: object) -> Request:
    file = checkout.path.parent / "fix.patch"
    file.write_bytes(patch)
    request = Request(source=str(checkout.path), plugin=PLUGIN, fixed_patch=file)
    return replace(request, **asked)  # type: ignore[arg-type]


def refusal(checkout: Checkout, patch: bytes) -> str:
    """The sentence, which a baseline's run gives, too: before anything is built."""
    told = []
    for variant in Variant:
        with (
            pytest.raises(SourceError) as caught,
            variant_tree.taken_out(variant, request_of(checkout, patch)),
        ):
            pass
        told.append(caught.value.sentence)
    assert told[0] == told[1]
    return told[0]


def made(checkout: Checkout, patch: bytes) -> tuple[str, Fix]:
    """The digest of the tree that a patch makes, and the fix as it is recorded."""
    with variant_tree.taken_out(FIXED, request_of(checkout, patch)) as tree:
        assert tree.source.fix
        return files.digest(tree.root), tree.source.fix


def wanted(checkout: Checkout, ref: str) -> str:
    """The digest of the tree that a ref is."""
    request = Request(source=str(checkout.path), plugin=PLUGIN, baseline_ref=ref)
    with variant_tree.taken_out(BASELINE, request) as tree:
        return files.digest(tree.root)


def output(checkout: Checkout, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", *arguments], cwd=checkout.path, check=True, capture_output=True
    ).stdout


@pytest.fixture
def base(checkout: Checkout) -> Checkout:
    """A checkout on a branch `fix`, with a file of thirty lines; `main` is the baseline."""
    checkout.write(f"{PLUGIN}/long.go", f"package main\n{LINES}")
    checkout.commit()
    checkout.git("checkout", "--quiet", "-b", "fix")
    return checkout


def edit(checkout: Checkout, name: str, number: int, to: str = "edited") -> None:
    file = checkout.path / PLUGIN / name
    file.write_text(file.read_text().replace(f"// line {number}\n", f"// line {number} {to}\n"))


# A series of commits ------------------------------------------------------------------------------


def added_and_deleted(checkout: Checkout) -> int:
    checkout.write(f"{PLUGIN}/extra.go", "package main\n")
    checkout.commit()
    checkout.git("rm", "--quiet", f"{PLUGIN}/extra.go")
    checkout.commit()
    edit(checkout, "long.go", 3)
    checkout.commit()
    return 3


def edited_renamed_edited(checkout: Checkout) -> int:
    edit(checkout, "long.go", 10)
    checkout.commit()
    checkout.git("mv", f"{PLUGIN}/long.go", f"{PLUGIN}/short.go")
    edit(checkout, "short.go", 20)
    checkout.commit()
    return 2


def renamed_and_back(checkout: Checkout) -> int:
    checkout.git("mv", f"{PLUGIN}/long.go", f"{PLUGIN}/short.go")
    checkout.commit()
    checkout.git("mv", f"{PLUGIN}/short.go", f"{PLUGIN}/long.go")
    edit(checkout, "long.go", 20)
    checkout.commit()
    return 2


def merged(checkout: Checkout) -> int:
    edit(checkout, "long.go", 10)
    checkout.commit()
    checkout.git("checkout", "--quiet", "-b", "other", "main")
    edit(checkout, "long.go", 25)
    checkout.commit()
    checkout.git("checkout", "--quiet", "fix")
    checkout.git("merge", "--quiet", "--no-edit", "other")
    edit(checkout, "long.go", 3)
    checkout.commit()
    return 3


def switched_off_again(checkout: Checkout) -> int:
    checkout.write(f"{PLUGIN}/switch.go", "package main\n\nvar fixed = true\n")
    checkout.commit()
    checkout.git("rm", "--quiet", f"{PLUGIN}/switch.go")
    checkout.commit()
    return 2


SERIES = [
    added_and_deleted,
    edited_renamed_edited,
    renamed_and_back,
    merged,
    switched_off_again,
]


@pytest.mark.parametrize("history", SERIES)
@pytest.mark.parametrize(
    "command", [("format-patch", "--stdout", "main"), ("log", "-p", "main..fix")], ids=["am", "log"]
)
def test_a_series_is_refused_with_its_number_and_the_command_that_makes_one_diff(
    base: Checkout, history: Callable[[Checkout], int], command: tuple[str, ...]
) -> None:
    number = history(base)
    tip = base.git("rev-parse", "fix")[:12]
    patch = output(base, *command)
    base.git("checkout", "--quiet", "main")

    told = refusal(base, patch)

    baseline = base.git("rev-parse", "main")[:12]
    assert f"fix.patch holds {number} commits; " in told
    assert f"`git diff --binary {baseline} {tip} > one.patch`" in told


@pytest.mark.parametrize("history", SERIES)
def test_the_one_diff_of_a_series_makes_the_tree_of_its_branch(
    base: Checkout, history: Callable[[Checkout], int]
) -> None:
    history(base)
    patch = output(base, "diff", "--binary", "main", "fix")
    base.git("checkout", "--quiet", "main")

    if history is switched_off_again:
        assert "fix.patch is empty" in refusal(base, patch)
    else:
        assert made(base, patch)[0] == wanted(base, "fix")


@pytest.mark.parametrize("history", [h for h in SERIES if h is not merged])
def test_diffs_one_after_the_other_are_refused_naming_the_file(
    base: Checkout, history: Callable[[Checkout], int]
) -> None:
    history(base)
    commits = base.git("rev-list", "--reverse", "main..fix").split()
    patch = b"".join(output(base, "diff", f"{each}~", each) for each in commits)
    base.git("checkout", "--quiet", "main")

    assert f"fix.patch changes {PLUGIN}/" in refusal(base, patch)
    assert " more than once" in refusal(base, patch)


def test_diffs_of_different_files_are_one_diff(base: Checkout) -> None:
    edit(base, "long.go", 3)
    base.commit()
    base.write(f"{PLUGIN}/extra.go", "package main\n")
    base.commit()
    patch = output(base, "diff", "fix~", "fix") + output(base, "diff", "main", "fix~")
    base.git("checkout", "--quiet", "main")

    assert made(base, patch)[0] == wanted(base, "fix")


@pytest.mark.parametrize(
    "command",
    [
        ("format-patch", "--stdout", "--cover-letter", "main"),
        ("show", "fix"),
        ("log", "-p", "main..fix"),
        ("diff", "main", "fix"),
    ],
    ids=["mail with its cover letter", "show", "log", "diff"],
)
def test_one_commit_is_one_diff_however_it_was_written(
    base: Checkout, command: tuple[str, ...]
) -> None:
    edit(base, "long.go", 3)
    base.git("commit", "--quiet", "--all", f"--message=As in\n\ncommit {'a' * 40}\n\nand others")
    patch = output(base, *command) + b"\n-- \nand what a mailing list adds below\n"
    base.git("checkout", "--quiet", "main")

    digest, fix = made(base, patch)

    assert digest == wanted(base, "fix")
    assert fix.patch.content == patch
    assert fix.applied == "git apply, one diff of 1 file"


def test_mails_of_another_program_are_a_series_too(base: Checkout) -> None:
    added_and_deleted(base)
    series = output(base, "format-patch", "--stdout", "main")
    base.git("checkout", "--quiet", "main")
    lines = series.split(b"\n")
    mails = [line for line in lines if not line.startswith(b"From ")]

    assert "holds 3 commits; " in refusal(base, b"\n".join(mails))


def test_a_hunk_that_looks_like_a_mail_or_a_header_is_a_hunk(base: Checkout) -> None:
    quoted = f"-- a/x\ndiff --git a/x b/x\nFrom {'a' * 40} Mon Sep 17 00:00:00 2001\n"
    base.write(f"{PLUGIN}/quoted.txt", quoted)
    base.commit()
    base.write(f"{PLUGIN}/quoted.txt", quoted.replace("x", "y"))
    base.commit()
    patch = output(base, "diff", "fix~", "fix")
    base.git("checkout", "--quiet", "fix~")

    assert b"\n--- a/x\n" in patch
    assert made(base, patch)[0] == wanted(base, "fix")


def test_the_combined_diff_of_a_merge_is_refused(base: Checkout) -> None:
    edit(base, "long.go", 10, "here")
    base.commit()
    base.git("checkout", "--quiet", "-b", "other", "main")
    edit(base, "long.go", 10, "there")
    base.commit()
    base.git("checkout", "--quiet", "main")
    edit(base, "long.go", 10, "everywhere")
    base.git("add", "--all")
    commit = base.git(
        "commit-tree", base.git("write-tree"), "-p", "fix", "-p", "other", "-m", "merge"
    )
    base.git("reset", "--quiet", "--hard")
    patch = output(base, "show", "--cc", commit)

    assert b"diff --cc" in patch
    assert "the combined diff of a merge" in refusal(base, patch)
    assert "holds 2 commits" in refusal(base, output(base, "show", "-m", commit))


# What is no patch ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (lambda patch: patch.replace(b"\n", b"\r\n"), "CRLF"),
        (lambda _: b"", "is empty"),
        (lambda _: b" \n\n", "is empty"),
        (lambda _: b"what is this?\n" * 9, "does not apply"),
        (lambda patch: patch[: patch.index(b"@@") + 30], "does not apply"),
        (lambda patch: patch.decode().encode("utf-16"), "UTF-16"),
        (lambda p: b"Content-Transfer-Encoding: Quoted-Printable\n\n" + p, "Quoted-Printable"),
        (lambda patch: b"\xef\xbb\xbf" + patch, "byte order mark"),
        (lambda patch: b"\x1b[1m" + patch.replace(b"\n@@", b"\x1b[m\n\x1b[36m@@"), "colours"),
    ],
    ids=["CRLF", "empty", "blank", "garbage", "cut", "UTF-16", "encoded mail", "mark", "colours"],
)
def test_what_git_did_not_write_is_refused_before_anything_is_built(
    base: Checkout, change: Callable[[bytes], bytes], fact: str
) -> None:
    edit(base, "long.go", 3)
    patch = change(output(base, "diff"))
    base.git("checkout", "--quiet", ".")

    assert fact in refusal(base, patch)


@pytest.mark.parametrize("way", [b"extensions/./tiny", b"other/../extensions/tiny", b"../tiny"])
def test_a_path_that_is_no_path_of_a_tree_is_refused_beside_one_that_is(
    base: Checkout, way: bytes
) -> None:
    """It may mean a file of the plugin: it is none that is outside of it."""
    edit(base, "long.go", 3)
    patch = output(base, "diff")
    base.git("checkout", "--quiet", ".")

    told = refusal(base, patch + patch.replace(b"extensions/tiny", way))

    assert f"does not apply: invalid path '{way.decode()}/long.go'" in told


def test_a_file_with_crlf_lines_takes_the_diff_that_git_writes_of_it(base: Checkout) -> None:
    base.write(f"{PLUGIN}/dos.txt", "one\r\ntwo\r\nthree\r\n")
    base.commit()
    base.write(f"{PLUGIN}/dos.txt", "one\r\n2\r\nthree\r\n")
    base.commit()
    patch = output(base, "diff", "fix~", "fix")
    base.git("checkout", "--quiet", "fix~")

    assert made(base, patch)[0] == wanted(base, "fix")


def test_hunks_alone_with_crlf_do_not_fit_and_that_is_told(base: Checkout) -> None:
    edit(base, "long.go", 3)
    head, mark, hunk = output(base, "diff").partition(b"@@")
    base.git("checkout", "--quiet", ".")

    assert "CRLF" in refusal(base, head + mark + hunk.replace(b"\n", b"\r\n"))


# Every kind of change in one diff -----------------------------------------------------------------


def binary(checkout: Checkout) -> None:
    checkout.write(f"{PLUGIN}/data.bin", bytes(range(256)))


def mode(checkout: Checkout) -> None:
    (checkout.path / PLUGIN / "long.go").chmod(0o755)


def renamed(checkout: Checkout) -> None:
    checkout.git("mv", f"{PLUGIN}/long.go", f"{PLUGIN}/short.go")
    edit(checkout, "short.go", 9)


def copied(checkout: Checkout) -> None:
    shutil.copy(checkout.path / PLUGIN / "long.go", checkout.path / PLUGIN / "copy.go")
    edit(checkout, "copy.go", 9)
    edit(checkout, "long.go", 20)


def linked(checkout: Checkout) -> None:
    (checkout.path / PLUGIN / "link.go").symlink_to("main.go")


def file_becomes_link(checkout: Checkout) -> None:
    (checkout.path / PLUGIN / "long.go").unlink()
    (checkout.path / PLUGIN / "long.go").symlink_to("main.go")


def emptied_and_deleted(checkout: Checkout) -> None:
    (checkout.path / PLUGIN / "long.go").unlink()
    checkout.write(f"{PLUGIN}/empty.txt", "")


def quoted(checkout: Checkout) -> None:
    name = 'ä "quoted"\ttab.go'
    checkout.git("mv", f"{PLUGIN}/long.go", f"{PLUGIN}/{name}")
    edit(checkout, name, 9)
    checkout.write(f"{PLUGIN}/a[1]*.go", "package main\n")


@pytest.mark.parametrize(
    "change",
    [binary, mode, renamed, copied, linked, file_becomes_link, emptied_and_deleted, quoted],
)
def test_each_kind_of_change_makes_the_tree_that_was_meant(
    base: Checkout, change: Callable[[Checkout], None]
) -> None:
    change(base)
    base.commit()
    patch = output(base, "diff", "--binary", "--find-copies", "main", "fix")
    base.git("checkout", "--quiet", "main")

    assert made(base, patch)[0] == wanted(base, "fix")


def test_a_copy_of_what_an_earlier_diff_changed_is_refused(base: Checkout) -> None:
    edit(base, "long.go", 3)
    base.commit()
    shutil.copy(base.path / PLUGIN / "long.go", base.path / PLUGIN / "copy.go")
    base.commit()
    copy = output(base, "diff", "--find-copies-harder", "fix~", "fix")
    patch = output(base, "diff", "main", "fix~") + copy
    base.git("checkout", "--quiet", "main")

    assert b"copy from" in copy
    assert f"changes {PLUGIN}/long.go more than once" in refusal(base, patch)


def test_a_submodule_in_the_plugin_is_refused_and_one_elsewhere_left_out(base: Checkout) -> None:
    here = base.git("rev-parse", "HEAD")
    base.git("update-index", "--add", "--cacheinfo", f"160000,{here},{PLUGIN}/module")
    inside = output(base, "diff", "--cached")
    base.git("reset", "--quiet")
    base.git("update-index", "--add", "--cacheinfo", f"160000,{here},elsewhere/module")
    outside = output(base, "diff", "--cached")
    base.git("reset", "--quiet")
    edit(base, "long.go", 3)
    outside += output(base, "diff")
    base.git("checkout", "--quiet", ".")

    assert f"changes the submodule {PLUGIN}/module; " in refusal(base, inside)
    assert made(base, outside)[1].left_out == ["1 file of the patch outside the plugin"]


# Over the border of the plugin's folder -----------------------------------------------------------


def moved_out(checkout: Checkout) -> None:
    checkout.git("mv", f"{PLUGIN}/long.go", "elsewhere/long.go")
    edit(checkout, "../../elsewhere/long.go", 9)


def moved_in(checkout: Checkout) -> None:
    checkout.git("mv", "elsewhere/notes.txt", f"{PLUGIN}/notes.txt")


def copied_in(checkout: Checkout) -> None:
    shutil.copy(checkout.path / "elsewhere/notes.txt", checkout.path / PLUGIN / "notes.txt")


def moved_both_ways(checkout: Checkout) -> None:
    moved_out(checkout)
    moved_in(checkout)


@pytest.mark.parametrize("uncommitted", [False, True], ids=["committed", "as it lies"])
@pytest.mark.parametrize("change", [moved_out, moved_in, copied_in, moved_both_ways])
def test_a_file_that_crosses_the_border_is_where_the_ref_has_it(
    base: Checkout, change: Callable[[Checkout], None], *, uncommitted: bool
) -> None:
    if uncommitted:
        base.git("checkout", "--quiet", "main")
        base.write("elsewhere/notes.txt", "as it lies\n")
        base.commit()
        base.git("checkout", "--quiet", "-B", "fix")
    change(base)
    base.commit()
    patch = output(base, "diff", "--find-copies-harder", "main", "fix")
    base.git("checkout", "--quiet", "main")
    if uncommitted:
        base.git("reset", "--quiet", "--soft", "main~")

    assert b"rename from" in patch or b"copy from" in patch
    assert made(base, patch)[0] == wanted(base, "fix")


def test_a_patch_may_name_another_folder_in_go_mod_and_fill_it(base: Checkout) -> None:
    base.write("lib/there.go", "package lib\n")
    base.commit()
    base.git("branch", "--force", "main")
    base.write("lib/new.go", "package lib\n")
    base.write(
        f"{PLUGIN}/go.mod",
        "module tiny.example/plugin\n\ngo 1.24\n\nreplace lib.example/lib => ../../lib\n",
    )
    base.commit()
    patch = output(base, "diff", "main", "fix")
    base.git("checkout", "--quiet", "main")

    assert made(base, patch)[0] == wanted(base, "fix")


def test_a_diff_without_gits_headers_is_taken_too(base: Checkout, tmp_path: Path) -> None:
    shutil.copytree(base.path / PLUGIN, tmp_path / "a" / PLUGIN)
    edit(base, "long.go", 3)
    base.commit()
    shutil.copytree(base.path / PLUGIN, tmp_path / "b" / PLUGIN)
    done = subprocess.run(
        ["diff", "-ru", "a", "b"], cwd=tmp_path, capture_output=True, check=False, env=os.environ
    )
    base.git("checkout", "--quiet", "main")

    assert b"diff --git" not in done.stdout
    assert made(base, done.stdout)[0] == wanted(base, "fix")
    assert "more than once" in refusal(base, done.stdout * 2)
