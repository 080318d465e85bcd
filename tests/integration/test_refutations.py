"""What must never be proven: a wrong fix, and a baseline that fails for another reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from sessions.matrix.case import BUNDLED
from tests.integration.running import PLUGIN, git, write_fix
from wasm.fix_4396 import retry_identity

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.running import Session

    Start = Callable[..., Session]
    Report = Callable[..., tuple[int, dict[str, Any], str]]
    Both = tuple[Session, Session]

pytestmark = pytest.mark.timeout(120)

CLAIMED = "retry_path, retry_body, client_status, client_body"
LONG = ("--case=kling-text-to-video", "--repeat=150")


@pytest.fixture
def cases(tmp_path: Path) -> Callable[..., Path]:
    """Give a function that writes one bundled case, some of its text replaced."""

    def written(**replaced: tuple[str, str]) -> Path:
        folder = tmp_path / "cases"
        folder.mkdir()
        text = (BUNDLED / "kling-text-to-video.toml").read_text()
        for old, new in replaced.values():
            assert old in text
            text = text.replace(old, new)
        (folder / "case.toml").write_text(text)
        return folder

    return written


# --- Two wrong fixes ----------------------------------------------------------------------------


def test_a_fix_whose_retry_still_passes_chat_completions_is_refuted(
    start: Start, report: Report, both: Both, repository: Path, tmp_path: Path
) -> None:
    write_fix(repository, retry_identity.CHAT)
    patch = tmp_path / "wrong.patch"
    patch.write_text(git(repository, "diff"))
    fixed = start("fixed", tmp_path / "fixed", f"--fixed-patch={patch}")
    assert fixed.wait() != 0
    assert fixed.last_words == (
        "error: fixed: 6 of 18 cells are not as declared, first kling-image-to-video/retry/1: "
        f"expected no check to fail, failed: {CLAIMED}"
    )
    status, comparison, words = report(tmp_path, both[0], fixed)
    assert status != 0
    assert comparison["verdict"] == "refuted"
    assert comparison["reasons"] == [
        "fixed: kling-image-to-video/retry/1, kling-text-to-video/retry/1, "
        "kling-image-to-video/retry/2 and 3 more: expected no check to fail, failed: " + CLAIMED
    ]
    assert words == f"error: refuted: {comparison['reasons'][0]}; Go's tests: not run"
    assert comparison["modules"]["baseline"]["sha256"] != comparison["modules"]["fixed"]["sha256"]


def test_a_fix_that_is_the_baseline_again_is_refuted(
    start: Start, report: Report, repository: Path, tmp_path: Path
) -> None:
    options = (f"--source={repository}", f"--plugin={PLUGIN}", "--fixed-ref=HEAD")
    baseline = start("baseline", tmp_path / "baseline", *options)
    fixed = start("fixed", tmp_path / "fixed", *options)
    assert baseline.wait() == 0, baseline.stderr
    assert fixed.wait() != 0
    assert fixed.last_words.startswith("error: fixed: 6 of 18 cells are not as declared, first ")
    status, comparison, _ = report(tmp_path, baseline, fixed)
    assert status != 0
    assert comparison["verdict"] == "refuted"
    assert "kling-image-to-video/retry/1, kling-text-to-video/retry/1" in comparison["reasons"][0]
    assert comparison["counts"]["fixed"]["mismatch"] == 6
    assert comparison["modules"]["baseline"]["sha256"] == comparison["modules"]["fixed"]["sha256"]


# --- The fix that was applied, and what lies in the checkout beside it ---------------------------

SHORT = ("--case=kling-text-to-video", "--repeat=1")


def test_a_verdict_names_the_fix_that_was_applied_and_what_is_no_part_of_it(
    start: Start, report: Report, repository: Path, tmp_path: Path
) -> None:
    """The checkout's own fix is none; what is proven without naming it is the built-in one."""
    git(repository, "branch", "--move", "main")
    git(repository, "checkout", "--quiet", "-b", "fix")
    with (repository / PLUGIN / "main.go").open("a") as file:
        file.write("\n// A comment is no fix.\n")
    git(repository, "commit", "--quiet", "--all", "--message=no fix")
    head = git(repository, "rev-parse", "HEAD")[:12]
    (repository / PLUGIN / "more.go").write_text("package main\n")
    options = (f"--source={repository}", f"--plugin={PLUGIN}", "--baseline-ref=main", *SHORT)

    baseline = start("baseline", tmp_path / "baseline", *options)
    fixed = start("fixed", tmp_path / "fixed", *options)
    mine = start("fixed", tmp_path / "mine", *options, "--fixed-worktree")
    assert [each.wait() == 0 for each in (baseline, fixed, mine)] == [True, True, False]

    _, comparison, _ = report(tmp_path / "one", baseline, fixed)
    assert comparison["verdict"] == "proven"
    assert comparison["modules"]["fixed"]["fix"] == (
        f"the built-in fix higress-4396; not part of it: HEAD ({head}), 1 uncommitted file"
    )
    assert f"fixed: fix: {comparison['modules']['fixed']['fix']}" in fixed.stderr
    _, comparison, _ = report(tmp_path / "other", baseline, mine)
    assert comparison["verdict"] == "refuted"
    assert comparison["modules"]["fixed"]["fix"] == "the work tree"


