"""A variant's tree taken out of its source: which files, which provenance, which refusals."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wasm.fix_4396.retry_identity import FIX_ID
from wasm.foundation import cache
from wasm.foundation.errors import SourceError
from wasm.records import FixKind, Origin, Patch, Variant, sha256_of
from wasm.source import files, variant_tree
from wasm.source.variant_tree import AI_PROXY, REFERENCE_PLUGIN, Request

if TYPE_CHECKING:
    from tests.unit.wasm.conftest import Checkout, MakeCheckout, RunWasm
    from wasm.records import Source

pytestmark = pytest.mark.usefixtures("cache_folder")
BASELINE, FIXED = Variant


def request_of(checkout: Checkout, **asked: object) -> Request:
    return replace(Request(source=str(checkout.path), plugin=checkout.plugin), **asked)  # type: ignore[arg-type]


def taken(variant: Variant, request: Request) -> tuple[Source, dict[str, str]]:
    """A variant's provenance, and its files below the root by their paths."""
    with variant_tree.taken_out(variant, request) as tree:
        found = {
            path.relative_to(tree.root).as_posix(): path.read_text()
            for path in tree.root.rglob("*")
            if path.is_file()
        }
        assert tree.source.files_sha256 == files.digest(tree.root)
        assert tree.plugin == tree.root / tree.source.plugin
    assert not tree.root.exists()
    return tree.source, found


def refusal(variant: Variant, request: Request) -> str:
    with pytest.raises(SourceError) as caught, variant_tree.taken_out(variant, request):
        pass
    assert list((cache.root() / "work").glob("*")) == []
    return caught.value.sentence


# What was asked for -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("reference", "reference"),
        ("./reference", "checkout"),
        ("/some/where", "checkout"),
        ("~/higress", "checkout"),
        ("./a:b", "checkout"),
        ("https://git.example/x.git", "url"),
        ("file:///some/where", "url"),
        ("ssh://git@git.example/x.git", "url"),
        ("git@git.example:group/x.git", "url"),
    ],
)
def test_a_source_is_the_reference_a_checkout_or_a_url(where: str, kind: str) -> None:
    assert Request(source=where).kind == kind


def test_the_plugins_folder_is_ai_proxys_or_the_references_unless_it_is_named() -> None:
    assert Request().plugin_folder == REFERENCE_PLUGIN
    assert Request(source="/x").plugin_folder == AI_PROXY
    assert Request(source="/x", plugin="a//b/./c/").plugin_folder == "a/b/c"
    assert Request(source="/x", plugin=".").plugin_folder == "."


@pytest.mark.parametrize("plugin", ["..", "a/../../b", "/etc"])
def test_a_plugin_folder_that_leads_out_is_refused(checkout: Checkout, plugin: str) -> None:
    assert refusal(BASELINE, request_of(checkout, plugin=plugin)) == (
        f"--plugin {plugin} leads out of the source; expected a folder as seen from the "
        "repository's root, such as plugins/wasm-go/extensions/ai-proxy"
    )


# What is taken out ------------------------------------------------------------------------------


def test_the_reference_is_taken_from_this_project() -> None:
    found, contents = taken(BASELINE, Request())

    assert (found.kind, found.plugin, found.fix) == ("reference", REFERENCE_PLUGIN, None)
    assert all(name.startswith(f"{REFERENCE_PLUGIN}/") for name in contents)
    assert f"{REFERENCE_PLUGIN}/provider/retry.go" in contents


def test_a_clean_checkout_is_recorded_as_git_names_it(checkout: Checkout) -> None:
    found, contents = taken(BASELINE, request_of(checkout))

    assert found.commit == checkout.git("rev-parse", "HEAD")
    assert found.tree == checkout.git("rev-parse", f"HEAD:{checkout.plugin}")
    assert (found.kind, found.repository, found.ref) == ("checkout", "checkout", "HEAD")
    assert (found.dirty, found.uncommitted, found.fix) == (False, None, None)
    assert contents.keys() == {"extensions/tiny/go.mod", "extensions/tiny/main.go"}


