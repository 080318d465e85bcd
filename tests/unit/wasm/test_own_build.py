"""What is built is what the user's own `go build` in that folder makes (docs/sources.md).

The right value is Go's own: the same command, run by hand in the plugin's folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wasm.foundation import cache
from wasm.foundation.errors import BuildError, SourceError
from wasm.golang import toolchain
from wasm.golang.goversion import GO_VERSION
from wasm.module.build import build
from wasm.records import Variant, sha256_of
from wasm.source import variant_tree
from wasm.source.variant_tree import REFERENCE_PLUGIN, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.wasm.conftest import Checkout, MakeCheckout
    from wasm.records import Module, Source

pytestmark = pytest.mark.usefixtures("cache_folder")
BASELINE, FIXED = Variant
COMMAND = ("build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-o")
# What a file that only Go's build knows of adds to the tiny plugin: it is run, and seen by nobody.
GENERATED = 'package main\n\nfunc init() { println("generated") }\n'
EMBEDDING = """package main

import "embed"

//go:embed data
var data embed.FS

func init() {
	content, err := data.ReadFile("data/text.txt")
	println(string(content), err)
}
"""


def request_of(checkout: Checkout, **asked: object) -> Request:
    return replace(Request(source=str(checkout.path), plugin=checkout.plugin), **asked)  # type: ignore[arg-type]


def built_by_hand(checkout: Checkout, tmp_path: Path) -> str:
    """SHA-256 of what `go build` makes in the plugin's folder."""
    output = tmp_path / "by-hand.wasm"
    subprocess.run(
        ["go", *COMMAND, str(output), "."],
        cwd=checkout.path / checkout.plugin,
        env=os.environ | toolchain.TARGET | {"GOTOOLCHAIN": GO_VERSION, "CGO_ENABLED": "0"},
        check=True,
        capture_output=True,
    )
    return sha256_of(output.read_bytes())


def patched(checkout: Checkout, tmp_path: Path) -> Request:
    """Ask for what lies in a checkout as a patch on its HEAD, which is then what lies there."""
    checkout.write(f"{checkout.plugin}/more.go", "package main\n")
    checkout.git("add", "--all", "--force")
    patch = tmp_path / "fix.patch"
    patch.write_text(checkout.git("diff", "--binary", "HEAD") + "\n")
    checkout.git("reset", "--quiet", "--hard")
    return request_of(checkout, fixed_patch=patch)


def source_of(request: Request, variant: Variant = BASELINE) -> Source:
    with variant_tree.taken_out(variant, request) as tree:
        return tree.source


def contents(request: Request) -> dict[str, bytes]:
    with variant_tree.taken_out(BASELINE, request) as tree:
        return {
            path.relative_to(tree.root).as_posix(): path.read_bytes()
            for path in tree.root.rglob("*")
            if path.is_file()
        }


def refusal(request: Request) -> str:
    with pytest.raises(SourceError) as caught, variant_tree.taken_out(BASELINE, request):
        pass
    assert list((cache.root() / "work").glob("*")) == []
    return caught.value.sentence


def like(checkout: Checkout, module: Module, path: Path) -> Module:
    """The module of a clone with the recorded changes applied, as another machine makes it."""
    checkout.git("clone", "--quiet", ".", str(path))
    assert module.source.uncommitted is not None
    subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"],
        cwd=path,
        input=module.source.uncommitted.content,
        check=True,
    )
    return build(BASELINE, request_of(replace(checkout, path=path)))


# Files that a rule ignores ----------------------------------------------------------------------


def add_generated(checkout: Checkout) -> str:
    checkout.write(f"{checkout.plugin}/zz_gen.go", GENERATED)
    return f"{checkout.plugin}/zz_gen.go"


def add_embedded(checkout: Checkout) -> str:
    checkout.write(f"{checkout.plugin}/embed.go", EMBEDDING)
    checkout.commit()
    checkout.write(f"{checkout.plugin}/data/text.txt", "embedded")
    return f"{checkout.plugin}/data/text.txt"


