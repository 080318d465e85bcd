"""The patch, made once from the reference plugin and then looked at from all sides."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from wasm import __main__ as command
from wasm.fix_4396 import patch
from wasm.fix_4396.patch import PatchRecord
from wasm.fix_4396.retry_identity import RULES
from wasm.foundation.errors import BuildError, MisfitError, SourceError
from wasm.golang import go_vet, toolchain
from wasm.records import Patch, Variant
from wasm.source import variant_tree
from wasm.source.variant_tree import Request

if TYPE_CHECKING:
    from tests.unit.wasm.conftest import RunWasm

PROJECT = Path(__file__).resolve().parents[3]
PLUGIN = "wasm/go/reference"
ADDED = [
    f"{PLUGIN}/provider/retry_api_identity_signature_test.go",
    f"{PLUGIN}/provider/retry_api_identity_test.go",
    f"{PLUGIN}/retry_api_identity_test.go",
]
CHANGED = [f"{PLUGIN}/provider/failover.go", f"{PLUGIN}/provider/retry.go"]


@dataclass(frozen=True)
class Made:
    """A patch that was made, its record, and what was said meanwhile."""

    content: bytes
    record: PatchRecord
    said: list[str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GATEWAY_PROOF_CACHE", str(tmp_path_factory.mktemp("cache")))
        content, record = patch.make(Request(), said.append)
    return Made(content, record, said)


@pytest.fixture
def applied(tmp_path: Path, made: Made) -> Path:
    """The root of a repository with the reference plugin, after ``git apply`` there."""
    root = tmp_path / "root"
    with variant_tree.taken_out(Variant.BASELINE, Request()) as tree:
        shutil.copytree(tree.root, root)
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    for options in (["--check"], []):
        subprocess.run(["git", "apply", *options], input=made.content, cwd=root, check=True)
    return root


def test_git_apply_takes_it_at_the_root_and_the_tree_is_the_fixed_one_with_the_tests(
    applied: Path, made: Made
) -> None:
    with variant_tree.taken_out(Variant.FIXED, Request()) as fixed:
        files = [path for path in fixed.root.rglob("*") if path.is_file()]
        before = {path.relative_to(fixed.root) for path in files}
        for name in before:
            assert (applied / name).read_bytes() == (fixed.root / name).read_bytes()
    after = {path.relative_to(applied) for path in (applied / "wasm").rglob("*") if path.is_file()}
    assert sorted(str(path) for path in after - before) == ADDED == made.record.added
    assert made.record.changed == CHANGED
    for added in ADDED:
        ours = PROJECT / "wasm/go/regression" / Path(added).relative_to(PLUGIN)
        assert (applied / added).read_bytes() == ours.read_bytes()


def test_it_says_how_many_places_of_each_rule_it_changed(made: Made) -> None:
    assert made.record.places == {rule.id: 1 for rule in RULES}
    assert made.said[:7] == [f"{rule.id}: 1 place: {rule.says}" for rule in RULES]
    assert made.said[7:10] == [
        "git apply: 2 files changed, 3 added, as was meant",
        "go vet: 0 new findings, 0 the baseline's",
        "gofmt -l: 0 new findings, 0 the baseline's",
    ]


def test_tests_are_told_apart_by_what_they_showed_on_both_sides(made: Made) -> None:
    tests = made.record.tests
    for mode in ("native/go", "module/wasm"):
        assert f"TestRetryApiIdentity/{mode}/Kling_text_video" in tests.fail_to_pass
        assert f"TestRetryApiIdentity/{mode}/Kling_image_video" in tests.fail_to_pass
        assert f"TestRetryApiIdentity/{mode}/OpenAI_Chat_Completions" in tests.pass_to_pass
    each = "provider.TestRetryApiIdentityOfEachTransform"
    for double in ("headers_and_default_body", "body", "body_and_headers"):
        assert f"{each}/{double}/videos" in tests.fail_to_pass
        assert f"{each}/{double}/chat_completions" in tests.pass_to_pass
    for double in ("body", "body_and_headers"):
        health_check = f"provider.TestRetryApiIdentityOfTheHealthCheck/{double}"
        assert health_check in tests.pass_to_pass
    assert all("OfTheHelper" in name for name in tests.only_with_the_fix)
    assert (len(tests.fail_to_pass), len(tests.pass_to_pass)) == (27, 19)
    assert len(tests.only_with_the_fix) == 7
    assert f"  {tests.fail_to_pass[0]}" in made.said


def test_its_description_states_scope_and_what_becomes_of_a_base_path(made: Made) -> None:
    description = made.content.decode().partition("diff --git ")[0]
    for rule in RULES:
        assert f"  {rule.says} (1)\n" in description
    words = " ".join(description.split())
    assert "a retry is sent as POST whatever the method of its request" in words
    assert "Of neighbouring pull requests (4552, 3882) it has nothing." in words
    lost = [f"/v1/videos/{kind}?trace=1" for kind in ("text2video", "image2video")]
    assert f"on this source the retry goes to {lost[0]} and {lost[1]} without it." in words
    assert "before the transform of body and headers, and again after it" in words
    assert 'headers.Set(":path", c.applyProviderBasePath(path))' in words
    assert "The proposal is #4718." in words
    assert "the content type of a retry is JSON, even where its body is a multipart form" in words
    assert f"Made from {PLUGIN}" in description
    assert "27 of them fail before and pass after, 19 pass before and after, and 7 need" in words


def test_its_record_names_the_very_bytes(made: Made) -> None:
    assert made.record.sha256 == Patch.of(made.content).sha256
    assert made.record.source.plugin == PLUGIN
    assert made.record.base_path == {
        f"/v1/videos/{kind}?trace=1": False for kind in ("text2video", "image2video")
    }


TEXT, IMAGE = "/v1/videos/text2video", "/v1/videos/image2video"


@pytest.mark.parametrize(
    ("base_path", "kept", "lost"),
    [
        ({TEXT: False, IMAGE: False}, None, f"{TEXT} and {IMAGE}"),
        ({TEXT: False, f"/base{IMAGE}": True}, f"/base{IMAGE}", TEXT),
        ({f"/base{TEXT}": True}, f"/base{TEXT}", None),
    ],
)
def test_what_becomes_of_a_base_path_is_said_of_each_kind_of_video(
    base_path: dict[str, bool], kept: str | None, lost: str | None
) -> None:
    before = {"/base/v1/chat": True}
    told = " ".join(patch._on_base_path(before, base_path).split())
    assert ("Without this patch the retry went to /base/v1/chat." in told) is (lost is not None)
    assert (f"on this source the retry keeps it ({kept})." in told) is (kept is not None)
    assert (f"on this source the retry goes to {lost} without it." in told) is (lost is not None)
    assert told.count("on this source") == sum(each is not None for each in (kept, lost))


@pytest.mark.parametrize("told", [({}, {TEXT: False}), ({TEXT: False}, {})])
def test_a_run_that_tells_nothing_of_a_base_path_makes_no_patch(
    told: tuple[dict[str, bool], dict[str, bool]],
) -> None:
    with pytest.raises(BuildError) as refused:
        patch._on_base_path(*told)
    assert str(refused.value) == (
        "no regression test told what becomes of a providerBasePath; expected a line of "
        "TestRetryApiIdentityOfKlingWithABasePath for each kind of video; look at what it logs"
    )


ADVICE = "name a --baseline-ref that the built-in fix fits, which is what this session is about"


@pytest.mark.parametrize(
    ("found", "advice"),
    [
        ("no helper", "give the fix by --fixed-ref or --fixed-patch"),
        ("fixed already; twice", "use --baseline-ref and --fixed-ref to compare two commits"),
        ("a test", "give the fix together with its tests by --fixed-ref or --fixed-patch"),
    ],
)
def test_no_option_is_advised_that_the_session_does_not_take(
    tmp_path: Path, found: str, advice: str
) -> None:
    with pytest.raises(SourceError) as refused, patch.advised(tmp_path):
        raise MisfitError(f"{tmp_path}/provider: {found}", detail="seen", advice=advice)
    assert str(refused.value) == f"provider: {found}; {ADVICE}"
    assert refused.value.detail == "seen"


def test_advice_that_the_session_takes_stays_as_it_is() -> None:
    with pytest.raises(SourceError) as refused, patch.advised():
        raise SourceError("two fixes were given; leave out; --fixed-ref", advice="do it")
    assert str(refused.value) == "two fixes were given; leave out; --fixed-ref; do it"


def test_advice_that_the_session_takes_names_no_folder_of_ours_either(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as refused, patch.advised(tmp_path):
        raise SourceError(f"{tmp_path}/a.go does not parse", detail="seen", advice="correct it")
    assert str(refused.value) == "a.go does not parse; correct it"
    assert (refused.value.detail, refused.value.advice) == ("seen", "correct it")


@pytest.mark.parametrize(
    ("option", "request_"),
    [
        ("--fixed-ref", Request(fixed_ref="v2")),
        ("--fixed-patch", Request(fixed_patch=Path("other.patch"))),
    ],
)
def test_another_fix_is_refused(option: str, request_: Request) -> None:
    with pytest.raises(SourceError) as refused:
        patch.make(request_, print)
    assert str(refused.value) == (
        f"{option} was given; expected the built-in fix for #4396, which this session is about; "
        "leave it out"
    )


def test_a_source_that_the_fix_does_not_fit_leaves_no_patch(
    run_wasm: RunWasm, tmp_path: Path, applied: Path
) -> None:
    for done in (["add", "--all"], ["commit", "--quiet", "--message=fixed"]):
        subprocess.run(["git", *done], cwd=applied, check=True)
    output = tmp_path / "patches" / "p.patch"
    ended = run_wasm("patch", f"--output={output}", f"--source={applied}", f"--plugin={PLUGIN}")
    assert ended.status == 2
    assert ended.last_line.startswith("error: provider/failover.go:"), ended.stderr
    assert "already carries the fix for #4396" in ended.last_line
    assert ended.last_line.endswith(f"takes an ApiName; {ADVICE}")
    assert not output.parent.exists()


def test_findings_are_the_same_wherever_they_are(tmp_path: Path) -> None:
    go = toolchain.locate()
    (tmp_path / "go.mod").write_text("module tiny.example/plugin\n\ngo 1.24\n")
    text = 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Printf("%d", "x") }\n'
    (tmp_path / "main.go").write_text(text)
    before = go_vet.vet(go, tmp_path)
    (tmp_path / "main.go").write_text(text.replace('import "fmt"', '\n\nimport "fmt"'))
    assert go_vet.vet(go, tmp_path) == before != frozenset()
    assert go_vet.unformatted(go, tmp_path) == {"main.go"}
    again = text.replace('"x") }', '"x"); fmt.Printf("%d", "x") }')
    (tmp_path / "main.go").write_text(again)
    [new] = go_vet.vet(go, tmp_path) - before
    [old] = before
    assert new == f"{old} (2)"
    (tmp_path / "main.go").write_text("package main\n\nfunc main() {\n")
    with pytest.raises(BuildError, match=r"gofmt could not read the tree: .*main\.go"):
        go_vet.unformatted(go, tmp_path)


def test_new_findings_refuse_the_patch(tmp_path: Path) -> None:
    trees = []
    for name, line in (("before", "x := 1"), ("after", "x  :=  1")):
        with variant_tree.taken_out(Variant.BASELINE, Request()) as tree:
            (tmp_path / name).mkdir()
            moved = type(tree)(root=tmp_path / name, source=tree.source)
        moved.plugin.mkdir(parents=True)
        (moved.plugin / "go.mod").write_text("module tiny.example/plugin\n\ngo 1.24\n")
        (moved.plugin / "main.go").write_text(
            f"package main\n\nfunc main() {{\n\t{line}\n\t_ = x\n}}\n"
        )
        trees.append(moved)
    with pytest.raises(BuildError) as refused:
        patch._findings(toolchain.locate(), trees[0], trees[1], lambda _: None)
    assert str(refused.value) == (
        "gofmt -l finds 1 things after the patch that the baseline does not have; expected none; "
        "see the lines above"
    )
    assert refused.value.detail == "main.go"


def test_the_command_writes_the_patch_and_beside_it_its_record(
    made: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(patch, "make", lambda *_: (made.content, made.record))
    output = tmp_path / "patches" / "p.patch"
    command.main(["patch", f"--output={output}"])
    assert output.read_bytes() == made.content
    record = msgspec.json.decode(output.with_suffix(".json").read_bytes(), type=PatchRecord)
    assert record == made.record
    assert capsys.readouterr().out == f"patch {output}\n      SHA-256 {made.record.sha256}\n"