def test_a_dirty_checkout_is_its_head_and_a_patch_that_makes_the_difference(
    checkout: Checkout, tmp_path: Path
) -> None:
    checkout.write(f"{checkout.plugin}/gone.go", "package main\n")
    checkout.commit()
    (checkout.path / checkout.plugin / "gone.go").unlink()
    checkout.write(f"{checkout.plugin}/main.go", "package main\n\nfunc main() { println() }\n")
    checkout.write(f"{checkout.plugin}/untracked.go", "package main\n")
    checkout.write(f"{checkout.plugin}/binary.bin", bytes(range(256)))
    checkout.write("elsewhere/notes.txt", "no business of a build\n")

    with variant_tree.taken_out(BASELINE, request_of(checkout)) as tree:
        as_it_lies = files.digest(tree.plugin)

    found = tree.source
    assert found.dirty
    assert found.uncommitted is not None
    assert found.uncommitted.sha256 == sha256_of(found.uncommitted.content)
    assert b"notes.txt" not in found.uncommitted.content
    assert found.commit == checkout.git("rev-parse", "HEAD")
    checkout.git("clone", "--quiet", ".", str(tmp_path / "again"))
    subprocess.run(
        ["git", "apply", "-"],
        cwd=tmp_path / "again",
        input=found.uncommitted.content,
        check=True,
    )
    assert files.digest(tmp_path / "again" / checkout.plugin) == as_it_lies


def test_a_ref_that_is_named_leaves_uncommitted_changes_out(checkout: Checkout) -> None:
    first = checkout.git("rev-parse", "HEAD")
    checkout.write(f"{checkout.plugin}/main.go", "package main // second\n")
    second = checkout.commit()
    checkout.write(f"{checkout.plugin}/main.go", "package main // uncommitted\n")
    request = request_of(checkout, baseline_ref="HEAD~1", fixed_ref="main")

    baseline, before = taken(BASELINE, request)
    fixed, after = taken(FIXED, request)

    assert (baseline.ref, baseline.commit, baseline.dirty) == ("HEAD~1", first, False)
    assert (fixed.ref, fixed.commit, fixed.dirty) == ("main", second, False)
    assert fixed.fix is not None
    assert fixed.fix.origin == Origin(kind=FixKind.REF, name="main")
    assert fixed.fix.baseline_sha256 == baseline.files_sha256
    assert b"+package main // second" in fixed.fix.patch.content
    assert b"uncommitted" not in fixed.fix.patch.content
    assert "return 41" in before["extensions/tiny/main.go"]
    assert after["extensions/tiny/main.go"] == "package main // second\n"


def test_a_ref_that_changes_nothing_is_an_empty_fix(checkout: Checkout) -> None:
    baseline, before = taken(BASELINE, request_of(checkout))
    fixed, after = taken(FIXED, request_of(checkout, fixed_ref="HEAD"))

    assert after == before
    assert fixed.files_sha256 == baseline.files_sha256
    assert fixed.fix is not None
    assert fixed.fix.patch.content == b""


def test_every_kind_of_fix_names_the_tree_that_it_was_made_on(checkout: Checkout) -> None:
    baseline, _ = taken(BASELINE, request_of(checkout))
    checkout.write(f"{checkout.plugin}/main.go", "package main // other\n")
    other, _ = taken(BASELINE, request_of(checkout))
    fixed, _ = taken(FIXED, request_of(checkout, fixed_ref="HEAD"))

    assert fixed.fix is not None
    assert fixed.fix.baseline_sha256 == other.files_sha256 != baseline.files_sha256


def test_a_subfolder_of_a_checkout_names_the_whole(checkout: Checkout) -> None:
    request = request_of(checkout, source=str(checkout.path / "elsewhere"))

    assert taken(BASELINE, request) == taken(BASELINE, request_of(checkout))


def test_a_plugin_can_be_the_repositorys_root(tmp_path: Path, make_checkout: MakeCheckout) -> None:
    checkout = make_checkout(tmp_path / "rooted", plugin=".")
    checkout.write("main.go", "package main // changed\n")
    patch = checkout.git("diff") + "\n"
    checkout.git("checkout", "--quiet", "main.go")
    file = checkout.write(".git/fix.patch", patch)

    found, contents = taken(FIXED, request_of(checkout, fixed_patch=file))

    assert contents["main.go"] == "package main // changed\n"
    assert found.tree == checkout.git("rev-parse", "HEAD^{tree}")