def add_vendored(checkout: Checkout) -> str:
    """A dependency that nothing but vendor/ has."""
    plugin = checkout.plugin
    checkout.write(
        f"{plugin}/go.mod",
        "module tiny.example/plugin\n\ngo 1.24\n\nrequire lib.example/lib v1.0.0\n",
    )
    checkout.write(
        f"{plugin}/main.go",
        'package main\n\nimport "lib.example/lib"\n\nfunc main() { println(lib.Answer) }\n',
    )
    checkout.commit()
    checkout.write(f"{plugin}/vendor/lib.example/lib/lib.go", "package lib\n\nconst Answer = 42\n")
    checkout.write(
        f"{plugin}/vendor/modules.txt",
        "# lib.example/lib v1.0.0\n## explicit; go 1.24\nlib.example/lib\n",
    )
    return f"{plugin}/vendor/lib.example/lib/lib.go"


def add_profile(checkout: Checkout) -> str:
    """What Go takes for a profile by its name alone."""
    empty = b"\x0a\x04\x08\x01\x10\x02" + b"\x32\x00" + b"\x32\x07samples" + b"\x32\x05count"
    checkout.write(f"{checkout.plugin}/default.pgo", empty)
    return f"{checkout.plugin}/default.pgo"


@pytest.mark.parametrize("add", [add_generated, add_embedded, add_vendored, add_profile])
def test_a_staged_file_belongs_to_the_checkout_though_a_rule_ignores_it(
    checkout: Checkout, tmp_path: Path, add: Callable[[Checkout], str]
) -> None:
    before = build(BASELINE, request_of(checkout))
    name = add(checkout)
    checkout.write(".gitignore", "zz_*.go\ndata/\nvendor/\n*.pgo\n")
    checkout.git("add", ".gitignore")
    checkout.git("commit", "--quiet", "--message=rules")
    checkout.git("add", "--force", checkout.plugin)

    module = build(BASELINE, request_of(checkout))

    assert module.sha256 == built_by_hand(checkout, tmp_path)
    assert module.source.dirty
    assert module.source.uncommitted is not None
    assert f"b/{name}".encode() in module.source.uncommitted.content
    assert module.source.files_sha256 != before.source.files_sha256
    assert like(checkout, module, tmp_path / "other").sha256 == module.sha256


@pytest.mark.parametrize(
    ("add", "rules"),
    [
        (add_generated, ".gitignore"),
        (add_embedded, ".gitignore"),
        (add_vendored, ".gitignore"),
        (add_profile, ".gitignore"),
        (add_embedded, ".git/info/exclude"),
        (add_generated, "core.excludesFile"),
    ],
)
def test_an_ignored_file_that_the_build_reads_is_taken_along(
    checkout: Checkout, tmp_path: Path, add: Callable[[Checkout], str], rules: str
) -> None:
    name = add(checkout)
    patterns = "zz_*.go\ndata/\nvendor/\n*.pgo\n"
    if rules == "core.excludesFile":
        (tmp_path / "excludes").write_text(patterns)
        checkout.git("config", "--global", rules, str(tmp_path / "excludes"))
    else:
        checkout.write(rules, patterns)
    assert checkout.git("status", "--porcelain", "--", checkout.plugin) == ""
    before = checkout.snapshot()

    module = build(BASELINE, request_of(checkout))

    assert checkout.snapshot() == before
    assert module.sha256 == built_by_hand(checkout, tmp_path)
    assert module.source.uncommitted is not None
    assert f"b/{name}".encode() in module.source.uncommitted.content
    assert like(checkout, module, tmp_path / "other").sha256 == module.sha256


def test_an_ignored_file_that_no_build_reads_stays_where_it_is(checkout: Checkout) -> None:
    add_embedded(checkout)
    checkout.write(".gitignore", "*.env\nscratch/\nmain.wasm\n.#*\n")
    checkout.commit()
    for name in ("secret.env", "main.wasm", "scratch/notes.txt", ".#main.go", "data/.hidden.env"):
        checkout.write(f"{checkout.plugin}/{name}", "no business of a build\n")

    found = source_of(request_of(checkout))

    assert (found.dirty, found.notes) == (False, [])


def test_an_ignored_file_of_a_replaced_folder_is_taken_along(
    checkout: Checkout, tmp_path: Path
) -> None:
    with_a_replaced_folder(checkout)
    checkout.write(".gitignore", "zz_*.go\n")
    checkout.commit()
    checkout.write("lib/zz_gen.go", GENERATED.replace("main", "lib"))

    module = build(BASELINE, request_of(checkout))

    assert module.sha256 == built_by_hand(checkout, tmp_path)
    assert module.source.dirty


