"""What a person sees of a comparison: in a terminal of 80 or 120 columns, and piped."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from sessions.evidence.pair.compare import compare
from sessions.evidence.report import terminal_report
from tests.unit.evidence import pairs
from tests.unit.evidence.runs import GONE, module, results, run
from tests.unit.matrix.observations import KLING, defective
from tests.unit.matrix.observations import result as result_of
from wasm.records import Variant

if TYPE_CHECKING:
    from sessions.evidence.record.records import Comparison
    from sessions.matrix.records import Result

B, F = Variant.BASELINE, Variant.FIXED
BUNDLE = Path("/evidence/bundles/20260101T000000Z-abcdef")
FOUR = "retry_path, retry_body, client_status, client_body"


def compared(fixed: list[Result] | None = None) -> Comparison:
    return compare(run(B), results(B), run(F), fixed or results(F), cleanup=GONE)


def piped(comparison: Comparison, capsys: pytest.CaptureFixture[str]) -> list[str]:
    terminal_report.show(comparison, BUNDLE)
    return capsys.readouterr().out.splitlines()


def in_a_terminal(
    comparison: Comparison, columns: int, monkeypatch: pytest.MonkeyPatch, no_color: str
) -> str:
    """What is written to a real terminal of some width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    for name in ("COLUMNS", "LINES", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        # Rich asks these three for the width; the terminal is ours alone.
        for stream in ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__"):
            monkeypatch.setattr(sys, stream, terminal)
        terminal_report.show(comparison, BUNDLE)
        monkeypatch.undo()
    shown = b""
    # Once the terminal is closed and read to its end, reading it is an error.
    with contextlib.suppress(OSError):
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    return shown.decode()


PROVEN = [
    "case                  mode     baseline     fixed",
    "kling-text-to-video   retry    2 mismatch   2 pass",
    f"  baseline, as declared: {FOUR}",
    "kling-text-to-video   direct   2 pass       2 pass",
    "openai-chat           retry    2 pass       2 pass",
    "openai-chat           direct   2 pass       2 pass",
    "",
    "baseline  8 cells: 6 pass, 2 mismatch, 0 inconclusive",
    "  run     20260101T000000Z-baseline-000000",
    f"  module  {module(B).sha256}",
    "fixed     8 cells: 8 pass, 0 mismatch, 0 inconclusive",
    "  run     20260101T000000Z-fixed-000000",
    f"  module  {module(F).sha256}",
    "  fix     the built-in fix higress-4396",
    "Go        go1.26.8: the toolchain line of its go.mod",
    "gateway   envoy, Envoy 1.40.0, engine process",
    "          not release evidence for Higress' gateway, since",
    "            the gateway was not Higress' pinned image, run unmodified",
    "            each cell was run 2 times, and release evidence needs 3 times",
    "evidence  /evidence/bundles/20260101T000000Z-abcdef",
    "report    /evidence/bundles/20260101T000000Z-abcdef/report.html",
    "",
]


def test_piped_it_is_plain_text_a_sentence_a_line_and_the_verdict_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = piped(compared(), capsys)
    assert lines[:-1] == PROVEN
    assert lines[-1] == (
        "proven: the baseline failed in 2 of 8 cells, in each for exactly the declared checks, and "
        "held in all others; the fixed module held in all 8; Go's tests: not run"
    )


def test_piped_it_is_the_same_whatever_the_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = piped(compared(), capsys)
    monkeypatch.setenv("COLUMNS", "30")
    assert piped(compared(), capsys) == wide


def test_what_does_not_fit_breaks_between_words_and_goes_on_further_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = msgspec.structs.replace(defective(KLING), attempts=())
    wrong = result_of(KLING, results(F)[0].cell.mode, F, seen)
    shown = in_a_terminal(compared([wrong, *results(F)[1:]]), 80, monkeypatch, no_color="1")
    assert shown.replace("\r", "").splitlines()[3:6] == [
        "  fixed, not declared: attempt_count, first_key, first_method, first_path,",
        "    first_body, retry_key, retry_method, retry_path, retry_body, retry_headers,",
        "    client_status, client_body",
    ]


@pytest.mark.parametrize("columns", [80, 120])
def test_in_a_terminal_no_line_is_longer_than_it_is_wide(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = in_a_terminal(compared(), columns, monkeypatch, no_color="1").split("\r\n")
    assert lines[: len(PROVEN)] == PROVEN
    assert max(map(len, lines)) <= columns
    sentence = " ".join(line.strip() for line in lines[len(PROVEN) :]).strip()
    assert sentence.startswith("proven: the baseline failed in 2 of 8 cells, in each for exactly")
    assert sentence.endswith("the fixed module held in all 8; Go's tests: not run")


def test_a_terminal_gets_colours_and_with_no_color_no_escape_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "\x1b[" in in_a_terminal(compared(), 80, monkeypatch, no_color="")
    assert "\x1b" not in in_a_terminal(compared(), 80, monkeypatch, no_color="1")


def test_a_name_longer_than_the_terminal_is_neither_folded_nor_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "-".join(["a-very-long-name"] * 6)
    comparison = compared()
    cells = [msgspec.structs.replace(pair, case=name) for pair in comparison.cells[:1]]
    longer = msgspec.structs.replace(comparison, cells=tuple(cells))
    assert name in in_a_terminal(longer, 80, monkeypatch, no_color="1")


def test_a_contradiction_is_told_apart_from_what_was_declared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong = result_of(KLING, results(F)[0].cell.mode, F, defective(KLING))
    lines = piped(compared([wrong, *results(F)[1:]]), capsys)
    assert lines[1:5] == [
        "kling-text-to-video   retry    2 mismatch   1 mismatch, 1 pass",
        f"  baseline, as declared: {FOUR}",
        f"  fixed, not declared: {FOUR}",
        "kling-text-to-video   direct   2 pass       2 pass",
    ]
    assert lines[-1] == (
        "refuted: fixed: kling-text-to-video/retry/1: expected no check to fail, failed: "
        f"{FOUR}; Go's tests: not run"
    )


def test_what_was_declared_and_did_not_fail_is_told_too(capsys: pytest.CaptureFixture[str]) -> None:
    comparison = compare(run(B), results(B, shows_defect=False), run(F), results(F), cleanup=GONE)
    lines = piped(comparison, capsys)
    assert lines[1:3] == [
        "kling-text-to-video   retry    2 pass     2 pass",
        f"  baseline, declared but held: {FOUR}",
    ]


def test_a_cell_without_an_observation_says_why_and_all_reasons_stand_in_order_above_the_last_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    silent = msgspec.structs.replace(results(F)[0].observation, response=None, fault="it is gone")
    gone = result_of(KLING, results(F)[0].cell.mode, F, silent)
    comparison = compare(
        run(B), results(B), run(F, failure="interrupted"), [gone, *results(F)[1:]], cleanup=GONE
    )
    lines = piped(comparison, capsys)
    assert "  fixed: it is gone" in lines
    assert lines[-6:] == [
        "",
        "why it is inconclusive, 2 reasons:",
        (
            "  fixed: no valid observation in 1 of 8 cells, first kling-text-to-video/retry/1: it "
            "is gone"
        ),
        "  fixed: the run is not valid: interrupted",
        "",
        (
            "inconclusive: fixed: no valid observation in 1 of 8 cells, first "
            "kling-text-to-video/retry/1: it is gone; Go's tests: not run"
        ),
    ]


@pytest.mark.parametrize("columns", [80, 120])
def test_what_cannot_be_seen_is_named_and_no_line_is_begun_by_others(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = in_a_terminal(pairs.hostile().comparison, columns, monkeypatch, no_color="1")
    assert not any(control in shown for control in pairs.CONTROLS)
    assert "⟨U+001B⟩[31mred⟨U+0007⟩⟨U+0000⟩nul" in shown.replace("\r\n", "")
    assert not [line for line in shown.splitlines() if line.startswith(("::", "# Heading"))]


def test_of_thousands_of_rows_the_wrong_one_is_shown_and_the_others_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = piped(pairs.many(100, 1).comparison, capsys)
    assert "survey-0099   retry    1 mismatch   1 mismatch" in lines
    assert "and 140 more as declared; see report.html" in lines
    assert len(lines) < 160
    assert lines[-1].startswith("refuted: fixed: survey-0099/retry/1: ")


def test_of_very_many_reasons_ten_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    told = msgspec.structs.replace(compared(), reasons=tuple(f"reason {n}" for n in range(100)))
    lines = piped(told, capsys)
    assert lines[-14:-11] == ["why it is proven, 100 reasons:", "  reason 0", "  reason 1"]
    assert lines[-4:] == [
        "  reason 9",
        "  and 90 more, in comparison.json",
        "",
        "proven: reason 0; Go's tests: not run",
    ]