def test_a_url_is_recorded_with_its_commit(checkout: Checkout, tmp_path: Path) -> None:
    checkout.git("clone", "--quiet", "--bare", ".", str(tmp_path / "r.git"))
    url = (tmp_path / "r.git").as_uri()

    found, contents = taken(BASELINE, request_of(checkout, source=url, baseline_ref="main"))

    assert (found.kind, found.repository, found.ref) == ("url", url, "main")
    assert found.commit == checkout.git("rev-parse", "HEAD")
    assert found.tree == checkout.git("rev-parse", f"HEAD:{checkout.plugin}")
    assert contents == taken(BASELINE, request_of(checkout))[1]


def test_a_checkout_and_a_clone_of_it_have_the_same_files_digest(
    checkout: Checkout, tmp_path: Path
) -> None:
    checkout.write(f"{checkout.plugin}/run.sh", "#!/bin/sh\n").chmod(0o755)
    checkout.commit()
    checkout.git("clone", "--quiet", ".", str(tmp_path / "clone"))
    clone = type(checkout)(tmp_path / "clone")

    one, two = taken(BASELINE, request_of(checkout))[0], taken(BASELINE, request_of(clone))[0]

    assert one.files_sha256 == two.files_sha256


@pytest.mark.parametrize("variant", Variant)
def test_taking_a_variant_out_changes_nothing_of_a_checkout(
    checkout: Checkout, variant: Variant
) -> None:
    patch = checkout.path.parent / "fix.patch"
    checkout.write(f"{checkout.plugin}/main.go", "package main // fixed\n")
    patch.write_text(checkout.git("diff") + "\n")
    checkout.git("checkout", "--quiet", "--", ".")
    checkout.write(f"{checkout.plugin}/untracked.go", "package main\n")
    before = checkout.snapshot()

    taken(variant, request_of(checkout, fixed_patch=patch))

    assert checkout.snapshot() == before


def test_a_go_mod_that_is_no_go_mod_is_told_with_its_line(checkout: Checkout) -> None:
    checkout.write(f"{checkout.plugin}/go.mod", "module x\n\nnonsense here\n")

    assert refusal(BASELINE, request_of(checkout)) == (
        "extensions/tiny/go.mod cannot be read: extensions/tiny/go.mod:3: unknown directive: "
        "nonsense; expected what `go mod edit` takes; mend it there"
    )


# Replaced folders and links ---------------------------------------------------------------------


def replacing(checkout: Checkout, by: str) -> None:
    checkout.write(
        f"{checkout.plugin}/go.mod",
        f"module tiny.example/plugin\n\ngo 1.24\n\nreplace lib.example/lib => {by}\n",
    )


def test_a_folder_that_go_mod_puts_in_place_of_a_module_is_taken_too(checkout: Checkout) -> None:
    replacing(checkout, "../../lib")
    checkout.write("lib/lib.go", "package lib\n")
    checkout.commit()
    checkout.write("lib/untracked.go", "package lib // untracked\n")

    found, contents = taken(BASELINE, request_of(checkout))

    assert contents["lib/lib.go"] == "package lib\n"
    assert contents["lib/untracked.go"] == "package lib // untracked\n"
    assert "elsewhere/notes.txt" not in contents
    assert found.uncommitted is not None
    assert b"b/lib/untracked.go" in found.uncommitted.content


def test_a_replaced_folder_may_hold_the_plugin_itself(checkout: Checkout) -> None:
    replacing(checkout, "../..")
    (checkout.path / checkout.plugin / "link.go").symlink_to("main.go")
    checkout.commit()

    _, contents = taken(BASELINE, request_of(checkout))

    assert "elsewhere/notes.txt" in contents
    assert contents["extensions/tiny/link.go"] == contents["extensions/tiny/main.go"]


def test_a_patch_may_change_a_replaced_folder(checkout: Checkout, tmp_path: Path) -> None:
    replacing(checkout, "../../lib")
    checkout.write("lib/lib.go", "package lib\n")
    checkout.commit()
    checkout.write("lib/lib.go", "package lib // fixed\n")
    (tmp_path / "fix.patch").write_text(checkout.git("diff") + "\n")
    checkout.git("checkout", "--quiet", ".")

    _, contents = taken(FIXED, request_of(checkout, fixed_patch=tmp_path / "fix.patch"))

    assert contents["lib/lib.go"] == "package lib // fixed\n"