def test_looking_for_ignored_files_writes_nothing_though_go_would_complete_go_mod(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GOPROXY", "off")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "empty"))
    checkout.write(
        f"{checkout.plugin}/go.mod", "module tiny.example/plugin\n\nrequire a.example/a v1.0.0\n"
    )
    checkout.write(f"{checkout.plugin}/more.go", 'package main\n\nimport _ "a.example/a"\n')
    checkout.write(".gitignore", "zz_*.go\n")
    add_generated(checkout)
    before = checkout.snapshot()

    with pytest.raises(BuildError), variant_tree.taken_out(BASELINE, request_of(checkout)):
        pass
    assert checkout.snapshot() == before


def test_an_ignored_link_to_a_folder_that_is_not_there_for_others_is_refused(
    checkout: Checkout, tmp_path: Path
) -> None:
    add_vendored(checkout)
    checkout.write(".gitignore", "vendor\n")
    checkout.commit()
    vendor = checkout.path / checkout.plugin / "vendor"
    vendor.rename(tmp_path / "vendored")
    vendor.symlink_to(tmp_path / "vendored")

    assert refusal(request_of(checkout)).startswith("extensions/tiny/vendor in checkout is a link")


def test_an_ignored_file_beyond_a_link_within_the_repository_is_named(checkout: Checkout) -> None:
    add_vendored(checkout)
    checkout.write(".gitignore", "vendor\nshared\n")
    checkout.commit()
    vendor = checkout.path / checkout.plugin / "vendor"
    vendor.rename(checkout.path / "shared")
    vendor.symlink_to("../../shared")

    assert f"{checkout.plugin}/vendor" in refusal(request_of(checkout))


def test_a_nested_go_mod_that_a_rule_ignores_is_taken_along(checkout: Checkout) -> None:
    """For Go the folder is no part of the plugin; without that file it would be."""
    checkout.write(f"{checkout.plugin}/inner/inner.go", "package inner\n")
    checkout.write(".gitignore", "zz_*.go\n**/inner/go.mod\n")
    checkout.commit()
    checkout.write(f"{checkout.plugin}/inner/go.mod", "module inner.example/inner\n")

    assert f"{checkout.plugin}/inner/go.mod" in contents(request_of(checkout))


@pytest.mark.parametrize("name", ["zz_gen.go", "vendor", "default.pgo"])
def test_what_go_reads_and_is_a_link_to_what_is_not_taken_is_refused(
    checkout: Checkout, name: str
) -> None:
    """Without vendor and default.pgo Go builds another module, and says nothing."""
    checkout.write("elsewhere/gen.go", GENERATED)
    target = "../../elsewhere" if name == "vendor" else "../../elsewhere/gen.go"
    (checkout.path / checkout.plugin / name).symlink_to(target)
    checkout.commit()

    for ref in (None, "HEAD"):
        assert refusal(request_of(checkout, baseline_ref=ref)).startswith(
            f"extensions/tiny/{name} in checkout is a link to {target}, "
        )


# A workspace ------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["extensions/tiny", "extensions", ".", ".."])
def test_a_workspace_is_refused_unless_the_user_builds_without_it(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    checkout.write(f"{place}/go.work", f"go 1.24\n\nuse {checkout.path / checkout.plugin}\n")
    inside = place != ".."
    name = os.path.normpath(f"{place}/go.work") if inside else str(tmp_path / "go.work")

    assert refusal(request_of(checkout)).startswith(f"{name} is a workspace in which ")
    source_of(request_of(checkout, baseline_ref="HEAD"))  # where it is not
    if inside:
        checkout.commit()
        told = refusal(request_of(checkout, baseline_ref="HEAD"))
        assert told.startswith(f"{name} is a workspace in which ")
    monkeypatch.setenv("GOWORK", "off")
    assert build(BASELINE, request_of(checkout)).sha256 == built_by_hand(checkout, tmp_path)


@pytest.mark.parametrize("place", ["extensions/tiny", "extensions", "."])
def test_a_workspace_that_a_patch_makes_is_refused_as_in_a_commit(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    checkout.write(f"{place}/go.work", f"go 1.24\n\nuse {checkout.path / checkout.plugin}\n")
    request = patched(checkout, tmp_path)

    told = refusal(request)
    assert told.startswith(f"{os.path.normpath(f'{place}/go.work')} is a workspace in which ")
    monkeypatch.setenv("GOWORK", "off")
    assert source_of(request, Variant.FIXED).fix


def test_a_workspace_that_a_variable_names_is_refused(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GOWORK", str(tmp_path / "my.work"))

    for ref in (None, "HEAD"):
        told = refusal(request_of(checkout, baseline_ref=ref))
        assert told.startswith(f"{tmp_path / 'my.work'} is a workspace")
    with variant_tree.taken_out(BASELINE, Request()):
        pass  # the reference is nobody's own build


# Bytes that git would convert -------------------------------------------------------------------

CONVERSIONS = {
    "eol=crlf": (b"one\r\ntwo\r\n", b"one\ntwo\n"),
    "ident": (b"$Id: 0123 $\n", b"$Id$\n"),
    "filter=upper": (b"lower\n", b"LOWER\n"),
    "working-tree-encoding=UTF-16": ("wide\n".encode("utf-16"), b"wide\n"),
}


@pytest.fixture
def converting(checkout: Checkout, request: pytest.FixtureRequest) -> Checkout:
    """An embedded file that lies there in other bytes than git stores."""
    attribute = request.param
    checkout.git("config", "filter.upper.clean", "tr a-z A-Z")
    checkout.git("config", "filter.upper.smudge", "tr A-Z a-z")
    add_embedded(checkout)
    checkout.write("extensions/.gitattributes", f"text.txt {attribute}\n")
    checkout.write(f"{checkout.plugin}/data/text.txt", CONVERSIONS[attribute][0])
    checkout.commit()
    assert checkout.git("status", "--porcelain") == ""
    return checkout


@pytest.mark.parametrize("converting", CONVERSIONS, indirect=True)
def test_the_bytes_that_lie_there_are_built_and_recorded(
    converting: Checkout, tmp_path: Path
) -> None:
    name = f"{converting.plugin}/data/text.txt"

    module = build(BASELINE, request_of(converting))

    assert module.sha256 == built_by_hand(converting, tmp_path)
    assert module.source.dirty
    assert contents(request_of(converting))[name] == (converting.path / name).read_bytes()


@pytest.mark.parametrize("converting", CONVERSIONS, indirect=True)
@pytest.mark.parametrize("by", ["ref", "bare", "url"])
def test_of_a_ref_the_stored_bytes_are_built_and_a_note_names_the_file(
    converting: Checkout, by: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    attribute = request.node.callspec.params["converting"]
    name = f"{converting.plugin}/data/text.txt"
    where = request_of(converting, baseline_ref="HEAD")
    if by != "ref":
        converting.git("clone", "--quiet", "--bare", ".", str(tmp_path / "bare.git"))
        bare = tmp_path / "bare.git"
        where = replace(where, source=bare.as_uri() if by == "url" else str(bare))

    [note] = source_of(where).notes

    assert f"{name} ({attribute if '=' in attribute else f'{attribute}=set'})" in note
    assert contents(where)[name] == CONVERSIONS[attribute][1]


def test_line_ends_that_a_setting_converts_are_built_as_they_lie(
    checkout: Checkout, tmp_path: Path
) -> None:
    add_embedded(checkout)
    checkout.write(f"{checkout.plugin}/data/text.txt", "one\ntwo\n")
    checkout.commit()
    checkout.git("config", "core.autocrlf", "true")
    checkout.write(f"{checkout.plugin}/data/text.txt", "one\r\ntwo\r\n")
    checkout.git("add", "--all")
    assert checkout.git("diff", "--cached") == ""

    assert build(BASELINE, request_of(checkout)).sha256 == built_by_hand(checkout, tmp_path)
    [note] = source_of(request_of(checkout, baseline_ref="HEAD")).notes
    assert "core.autocrlf=true" in note


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12\n"


@pytest.mark.parametrize("ref", [None, "HEAD"])
def test_a_pointer_of_git_lfs_is_refused_where_the_build_reads_it(
    checkout: Checkout, ref: str | None
) -> None:
    checkout.write(f"{checkout.plugin}/picture.png", POINTER)
    checkout.commit()
    assert contents(request_of(checkout, baseline_ref=ref))
    add_embedded(checkout)
    checkout.write(f"{checkout.plugin}/data/text.txt", POINTER)
    checkout.commit()

    told = refusal(request_of(checkout, baseline_ref=ref))

    assert told.startswith(f"{checkout.plugin}/data/text.txt in checkout is a pointer of Git LFS")


def test_a_pointer_of_git_lfs_that_a_patch_makes_is_refused_as_in_a_commit(
    checkout: Checkout, tmp_path: Path
) -> None:
    checkout.write(f"{checkout.plugin}/picture.png", POINTER)
    assert source_of(patched(checkout, tmp_path), Variant.FIXED).fix
    add_embedded(checkout)
    checkout.write(f"{checkout.plugin}/data/text.txt", POINTER)

    told = refusal(patched(checkout, tmp_path))

    assert told.startswith(f"{checkout.plugin}/data/text.txt in checkout is a pointer of Git LFS")


# Settings of git and Go -------------------------------------------------------------------------


def test_a_rename_in_case_is_seen_whatever_git_takes_for_the_same(
    checkout: Checkout, tmp_path: Path
) -> None:
    checkout.git("config", "core.ignoreCase", "true")
    folder = checkout.path / checkout.plugin
    (folder / "main.go").rename(folder / "Main.go")
    checkout.write(f"{checkout.plugin}/Main.go", "package main\n\nfunc main() { println(1) }\n")

    module = build(BASELINE, request_of(checkout))

    assert {Path(name).name for name in contents(request_of(checkout))} == {"go.mod", "Main.go"}
    assert module.sha256 == built_by_hand(checkout, tmp_path)


def test_a_file_that_git_has_no_index_of_is_as_it_lies(checkout: Checkout) -> None:
    checkout.write(".gitignore", "main.go\n")
    checkout.commit()
    (checkout.path / ".git/index").unlink()

    assert not source_of(request_of(checkout)).dirty


def test_a_checkout_that_is_said_to_be_bare_is_refused_where_its_files_would_be_passed_over(
    checkout: Checkout,
) -> None:
    checkout.git("config", "core.bare", "true")
    checkout.write(f"{checkout.plugin}/main.go", "package main\n")

    assert refusal(request_of(checkout)).startswith("core.bare is set in ")
    assert (
        b"return 41"
        in contents(request_of(checkout, baseline_ref="HEAD"))[f"{checkout.plugin}/main.go"]
    )
    for where in (checkout.path / ".git",):
        assert not source_of(request_of(checkout, source=str(where))).dirty


def test_a_work_tree_that_lies_apart_from_its_repository_is_read(
    checkout: Checkout, tmp_path: Path
) -> None:
    (checkout.path / ".git").rename(tmp_path / "apart.git")
    (checkout.path / ".git").write_text(f"gitdir: {tmp_path / 'apart.git'}\n")
    checkout.git("config", "core.worktree", str(checkout.path))
    checkout.write(f"{checkout.plugin}/main.go", "package main // changed\n")

    for where in (checkout.path, tmp_path / "apart.git"):
        found = contents(request_of(checkout, source=str(where)))
        assert (b"// changed" in found[f"{checkout.plugin}/main.go"]) is (where == checkout.path)


def test_files_that_a_sparse_checkout_left_out_are_named(checkout: Checkout) -> None:
    for each in range(5):
        checkout.write(f"{checkout.plugin}/deep/left_out{each}.go", "package deep\n")
    checkout.commit()
    checkout.git("sparse-checkout", "set", "--no-cone", f"{checkout.plugin}/*.go", "go.mod")
    checkout.git("sparse-checkout", "add", f"!{checkout.plugin}/deep/")
    assert not (checkout.path / checkout.plugin / "deep").exists()

    found = source_of(request_of(checkout))

    assert not found.dirty
    assert f"{checkout.plugin}/deep/left_out0.go" in found.notes[0]
    assert found.notes[0].endswith(" and 2 more")


def test_refs_are_taken_where_head_names_no_commit_and_the_fix_says_so(checkout: Checkout) -> None:
    checkout.git("branch", "other")
    checkout.git("checkout", "--quiet", "--orphan", "new")
    asked = request_of(checkout, baseline_ref="other", fixed_ref="other")

    fix = source_of(asked, Variant.FIXED).fix
    assert fix
    assert fix.left_out == ["the checkout, whose HEAD names no commit"]
    assert refusal(request_of(checkout)).startswith("HEAD names no commit in checkout ")


@pytest.mark.parametrize("how", ["a variable", "go env -w"])
def test_settings_of_go_that_a_build_leaves_out_are_named(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    flags = "-tags=other '-ldflags=-s -X main.token=secret' -modfile=my.mod -trimpath -v"
    if how == "a variable":
        monkeypatch.setenv("GOFLAGS", flags)
        monkeypatch.setenv("GOEXPERIMENT", "jsonv2")
    else:
        (tmp_path / "env").write_text(f"GOFLAGS={flags}\nGOEXPERIMENT=jsonv2\n")
        monkeypatch.setenv("GOENV", str(tmp_path / "env"))

    for ref in (None, "HEAD"):
        module = build(BASELINE, request_of(checkout, baseline_ref=ref))
        [note] = module.source.notes
        assert note.endswith(": GOEXPERIMENT, GOFLAGS (-tags -ldflags -modfile)")
        assert f"baseline: {note}" in module.summary
    assert source_of(Request()).notes == []


def test_flags_that_change_no_module_are_not_worth_a_note(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOFLAGS", "-buildvcs=false -modcacherw -p=2 -v")

    assert source_of(request_of(checkout)).notes == []


# A fix in a replaced folder ---------------------------------------------------------------------


def with_a_replaced_folder(checkout: Checkout) -> None:
    checkout.write(
        f"{checkout.plugin}/go.mod",
        "module tiny.example/plugin\n\ngo 1.24\n\nrequire lib.example/lib v1.0.0\n\n"
        "replace lib.example/lib => ../../lib\n",
    )
    checkout.write(
        f"{checkout.plugin}/main.go",
        'package main\n\nimport "lib.example/lib"\n\nfunc main() { println(lib.Answer) }\n',
    )
    checkout.write("lib/go.mod", "module lib.example/lib\n\ngo 1.24\n")
    checkout.write("lib/lib.go", "package lib\n\nconst Answer = 41\n")
    checkout.commit()


@pytest.mark.parametrize("by", ["patch", "ref"])
def test_a_fix_in_a_replaced_folder_makes_another_module_and_is_named(
    checkout: Checkout, tmp_path: Path, by: str
) -> None:
    with_a_replaced_folder(checkout)
    checkout.write("lib/lib.go", "package lib\n\nconst Answer = 42\n")
    checkout.write("elsewhere/notes.txt", "no part of the build\n")
    checkout.commit()
    (tmp_path / "fix.patch").write_text(checkout.git("diff", "HEAD~1") + "\n")
    fix = {"fixed_patch": tmp_path / "fix.patch"} if by == "patch" else {"fixed_ref": "HEAD"}
    asked = request_of(checkout, baseline_ref="HEAD~1", **fix)

    baseline, fixed = build(BASELINE, asked), build(FIXED, asked)

    assert fixed.sha256 == built_by_hand(checkout, tmp_path) != baseline.sha256
    assert fixed.source.fix is not None
    assert fixed.source.fix.folders == ["lib"]
    assert "fixed: fix: it changes lib" in fixed.summary


# The reference ----------------------------------------------------------------------------------


@pytest.fixture
def reference(tmp_path: Path, make_checkout: MakeCheckout) -> Checkout:
    checkout = make_checkout(tmp_path / "proxy")
    folder = checkout.path / checkout.plugin
    shutil.rmtree(folder)
    shutil.copytree(cache.PROJECT / REFERENCE_PLUGIN, folder)
    checkout.commit()
    return checkout


def test_the_reference_with_a_staged_an_ignored_and_a_converted_file_is_built_as_it_lies(
    reference: Checkout, tmp_path: Path
) -> None:
    plugin = reference.plugin
    before = build(BASELINE, request_of(reference))
    assert before.sha256 == built_by_hand(reference, tmp_path)
    reference.write(f"{plugin}/.gitignore", "*\n!*.go\nzz_gen.go\n")
    reference.write(".gitattributes", "*.txt eol=crlf\n")
    reference.write(f"{plugin}/provider/zz_embed.go", EMBEDDING.replace("main", "provider"))
    reference.git("add", "--force", ".gitattributes", plugin)
    reference.git("commit", "--quiet", "--message=rules")
    reference.write(f"{plugin}/provider/data/text.txt", "one\r\ntwo\r\n")
    reference.git("add", "--force", plugin)
    reference.write(f"{plugin}/zz_gen.go", GENERATED)

    module = build(BASELINE, request_of(reference))

    assert module.sha256 == built_by_hand(reference, tmp_path) != before.sha256
    assert like(reference, module, tmp_path / "other").sha256 == module.sha256
