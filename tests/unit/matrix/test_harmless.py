"""Text from outside: what cannot be seen is named, what is long is cut and says so."""

from __future__ import annotations

import hashlib
import time

import pytest

from sessions.matrix import sanitize


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/v1/videos?trace=1", "/v1/videos?trace=1"),
        ("日本語, ελληνικά, עברית, 🚀", "日本語, ελληνικά, עברית, 🚀"),
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("a\u2066b\u2069", "a⟨U+2066⟩b⟨U+2069⟩"),
        ("a\x00b\x1b[31m", "a⟨U+0000⟩b⟨U+001B⟩[31m"),
        ("a\u200bb\ufeff", "a⟨U+200B⟩b⟨U+FEFF⟩"),
        ("a\u00a0b\u2028c", "a⟨U+00A0⟩b⟨U+2028⟩c"),
        ("a\u3164b\u2800\ufe0f", "a⟨U+3164⟩b⟨U+2800⟩⟨U+FE0F⟩"),
        ("a\U000e0041", "a⟨U+E0041⟩"),
        ("\udcff\udc80", "⟨FF⟩⟨80⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("one\ntwo\tthree\r", "one⟨U+000A⟩two⟨U+0009⟩three⟨U+000D⟩"),
        ("e\u0301", "e\u0301"),
        ("e" + "\u0301" * 5, "e" + "\u0301" * 3 + "⟨U+0301⟩" * 2),
        ("", ""),
    ],
)
def test_what_cannot_be_seen_is_named(text: str, shown: str) -> None:
    assert sanitize.plain(text) == shown


def test_in_a_text_of_lines_line_feeds_and_tabs_stay() -> None:
    assert sanitize.plain("one\n\ttwo\r\n", lines=True) == "one\n\ttwo⟨U+000D⟩\n"


def test_a_cut_says_how_long_it_was_and_naming_cannot_make_it_longer() -> None:
    assert sanitize.brief("abc", 3) == "abc"
    assert sanitize.brief("abcd", 3) == "abc… (4 characters)"
    assert sanitize.shown("abc", 3) == "abc"
    assert sanitize.shown("\0" * 1_000_000, 16) == "⟨U+0000⟩⟨U+0000⟩… (1,000,000 characters)"


@pytest.mark.parametrize(
    ("data", "text", "note"),
    [
        (b"{}", "{}", ""),
        (b"", "", "empty"),
        (b"a\xffb", "a\udcffb", "not UTF-8: bytes that are none are named"),
    ],
)
def test_a_body_says_what_is_not_as_it_seems(data: bytes, text: str, note: str) -> None:
    assert sanitize.body(data, 100) == sanitize.Body(text, note)


def test_a_long_body_is_cut_between_characters_and_says_its_length_and_digest() -> None:
    data = "ä".encode() * 3
    digest = hashlib.sha256(data).hexdigest()
    cut = sanitize.Body("ä", f"the first 2 of 6 bytes; SHA-256 of all {digest}")
    assert sanitize.body(data, 3) == sanitize.body(data, 2) == cut


def test_a_body_of_which_only_the_beginning_was_kept_says_what_it_was_when_it_came() -> None:
    cut = sanitize.body(b"abc", 10, whole_bytes=5_000_000, whole_sha256="1" * 64)
    assert cut.note == f"the first 3 of 5,000,000 bytes; SHA-256 of all {'1' * 64}"


def test_five_megabytes_take_no_time() -> None:
    start = time.perf_counter()
    assert len(sanitize.body(b"\xff" * 5_000_000, 2_000).text) == 2_000
    assert len(sanitize.shown("\u202e" * 5_000_000, 2_000)) < 2_100
    assert time.perf_counter() - start < 2