@pytest.mark.parametrize("by", ["../../../lib", "/usr/lib/go/lib"])
def test_a_replaced_folder_outside_the_repository_is_refused(checkout: Checkout, by: str) -> None:
    replacing(checkout, by)

    assert refusal(BASELINE, request_of(checkout)) == (
        f"extensions/tiny/go.mod replaces lib.example/lib by {by}, outside the repository; "
        "expected a source that stands alone; move that folder into it"
    )


def test_a_module_replaced_by_another_module_is_gos_own_affair(checkout: Checkout) -> None:
    replacing(checkout, "fork.example/lib v1.0.0")

    assert len(taken(BASELINE, request_of(checkout))[1]) == 2


def test_links_within_the_repository_stay_links(checkout: Checkout) -> None:
    (checkout.path / checkout.plugin / "link.go").symlink_to("../tiny/main.go")

    with variant_tree.taken_out(BASELINE, request_of(checkout)) as tree:
        assert (tree.plugin / "link.go").readlink() == Path("../tiny/main.go")


@pytest.mark.parametrize("to", ["/etc/passwd", "../../../secret", "inside/../../../../secret"])
def test_a_link_out_of_the_repository_is_refused(checkout: Checkout, to: str) -> None:
    (checkout.path / checkout.plugin / "link.go").symlink_to(to)

    assert refusal(BASELINE, request_of(checkout)) == (
        f"extensions/tiny/link.go in checkout is a link to {to}, outside the repository; expected "
        "a tree that stands alone; replace the link by the file"
    )


def test_a_link_out_that_a_patch_brings_is_refused_too(checkout: Checkout, tmp_path: Path) -> None:
    (checkout.path / checkout.plugin / "link.go").symlink_to("/etc/passwd")
    checkout.git("add", "--all")
    (tmp_path / "fix.patch").write_text(checkout.git("diff", "--cached") + "\n")
    checkout.git("reset", "--quiet", "--hard")

    assert refusal(FIXED, request_of(checkout, fixed_patch=tmp_path / "fix.patch")) == (
        "extensions/tiny/link.go in fix.patch is a link to /etc/passwd, outside the repository; "
        "expected a tree that stands alone; replace the link by the file"
    )


# The fix ----------------------------------------------------------------------------------------


@pytest.fixture
def fix(checkout: Checkout, tmp_path: Path) -> Path:
    checkout.write(f"{checkout.plugin}/main.go", "package main // fixed\n")
    checkout.write("elsewhere/notes.txt", "the fix also tells what it does\n")
    file = tmp_path / "fix.patch"
    file.write_text(checkout.git("diff") + "\n")
    checkout.git("checkout", "--quiet", "--", ".")
    return file


def test_a_patch_is_applied_and_recorded_whole(checkout: Checkout, fix: Path) -> None:
    found, contents = taken(FIXED, request_of(checkout, fixed_patch=fix))

    assert contents["extensions/tiny/main.go"] == "package main // fixed\n"
    assert found.fix is not None
    assert found.fix.origin == Origin(kind=FixKind.PATCH, name="fix.patch")
    assert (found.fix.places, found.fix.applied) == ({}, "git apply, one diff of 1 file")
    assert found.fix.left_out == ["1 file of the patch outside the plugin"]
    assert found.fix.patch == Patch.of(fix.read_bytes())
    subprocess.run(
        ["git", "apply", "--check", "-"],
        cwd=checkout.path,
        input=found.fix.patch.content,
        check=True,
    )


def test_a_patch_is_no_part_of_the_baseline(checkout: Checkout, fix: Path) -> None:
    found, contents = taken(BASELINE, request_of(checkout, fixed_patch=fix))

    assert found.fix is None
    assert "return 41" in contents["extensions/tiny/main.go"]


