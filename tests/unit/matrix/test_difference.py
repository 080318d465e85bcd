"""What differs between expected and actual, so short that it is read."""

from __future__ import annotations

import hashlib
import time

import pytest

from sessions.matrix import text_diff
from sessions.matrix.text_diff import Line


def shown(found: text_diff.Difference) -> list[str]:
    """The lines as a reader sees them; what is marked stands in brackets."""
    return [
        f"{x.sign} {x.before}{f'[{x.differs}]' if x.differs else ''}{x.after}" for x in found.lines
    ]


@pytest.mark.parametrize(
    ("expected", "actual", "lines"),
    [
        (
            "/v1/videos/text2video?trace=1",
            "/v1/videos?trace=1",
            ["- /v1/videos[/text2video]?trace=1", "+ /v1/videos?trace=1"],
        ),
        ("/a", "/b", ["- /[a]", "+ /[b]"]),
        ("/aa", "/a", ["- /a[a]", "+ /a"]),
        ("", "/a", ["- ", "+ [/a]"]),
    ],
)
def test_of_two_paths_the_part_that_differs_is_marked(
    expected: str, actual: str, lines: list[str]
) -> None:
    assert shown(text_diff.of_texts(expected, actual)) == lines


def test_of_two_bodies_only_the_values_count_not_their_order() -> None:
    found = text_diff.of_bodies(
        {"model_name": "up-m1", "prompt": "a boat"}, b'{"prompt": "a boat", "model":"up-m1"}'
    )
    assert found.note == "keys are sorted"
    assert shown(found) == [
        "  {",
        '-   "model[_name]": "up-m1",',
        '+   "model": "up-m1",',
        '    "prompt": "a boat"',
        "  }",
    ]


def test_what_the_oracle_takes_for_equal_is_no_difference() -> None:
    found = text_diff.of_bodies({"a": 1, "b": [100, 0.5]}, b'{"b":[1e2,0.50],"a":1.0}')
    assert found == text_diff.Difference((), "the same, once laid out")


def test_long_numbers_are_not_rounded() -> None:
    one, other = b"1234567890123456789012345678901", b"1234567890123456789012345678902"
    found = text_diff.of_bodies(int(one), other)
    assert shown(found) == [f"- {one[:-1].decode()}[1]", f"+ {other[:-1].decode()}[2]"]


@pytest.mark.parametrize(
    ("actual", "note"),
    [
        (b"", "the actual body is empty; empty"),
        (b"<html>", "the actual body is no usable JSON"),
        (b'{"a":1,"a":2}', "the actual body is no usable JSON"),
        (
            b"\xff",
            "the actual body is no usable JSON; not UTF-8: bytes that are none are named",
        ),
        (b"[" * 100_000, None),
    ],
)
def test_a_body_that_is_no_usable_json_is_shown_as_the_text_that_came(
    actual: bytes, note: str | None
) -> None:
    found = text_diff.of_bodies({"a": 1}, actual)
    if note is not None:
        assert found.note == note
    assert found.lines[0] == Line("-", "{", "", "")
    assert [x.before + x.differs for x in found.lines if x.sign == "+"] == (
        [actual.decode("utf-8", "surrogateescape")] if len(actual) < 20 else ["[" * 239 + "…"]
    )


def test_a_body_of_five_megabytes_says_its_length_and_digest_and_takes_no_time() -> None:
    actual = b'{"model":"' + b"A" * 5_000_000 + b'"}'
    start = time.perf_counter()
    found = text_diff.of_bodies({"model": "m"}, actual)
    assert time.perf_counter() - start < 2
    assert found.note == (
        "the actual body is too long to lay out; the first 2,000 of 5,000,012 bytes; SHA-256 of "
        f"all {hashlib.sha256(actual).hexdigest()}"
    )
    assert sum(len(line.before + line.differs + line.after) for line in found.lines) < 1_000


def test_of_long_bodies_what_is_far_from_a_difference_is_left_out_and_counted() -> None:
    wanted = list(range(400))
    actual = b"[" + b",".join(b"7" if n == 200 else b"%d" % n for n in wanted) + b"]"
    assert shown(text_diff.of_bodies(wanted, actual)) == [
        "… 198 more lines, the same",
        "    197,",
        "    198,",
        "    199,",
        "-   [200],",
        "+   [7],",
        "    201,",
        "    202,",
        "    203,",
        "… 197 more lines, the same",
    ]


def test_of_bodies_that_differ_throughout_sixty_lines_each_are_shown() -> None:
    actual = b"[" + b",".join(b"%d" % n for n in range(1000, 1400)) + b"]"
    lines = shown(text_diff.of_bodies(list(range(401)), actual))
    assert lines[-3:] == [
        "… 341 more lines, expected",
        "… 340 more lines, actual",
        "  ]",
    ]
    assert len(lines) < 130


def test_a_long_line_is_shown_around_the_part_that_differs() -> None:
    wanted = "/" + "a" * 1000 + "x" + "b" * 1000
    expected, actual = text_diff.of_texts(wanted, wanted.replace("x", "y")).lines
    assert expected == Line("-", "…" + "a" * 40, "x", "b" * 40 + "…")
    assert actual == Line("+", "…" + "a" * 40, "y", "b" * 40 + "…")


def test_two_long_texts_are_cut_to_where_they_differ_first_and_short_ones_are_not() -> None:
    same = "x" * 500
    one, other = text_diff.apart(f"{same}1{same}", f"{same}2{same}", 60)
    assert (len(one), len(other)) == (66, 66)
    assert (one.index("1"), other.index("2")) == (43, 43)
    assert text_diff.apart("ab", "ac", 60) == ("ab", "ac")
    assert text_diff.apart(f"1{same}", f"2{same}", 60) == (f"1{same[:59]}...", f"2{same[:59]}...")
    assert text_diff.apart(same, f"{same}1", 60) == (f"...{same[:40]}", f"...{same[:40]}1")
