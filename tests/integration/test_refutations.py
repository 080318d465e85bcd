"""What must never be proven: a wrong fix, and a baseline that fails for another reason."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sessions.matrix.case import BUNDLED
from tests.integration.running import PROJECT
from wasm import retry_identity

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.running import Session

    Start = Callable[..., Session]
    Report = Callable[..., tuple[int, dict[str, Any], str]]
    Both = tuple[Session, Session]

pytestmark = pytest.mark.timeout(120)

PLUGIN = "wasm/go/reference"
CLAIMED = "retry_path, retry_body, client_status, client_body"
LONG = ("--case=kling-text-to-video", "--repeat=150")


def git(repository: Path, *argv: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.invalid")
    return subprocess.run(
        ["git", "-C", repository, *identity, *argv], capture_output=True, text=True, check=True
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A committed copy of the reference plugin, in a repository of its own."""
    folder = tmp_path / "repository"
    shutil.copytree(PROJECT / PLUGIN, folder / PLUGIN)
    git(tmp_path, "init", "--quiet", str(folder))
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=the baseline")
    return folder


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
    rules = [
        replace(rule, rewrite={"PROVIDER": f"$PROVIDER, {retry_identity.CHAT}"})
        if rule.id == "retry-passes-its-api-name"
        else rule
        for rule in retry_identity.RULES
    ]
    assert rules != list(retry_identity.RULES)
    for name, content in retry_identity.fix(repository / PLUGIN, rules).files.items():
        (repository / PLUGIN / name).write_bytes(content)
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
    assert words == f"error: refuted: {comparison['reasons'][0]}"
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
    assert words == f"error: refuted: {found[0]}"
    finding = found[0].removeprefix("baseline: ")
    assert baseline.last_words.endswith(f" cells are not as declared, first {finding}")