def test_the_built_in_fix_is_a_patch_that_git_takes_at_the_repositorys_root(
    tmp_path: Path, make_checkout: MakeCheckout
) -> None:
    checkout = make_checkout(tmp_path / "proxy")
    reference = cache.PROJECT / REFERENCE_PLUGIN
    for file in reference.rglob("*"):
        if file.is_file():
            name = f"{checkout.plugin}/{file.relative_to(reference).as_posix()}"
            checkout.write(name, file.read_bytes())
    checkout.commit()

    found, contents = taken(FIXED, request_of(checkout))

    assert found.fix is not None
    assert found.fix.origin == Origin(kind=FixKind.BUILT_IN, name=FIX_ID)
    assert found.fix.patch.sha256 == sha256_of(found.fix.patch.content)
    assert sum(found.fix.places.values()) > 0
    subprocess.run(
        ["git", "apply", "-"], cwd=checkout.path, input=found.fix.patch.content, check=True
    )
    assert contents == taken(BASELINE, request_of(checkout))[1]


def test_both_ways_to_name_a_fix_are_one_too_many(checkout: Checkout, fix: Path) -> None:
    request = request_of(checkout, fixed_ref="main", fixed_patch=fix)

    assert refusal(BASELINE, request) == (
        "--fixed-ref and --fixed-patch were given together; expected one of them, or none for the "
        "built-in fix; drop the others"
    )


def test_a_patch_that_does_not_apply_is_told_with_gits_reason(
    checkout: Checkout, fix: Path
) -> None:
    checkout.write(f"{checkout.plugin}/main.go", "package other\n")

    assert refusal(FIXED, request_of(checkout, fixed_patch=fix)) == (
        "the patch fix.patch does not apply: error: patch failed: extensions/tiny/main.go:1; "
        "expected a patch against the baseline as `git diff` writes it at the repository's root; "
        "make it again from there"
    )


def test_a_file_that_is_no_patch_is_told(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "fix.patch").write_text("hello\n")

    told = refusal(FIXED, request_of(checkout, fixed_patch=tmp_path / "fix.patch"))

    assert told.startswith("the patch fix.patch does not apply: error: ")


CHANGES_NOTHING = (
    "the patch fix.patch changes nothing below extensions/tiny; expected paths as seen from the "
    "repository's root, such as a/extensions/tiny/main.go; make it again from there"
)


@pytest.mark.parametrize("made", ["from the plugin's folder", "of another folder"])
def test_a_patch_that_git_skips_with_status_0_is_refused(
    checkout: Checkout, tmp_path: Path, made: str
) -> None:
    checkout.write(f"{checkout.plugin}/main.go", "package main // fixed\n")
    checkout.write("elsewhere/notes.txt", "changed\n")
    relative = [f"--relative={checkout.plugin}"] if "plugin" in made else ["--", "elsewhere"]
    (tmp_path / "fix.patch").write_text(checkout.git("diff", *relative) + "\n")
    checkout.git("checkout", "--quiet", ".")

    request = request_of(checkout, fixed_patch=tmp_path / "fix.patch")

    assert refusal(FIXED, request) == CHANGES_NOTHING


def test_a_users_setting_to_ignore_white_space_does_not_make_a_patch_fit(
    checkout: Checkout, fix: Path
) -> None:
    checkout.git("config", "--global", "apply.ignoreWhitespace", "change")
    main = (checkout.path / checkout.plugin / "main.go").read_text()
    checkout.write(f"{checkout.plugin}/main.go", main.replace("func answer", "func   answer"))

    assert refusal(FIXED, request_of(checkout, fixed_patch=fix)).startswith(
        "the patch fix.patch does not apply"
    )


def test_the_fix_for_4396_refuses_a_tree_it_does_not_know(checkout: Checkout) -> None:
    assert refusal(FIXED, request_of(checkout)).startswith(
        "extensions/tiny/provider holds no Go files, expected the package provider of the plugin; "
    )


