"""What a session shows while it works: lines where nothing can be drawn over, and no thread."""

from __future__ import annotations

import io
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import msgspec
import pytest
from rich.console import Console

from sessions.matrix import progress
from sessions.matrix.case import Answer, Mode
from sessions.matrix.progress import Shown
from tests.unit.matrix.observations import KLING, defective, response, result, right
from wasm.records import Variant

if TYPE_CHECKING:
    from sessions.matrix.records import Result

GONE = msgspec.structs.replace(right(KLING, Mode.RETRY), response=None, fault="it is gone")


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: 0.0))


def retried(variant: Variant, *, wrong: bool, repeat: int = 1) -> Result:
    seen = defective(KLING) if wrong else right(KLING, Mode.RETRY)
    return result(KLING, Mode.RETRY, variant, seen, repeat)


def shown(planned: int, *, terminal: bool = False) -> tuple[Shown, io.StringIO]:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=60, color_system=None)
    return Shown(planned, console), file


def test_piped_each_stage_is_a_line_and_the_cells_are_counted_once() -> None:
    told, file = shown(3)
    with told.stage("gateway: starting"):
        assert file.getvalue() == "gateway: starting\n"
    told.say("gateway: LIVE after 2.7 s, and a line that is longer than sixty characters is whole")
    for repeat in (1, 2, 3):
        told.cell(retried(Variant.BASELINE, wrong=repeat != 2, repeat=repeat))
    told.end()
    told.end()
    _, live, counted, wrong = file.getvalue().splitlines()
    assert live.endswith("a line that is longer than sixty characters is whole")
    assert counted == "cells: 3 in 0.0 s: 1 pass though they had to fail, 2 mismatch as declared"
    assert wrong == (
        "  kling-text-to-video/retry/2: expected retry_path, retry_body, client_status, "
        "client_body to fail, failed: none"
    )


def test_findings_that_are_not_as_declared_are_named_once_each_and_not_without_end() -> None:
    told, file = shown(40)
    told.cell(retried(Variant.FIXED, wrong=False))
    for repeat in (2, 3, 4):
        told.cell(retried(Variant.FIXED, wrong=True, repeat=repeat))
    for number in range(12):
        seen = msgspec.structs.replace(GONE, fault=f"it is gone {number}")
        told.cell(result(KLING, Mode.RETRY, Variant.FIXED, seen, 5 + number))
    told.end()
    counted, first, *checks, second = file.getvalue().splitlines()[:9]
    last = file.getvalue().splitlines()[-1]
    assert counted == (
        "cells: 16 of 40 in 0.0 s: 1 pass, 3 mismatch not as declared, 12 inconclusive"
    )
    assert first.startswith("  kling-text-to-video/retry/2 and 2 more: expected no check to fail")
    assert checks == [
        '    retry_path: expected "/v1/videos/text2video?trace=1"',
        '                  actual "/v1/videos?trace=1"',
        '    retry_body: expected {"model_name": "up-m1", "prompt": "a paper boat on a lake"}',
        '                  actual {"model": "up-m1", "prompt": "a paper boat on a lake"}',
        "    client_status: expected 200",
        "                     actual 503",
    ]
    assert second == "  kling-text-to-video/retry/5: inconclusive: it is gone 0"
    assert last == "  and 3 findings more, in the report"


def test_what_a_plugin_put_in_a_value_is_shown_plain_and_cut() -> None:
    told, file = shown(1)
    seen = defective(KLING)
    retry = msgspec.structs.replace(seen.attempts[1], target="/\x1b[2J\u202e" + "x" * 500)
    seen = msgspec.structs.replace(seen, attempts=(seen.attempts[0], retry))
    told.cell(result(KLING, Mode.RETRY, Variant.FIXED, seen, 1))
    told.end()
    actual = file.getvalue().splitlines()[3]
    assert actual.startswith('                  actual "/\\u001b[2J\\u202exxx')
    assert len(actual) == len("                  actual ") + 160 + len("...")


def one_body_beside_another(expected: object, actual: object) -> list[str]:
    """The two lines that a session shows of a cell whose client got another body."""
    case = msgspec.structs.replace(KLING, client=Answer(status=200, json=expected))
    answered = response(200, msgspec.json.encode(actual))
    found = msgspec.structs.replace(right(case, Mode.DIRECT), response=answered)
    told, file = shown(1)
    told.cell(result(case, Mode.DIRECT, Variant.FIXED, found, 1))
    told.end()
    return [line.strip() for line in file.getvalue().splitlines()[2:4]]


PROMPT = "a paper boat on a lake " * 40


@pytest.mark.parametrize(
    ("expected", "actual", "place"),
    [
        ({"prompt": PROMPT, "seed": 5}, {"prompt": PROMPT, "seed": 6}, ('"seed": 5', '"seed": 6')),
        ({"a": PROMPT, "z": [1, 2]}, {"z": [1, 3], "a": PROMPT}, ("[1, 2]", "[1, 3]")),
        ({"a": 1, "b": PROMPT, "c": 2}, {"a": 1.0, "b": PROMPT, "c": 3}, ('"c": 2', '"c": 3')),
        ({"b": PROMPT}, {"b": PROMPT, "c": 0.25}, ('lake "}', '"c": 0.25')),
        ({"b": f"{PROMPT}x"}, {"b": f"{PROMPT}y{PROMPT}"}, ('lake x"}', "lake ya paper")),
    ],
    ids=["the end", "order", "notation", "one more", "within a text"],
)
def test_of_two_long_bodies_that_begin_alike_the_difference_is_shown(
    expected: object, actual: object, place: tuple[str, str]
) -> None:
    """T34."""
    lines = one_body_beside_another(expected, actual)
    assert [part in line for part, line in zip(place, lines, strict=True)] == [True, True], lines
    assert max(map(len, lines)) < 220


def test_cells_that_take_long_are_counted_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_EVERY_S", -1.0)
    told, file = shown(2)
    for repeat in (1, 2):
        told.cell(retried(Variant.FIXED, wrong=False, repeat=repeat))
    assert file.getvalue() == "cells: 1 of 2\ncells: 2 of 2\n"


def test_without_a_cell_there_is_nothing_to_count() -> None:
    told, file = shown(2)
    told.end()
    assert file.getvalue() == ""


def test_in_a_terminal_a_stage_and_the_bar_leave_one_line_each_and_no_thread_draws_them() -> None:
    told, file = shown(2, terminal=True)
    threads = threading.active_count()
    with told.stage("gateway: starting"):
        assert "gateway: starting" in file.getvalue()
        assert threading.active_count() == threads
    for repeat in (1, 2):
        told.cell(retried(Variant.BASELINE, wrong=True, repeat=repeat))
        assert threading.active_count() == threads
    told.end()
    text = file.getvalue()
    assert "0/2" in text
    assert text.splitlines()[-1].endswith("cells: 2 in 0.0 s: 2 mismatch as declared")
    # The cursor is shown again.
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_in_a_terminal_a_line_breaks_between_words() -> None:
    told, file = shown(2, terminal=True)
    told.say("word " * 20)
    assert {*file.getvalue().split()} == {"word"}
    assert len(file.getvalue().splitlines()) == 2