def test_a_fix_in_the_work_tree_is_proven_when_that_is_the_fixed_variant(
    start: Start, report: Report, repository: Path, tmp_path: Path
) -> None:
    for name, content in retry_identity.fix(repository / PLUGIN).files.items():
        (repository / PLUGIN / name).write_bytes(content)
    options = (f"--source={repository}", f"--plugin={PLUGIN}", "--baseline-ref=HEAD", *SHORT)
    baseline = start("baseline", tmp_path / "baseline", *options, "--fixed-worktree")
    fixed = start("fixed", tmp_path / "fixed", *options, "--fixed-worktree")
    assert [baseline.wait(), fixed.wait()] == [0, 0]
    status, comparison, _ = report(tmp_path, baseline, fixed)
    assert (status, comparison["verdict"]) == (0, "proven")
    fix = fixed.read()[0].module.source.fix
    assert fix is not None
    assert (fix.origin.kind, fix.left_out) == ("work tree", [])


@pytest.mark.parametrize("by_ref", [True, False], ids=["ref", "patch"])
def test_a_series_that_switches_its_fix_off_again_is_refuted_or_refused(
    start: Start, report: Report, repository: Path, tmp_path: Path, *, by_ref: bool
) -> None:
    """T21 (e): its first commit adds the fix behind a file, its second deletes that file."""
    base = git(repository, "rev-parse", "HEAD").strip()
    write_fix(repository, "kept(apiName)")
    provider = repository / PLUGIN / "provider"
    (provider / "kept.go").write_text(
        f"package provider\n\nvar keeps bool\n\nfunc kept(name ApiName) ApiName {{\n\tif keeps {{"
        f"\n\t\treturn name\n\t}}\n\treturn {retry_identity.CHAT}\n}}\n"
    )
    switch = provider / "switch.go"
    switch.write_text("package provider\n\nfunc init() { keeps = true }\n")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message=a fix")
    switch.unlink()
    git(repository, "commit", "--quiet", "--all", "--message=no fix")
    series = tmp_path / "series.patch"
    series.write_text(git(repository, "format-patch", "--stdout", base))
    tip = git(repository, "rev-parse", "HEAD").strip()

    fix = f"--fixed-ref={tip}" if by_ref else f"--fixed-patch={series}"
    options = (f"--source={repository}", f"--plugin={PLUGIN}", f"--baseline-ref={base}", *SHORT)
    baseline = start("baseline", tmp_path / "baseline", *options, fix)
    if not by_ref:
        assert baseline.wait() == 2
        assert "holds 2 commits; " in baseline.last_words
        assert f"`git diff --binary {base[:12]} {tip[:12]} > one.patch`" in baseline.last_words
        return
    fixed = start("fixed", tmp_path / "fixed", *options, fix)
    assert [baseline.wait() == 0, fixed.wait() == 0] == [True, False]
    assert report(tmp_path, baseline, fixed)[1]["verdict"] == "refuted"