# Bad input, through the command -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            "--source {tmp}/nowhere",
            (
                "no folder at --source {tmp}/nowhere; expected a git checkout, a git URL, or "
                "`reference`"
            ),
        ),
        (
            "--source ~nobody-of-this-name/x",
            (
                "argument --source: found '~nobody-of-this-name/x', expected ~nobody-of-this-name "
                "to be a user's home on this machine; a file of that name is "
                "./~nobody-of-this-name/x; `python -m wasm build --help` lists what there is"
            ),
        ),
        (
            "--source {tmp}/empty",
            (
                "no git repository at --source {tmp}/empty; expected a checkout made with git "
                "clone, not an archive that was unpacked; git said: fatal: not a git repository "
                "(or any of the parent directories): .git"
            ),
        ),
        (
            "--source {tmp}/checkout --plugin extensions/tiny --baseline-ref nope",
            (
                "unknown ref 'nope' in checkout; expected a branch, tag or commit that is in this"
                " repository; fetch it first, or name another"
            ),
        ),
        (
            "--source {tmp}/checkout --plugin extensions/tiny --baseline-ref=--help",
            (
                "unknown ref '--help' in checkout; expected a branch, tag or commit that is in "
                "this repository; fetch it first, or name another"
            ),
        ),
        (
            "--source {tmp}/checkout",
            (
                "no folder plugins/wasm-go/extensions/ai-proxy in checkout at HEAD; expected the "
                "plugin's folder as seen from the repository's root; name it with --plugin"
            ),
        ),
        (
            "--source {tmp}/checkout --plugin extensions/tiny/main.go",
            (
                "no folder extensions/tiny/main.go in checkout at HEAD; expected the plugin's "
                "folder as seen from the repository's root; name it with --plugin"
            ),
        ),
        (
            "--source {tmp}/checkout --plugin elsewhere",
            (
                "no go.mod in elsewhere of checkout at HEAD; expected the folder of a Go-Wasm "
                "plugin; name it with --plugin"
            ),
        ),
        (
            "--source {tmp}/checkout --plugin ../x",
            (
                "--plugin ../x leads out of the source; expected a folder as seen from the "
                "repository's root, such as plugins/wasm-go/extensions/ai-proxy"
            ),
        ),
        (
            "--source {tmp}/checkout --plugin extensions/tiny --fixed-patch {tmp}/no.patch",
            (
                "--fixed-patch {tmp}/no.patch cannot be read (No such file or directory); "
                "expected a patch as `git diff` writes it; check the path"
            ),
        ),
        (
            "--source {tmp}/checkout --plugin extensions/tiny --fixed-patch {tmp}",
            (
                "--fixed-patch {tmp} cannot be read (Is a directory); expected a patch as `git "
                "diff` writes it; check the path"
            ),
        ),
        (
            "--source {tmp}/commitless",
            (
                "HEAD names no commit in commitless (an empty repository?); expected one to take "
                "the plugin from; commit it, or name a commit with --baseline-ref"
            ),
        ),
        (
            "--source {tmp}/checkout --plugin extensions/tiny --fixed-patch {tmp}/pipe",
            (
                "--fixed-patch {tmp}/pipe cannot be read (Not a regular file); expected a patch as "
                "`git diff` writes it; check the path"
            ),
        ),
        (
            "--source {tmp}/checkout/elsewhere",
            (
                "no folder plugins/wasm-go/extensions/ai-proxy in checkout, the git repository "
                "around {tmp}/checkout/elsewhere, at HEAD; expected the plugin's folder as seen "
                "from the repository's root; name it with --plugin"
            ),
        ),
    ],
)
@pytest.mark.usefixtures("checkout")
def test_bad_input_is_one_sentence_with_status_2_and_nothing_left(
    run_wasm: RunWasm, tmp_path: Path, cache_folder: Path, arguments: str, sentence: str
) -> None:
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    subprocess.run(["git", "init", "--quiet", str(tmp_path / "commitless")], check=True)
    record = tmp_path / "out" / "record.json"

    ended = run_wasm(
        "build",
        "--variant=fixed",
        f"--output={record}",
        *arguments.format(tmp=tmp_path).split(),
        env={"GIT_CEILING_DIRECTORIES": ""},
    )

    assert (ended.status, ended.stdout) == (2, "")
    assert ended.stderr == f"error: {sentence.format(tmp=tmp_path)}\n"
    assert list(cache_folder.glob("work/*")) == []
    assert not record.parent.exists()


@pytest.mark.parametrize(
    ("asked", "begins"),
    [
        ({"fixed_ref": "nope"}, "unknown ref 'nope' in checkout; "),
        ({"fixed_patch": Path("/nowhere.patch")}, "--fixed-patch /nowhere.patch cannot be read ("),
    ],
)
def test_a_fix_that_is_not_there_is_refused_while_the_baseline_is_made(
    checkout: Checkout, asked: dict[str, object], begins: str
) -> None:
    assert refusal(BASELINE, request_of(checkout, **asked)).startswith(begins)


