"""What GitHub Actions is told: a summary of the step, and an annotation for what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from markdown_it import MarkdownIt

from sessions.evidence.report import github, terminal_report
from tests.unit.evidence import pairs
from tests.unit.evidence.pairs import CONTROLS, TAGS
from tests.unit.evidence.runs import module
from wasm.records import Variant

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_summary_says_the_verdict_the_cells_and_the_modules() -> None:
    lines = github.summary(pairs.refuted().comparison).splitlines()
    assert lines[:4] == [
        "### ✗ gateway-proof: refuted",
        "",
        (
            "- fixed: kling-text-to-video/retry/1: expected no check to fail, failed: retry_path, "
            "retry_body, client_status, client_body."
        ),
        (
            "- fixed: kling-text-to-video/retry/2: expected no check to fail, failed: "
            "attempt_count, retry_key, retry_method, retry_path, retry_body, retry_headers, "
            "client_status, client_body."
        ),
    ]
    assert lines[4].startswith("- fixed: the repeats of kling-text-to-video/retry disagree: ")
    assert lines[5:7] == ["- Go's tests: not run.", ""]
    assert (
        "Seen in `envoy, Envoy 1.40.0, engine process`. Not release evidence for Higress' gateway, "
        "since:"
    ) in lines
    assert "- the gateway was not Higress' pinned image, run unmodified." in lines
    assert "- each cell was run 2 times, and release evidence needs 3 times." in lines
    assert lines[lines.index("| case | mode | baseline | fixed |") + 2] == (
        "| `kling-text-to-video` | retry | ✗ 2 mismatch, as declared | "
        "✗ 2 mismatch, not as declared |"
    )
    assert any(module(Variant.FIXED).sha256 in line for line in lines)


def test_it_is_appended_to_what_the_step_has_written_already(tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    file.write_text("before\n")
    github.tell(pairs.proven().comparison, {github.SUMMARY: str(file)})
    assert file.read_text().startswith("before\n### ✓ gateway-proof: proven\n")


def test_a_summary_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    github.tell(pairs.proven().comparison, {github.SUMMARY: str(tmp_path)})


def test_without_github_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    github.tell(pairs.refuted().comparison, {})
    assert capsys.readouterr().out == ""


def test_what_failed_becomes_an_annotation_each_above_the_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(github.ACTIONS, "true")
    monkeypatch.delenv(github.SUMMARY, raising=False)
    terminal_report.show(pairs.refuted().comparison, tmp_path)
    lines = capsys.readouterr().out.splitlines()
    *cells, repeats = [line for line in lines if line.startswith("::")]
    assert "disagree" in repeats
    assert cells == [
        (
            "::error title=refuted::fixed: kling-text-to-video/retry/1: expected no check to fail, "
            "failed: retry_path, retry_body, client_status, client_body"
        ),
        (
            "::error title=refuted::fixed: kling-text-to-video/retry/2: expected no check to fail, "
            "failed: attempt_count, retry_key, retry_method, retry_path, retry_body, "
            "retry_headers, client_status, client_body"
        ),
    ]
    assert lines[-1].startswith("refuted: fixed: kling-text-to-video/retry/1: ")


def test_a_proven_pair_has_no_annotation() -> None:
    assert github.error_lines(pairs.proven().comparison) == ()


def test_a_hostile_reason_is_one_annotation_and_no_command_of_its_own() -> None:
    told = msgspec.structs.replace(
        pairs.refuted().comparison, reasons=("100%\n::stop-commands::x\r\u202e",)
    )
    assert github.error_lines(told) == (
        "::error title=refuted::100%25⟨U+000A⟩::stop-commands::x⟨U+000D⟩⟨U+202E⟩",
    )


def test_a_hostile_comparison_is_nothing_but_text() -> None:
    text = github.summary(pairs.hostile().comparison)
    assert not any(control in text for control in CONTROLS)
    seen = [
        token
        for block in MarkdownIt("commonmark").enable("table").parse(text)
        for token in (block, *(block.children or ()))
    ]
    assert not {t.type for t in seen} & {"html_block", "html_inline", "link_open", "image"}
    assert any(TAGS[:20] in token.content for token in seen if token.type == "code_inline")


def test_thousands_of_rows_stay_far_below_what_github_takes() -> None:
    text = github.summary(pairs.many(1000, 1).comparison)
    assert len(text) < 100_000
    assert "| and 1,800 more | | | |" in text
    table = [line for line in text.splitlines() if line.startswith("| `")]
    assert table[0].startswith("| `survey-0999` | retry ")