# --- A baseline that fails for another reason ---------------------------------------------------


@pytest.fixture(scope="module")
def long_fixed(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A fixed run that is long enough for its baseline to be disturbed."""
    session = start("fixed", tmp_path_factory.mktemp("fixed"), *LONG)
    assert session.wait() == 0, session.stderr
    return session


@pytest.mark.parametrize(("name", "said"), [("envoy", "gateway"), ("upstream", "upstream")])
def test_a_gateway_or_upstream_killed_in_mid_run_is_no_reproduction(  # noqa: PLR0913 - fixtures
    start: Start, report: Report, long_fixed: Session, tmp_path: Path, *, name: str, said: str
) -> None:
    baseline = start("baseline", tmp_path / "baseline", *LONG)
    child = baseline.child(name)
    baseline.runs_cells()
    child.kill()
    assert baseline.wait() != 0
    ended = f"the {said} was ended by SIGKILL before the matrix was done"
    assert re.fullmatch(
        r"error: baseline: \d+ of 300 cells are not as declared, first "
        rf"kling-text-to-video/(retry|direct)/\d+: inconclusive: {ended}(; its last log line: .+)?",
        baseline.last_words,
    )
    _, results = baseline.read()
    silent = [result for result in results if not result.as_declared]
    assert 0 < len(silent) < 300
    assert {result.verdict for result in silent} == {"inconclusive"}
    status, comparison, words = report(tmp_path, baseline, long_fixed)
    assert status != 0
    assert comparison["verdict"] == "inconclusive"
    assert f"{len(silent)} of 300 cells" in words
    assert ended in words


def test_an_upstream_that_always_fails_is_no_reproduction(
    start: Start, report: Report, cases: Callable[..., Path], tmp_path: Path
) -> None:
    folder = cases(
        failure=("[failure]\nstatus = 503", "[failure]\nstatus = 500"),
        success=("[success]\nstatus = 200", "[success]\nstatus = 500"),
    )
    failed = (
        "attempt_count, retry_key, retry_method, retry_path, retry_body, retry_headers, "
        "client_status, client_body"
    )
    refuted(start, report, folder, tmp_path, failed)


def test_a_plugin_with_one_key_only_is_no_reproduction(
    start: Start, report: Report, cases: Callable[..., Path], tmp_path: Path
) -> None:
    one, two = '["dummy-key-a"]', '["dummy-key-a", "dummy-key-b"]'
    folder = cases(keys=(f"keys = {two}", f"keys = {one}"), tokens=(f"s = {two}", f"s = {one}"))
    failed = (
        "attempt_count, retry_key, retry_method, retry_path, retry_body, retry_headers, "
        "client_status, client_body"
    )
    refuted(start, report, folder, tmp_path, failed)


def refuted(start: Start, report: Report, cases: Path, tmp_path: Path, failed: str) -> None:
    """Run both variants on some cases: neither is as declared, in its retry for these checks."""
    options = (f"--cases={cases}", "--repeat=1")
    baseline = start("baseline", tmp_path / "baseline", *options)
    fixed = start("fixed", tmp_path / "fixed", *options)
    assert baseline.wait() != 0
    assert fixed.wait() != 0
    reason = re.compile(
        r"baseline: kling-text-to-video/retry/1: expected (.+) to fail, failed: (.+)"
    )
    status, comparison, words = report(tmp_path, baseline, fixed)
    assert status != 0
    assert comparison["verdict"] == "refuted"
    found = re.fullmatch(reason, comparison["reasons"][0])
    assert found
    assert sorted(found[1].split(", ")) == sorted(CLAIMED.split(", "))
    assert found[2] == failed
    assert words == f"error: refuted: {found[0]}; Go's tests: not run"
    finding = found[0].removeprefix("baseline: ")
    assert baseline.last_words.endswith(f" cells are not as declared, first {finding}")