@pytest.mark.parametrize("variant", Variant)
def test_a_patch_that_does_not_fit_and_a_ref_without_the_plugin_are_refused_before_a_build(
    checkout: Checkout, fix: Path, variant: Variant
) -> None:
    checkout.git("checkout", "--quiet", "--orphan", "empty")
    checkout.git("rm", "--quiet", "-r", "--force", checkout.plugin)
    checkout.commit()
    checkout.git("checkout", "--quiet", "main")
    assert refusal(variant, request_of(checkout, fixed_ref="empty")).startswith(
        f"no folder {checkout.plugin} in checkout at empty; "
    )

    checkout.write(f"{checkout.plugin}/main.go", "package other\n")
    assert "fix.patch does not apply" in refusal(variant, request_of(checkout, fixed_patch=fix))


# The work tree as the fixed variant, and what is left out -----------------------------------------


def on_a_branch(checkout: Checkout) -> tuple[str, str]:
    """A fix on a branch, more of it uncommitted; the commits of main and of the branch."""
    before = checkout.git("rev-parse", "main")
    checkout.git("checkout", "--quiet", "-b", "fix")
    checkout.write(f"{checkout.plugin}/main.go", "package main // committed\n")
    after = checkout.commit()
    checkout.write(f"{checkout.plugin}/more.go", "package main // uncommitted\n")
    checkout.write("elsewhere/notes.txt", "no business of a build\n")
    return before, after


def test_the_work_tree_is_the_fixed_variant_when_that_is_asked_for(checkout: Checkout) -> None:
    before, after = on_a_branch(checkout)
    request = request_of(checkout, baseline_ref="main", fixed_worktree=True)

    baseline, _ = taken(BASELINE, request)
    fixed, contents = taken(FIXED, request)

    assert (baseline.commit, baseline.dirty) == (before, False)
    assert (fixed.commit, fixed.dirty) == (after, True)
    assert contents["extensions/tiny/more.go"] == "package main // uncommitted\n"
    assert fixed.fix is not None
    assert fixed.fix.origin == Origin(kind=FixKind.WORK_TREE)
    assert fixed.fix.left_out == []
    assert b"// committed" in fixed.fix.patch.content
    assert b"// uncommitted" in fixed.fix.patch.content


@pytest.mark.parametrize("variant", Variant)
@pytest.mark.parametrize(
    ("asked", "fact"),
    [
        ({}, "it is the baseline, too"),
        ({"source": "file:///x.git", "baseline_ref": "main"}, "a URL has no work tree"),
        ({"baseline_ref": "main", "fixed_ref": "main"}, "--fixed-ref and --fixed-worktree"),
    ],
)
def test_a_work_tree_that_cannot_be_the_fixed_variant_is_refused(
    checkout: Checkout, variant: Variant, asked: dict[str, object], fact: str
) -> None:
    assert fact in refusal(variant, request_of(checkout, fixed_worktree=True, **asked))


def test_a_bare_repository_has_no_work_tree(checkout: Checkout, tmp_path: Path) -> None:
    checkout.git("clone", "--quiet", "--bare", ".", str(tmp_path / "r.git"))
    request = request_of(
        checkout, source=str(tmp_path / "r.git"), baseline_ref="main", fixed_worktree=True
    )

    assert "is a bare repository" in refusal(BASELINE, request)


def test_what_lies_in_the_checkout_and_is_of_neither_variant_is_named(
    checkout: Checkout, fix: Path
) -> None:
    _, head = on_a_branch(checkout)
    left_out = [f"HEAD ({head[:12]})", "1 uncommitted file"]

    found, _ = taken(FIXED, request_of(checkout, baseline_ref="main", fixed_patch=fix))
    assert found.fix is not None
    assert found.fix.left_out[:2] == left_out
    assert found.fix.summary.startswith(f"the patch fix.patch; not part of it: {left_out[0]}, 1 ")

    by_ref, _ = taken(FIXED, request_of(checkout, baseline_ref="main", fixed_ref="fix"))
    assert by_ref.fix is not None
    assert by_ref.fix.left_out == left_out[1:]

    # The baseline is HEAD with its changes: nothing is left out.
    on_top, _ = taken(FIXED, request_of(checkout, fixed_ref="main"))
    assert on_top.fix is not None
    assert on_top.fix.left_out == []


def test_a_head_that_differs_elsewhere_alone_is_not_named(checkout: Checkout, fix: Path) -> None:
    checkout.git("checkout", "--quiet", "-b", "other")
    checkout.write("elsewhere/notes.txt", "no business of a build\n")
    checkout.commit()

    found, _ = taken(FIXED, request_of(checkout, baseline_ref="main", fixed_patch=fix))

    assert found.fix is not None
    assert found.fix.left_out == ["1 file of the patch outside the plugin"]


# Whether others can fetch it ----------------------------------------------------------------------


def test_a_commit_that_was_not_pushed_is_recorded_as_that(checkout: Checkout) -> None:
    assert not taken(BASELINE, request_of(checkout))[0].unpublished, "no remote is named"
    checkout.git("remote", "add", "origin", "https://git.example/plugin.git")
    assert taken(BASELINE, request_of(checkout))[0].unpublished
    checkout.git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert not taken(BASELINE, request_of(checkout))[0].unpublished
    checkout.write(f"{checkout.plugin}/main.go", "package main // not pushed\n")
    checkout.commit()
    found, _ = taken(BASELINE, request_of(checkout))
    assert (found.repository, found.unpublished) == ("https://git.example/plugin.git", True)


# The version of Go --------------------------------------------------------------------------------


def asking(checkout: Checkout, lines: str) -> None:
    checkout.write(f"{checkout.plugin}/go.mod", f"module tiny.example/plugin\n\n{lines}\n")


def test_the_toolchain_line_decides_and_the_option_before_it(checkout: Checkout) -> None:
    asking(checkout, "go 1.24\n\ntoolchain go1.24.4")

    asked, _ = taken(BASELINE, request_of(checkout))
    assert asked.go is not None
    assert (asked.go.version, "toolchain" in asked.go.because) == ("go1.24.4", True)

    named, _ = taken(BASELINE, request_of(checkout, go="go1.26.8"))
    assert named.go is not None
    assert (named.go.version, "--go" in named.go.because) == ("go1.26.8", True)


def test_the_recipe_of_the_builder_decides_where_no_toolchain_line_does(
    checkout: Checkout, tmp_path: Path
) -> None:
    checkout.write("DockerfileBuilder", "ARG GO_VERSION=1.24.1\n")
    checkout.write("extensions/DockerfileBuilder", "FROM x\nARG GO_VERSION=1.24.4\n")
    checkout.commit()
    checkout.git("clone", "--quiet", "--bare", ".", str(tmp_path / "r.git"))

    for where in (str(checkout.path), (tmp_path / "r.git").as_uri()):
        found, _ = taken(BASELINE, request_of(checkout, source=where))
        assert found.go is not None
        assert found.go.version == "go1.24.4"
        assert "extensions/DockerfileBuilder" in found.go.because


@pytest.mark.parametrize("variant", Variant)
def test_variants_that_ask_for_two_versions_of_go_are_refused_naming_both(
    checkout: Checkout, tmp_path: Path, variant: Variant
) -> None:
    asking(checkout, "go 1.24\n\ntoolchain go1.24.4")
    checkout.commit()
    checkout.git("checkout", "--quiet", "-b", "fix")
    asking(checkout, "go 1.24\n\ntoolchain go1.26.8")
    checkout.commit()
    (tmp_path / "fix.patch").write_text(checkout.git("diff", "main", "fix") + "\n")
    checkout.git("checkout", "--quiet", "main")

    for asked in ({"fixed_ref": "fix"}, {"fixed_patch": tmp_path / "fix.patch"}):
        told = refusal(variant, request_of(checkout, **asked))
        assert "go1.24.4" in told
        assert "go1.26.8" in told
        assert "--go" in told
        found, _ = taken(variant, request_of(checkout, **asked, go="go1.26.8"))
        assert found.go is not None
        assert found.go.version == "go1.26.8"
