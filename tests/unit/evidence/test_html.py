"""report.html: what it says, and that nothing from outside is more than text in it."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import msgspec
import pytest

from sessions.evidence.report import html
from tests.unit.evidence import pairs, runs
from tests.unit.evidence.pairs import CONTROLS, LONG, TAGS, beside
from tests.unit.evidence.runs import module
from wasm.records import Fix, FixKind, Origin, Patch, Variant

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.evidence.pairs import Pair

EVERY = {
    "proven": pairs.proven,
    "refuted": pairs.refuted,
    "inconclusive": pairs.inconclusive,
    "hostile": pairs.hostile,
}


class Page(HTMLParser):
    """A page as a browser reads it: its elements with their attributes, and its text."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = source
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.unclosed: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of an element."""
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Take note of its end."""
        if tag not in ("span", "code", "bdi", "mark", "strong"):
            self.words.append(" ")
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.unclosed.append(tag)

    def handle_data(self, data: str) -> None:
        """Take note of its text."""
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        """All of its text, blanks run together."""
        return " ".join("".join(self.words).split())


def page(pair: Pair, log: str = "[info] a line") -> Page:
    return Page(html.render(*pair, attached=beside(log)))


@pytest.mark.parametrize(
    ("made", "verdict", "sentence"),
    [
        (
            pairs.proven,
            "✓ Proven",
            (
                "The baseline failed in 2 of 8 cells, in each for exactly the declared checks, and "
                "held in all others; the fixed module held in all 8."
            ),
        ),
        (
            pairs.refuted,
            "✗ Refuted",
            (
                "Fixed: kling-text-to-video/retry/1: expected no check to fail, failed: "
                "retry_path, retry_body, client_status, client_body."
            ),
        ),
        (
            pairs.inconclusive,
            "? Inconclusive",
            (
                "Fixed: no valid observation in 3 of 7 cells, first kling-text-to-video/retry/2: "
                "the gateway ended by signal 9."
            ),
        ),
    ],
)
def test_at_the_top_stand_the_verdict_for_whom_it_holds_and_the_modules(
    made: Callable[[], Pair], verdict: str, sentence: str
) -> None:
    text = page(made()).text
    top = text[: text.index("Cells: baseline beside fixed")]
    assert f"{verdict} {sentence}" in top
    assert "Not release evidence for Higress' gateway: the gateway was not Higress' pinned" in top
    assert "Seen in stock Envoy 1.40.0, engine process, with an adapted module." in top
    for variant in Variant:
        assert module(variant).sha256 in top


def test_release_evidence_is_said_to_be_such() -> None:
    pair = pairs.proven()
    told = msgspec.structs.replace(pair.comparison, release_evidence=True, no_release_evidence=())
    text = page(pair._replace(comparison=told)).text
    assert "Release evidence for Higress' pinned gateway." in text
    assert "Not release evidence" not in text


def test_the_grid_has_a_sign_and_words_for_each_cell() -> None:
    found = page(pairs.refuted())
    chips = [
        (attributes["class"], attributes["title"])
        for tag, attributes in found.elements
        if tag == "span" and (attributes.get("class") or "").startswith("chip")
    ]
    assert chips[:4] == [
        ("chip mismatch", "repeat 1: mismatch, as declared"),
        ("chip mismatch", "repeat 2: mismatch, as declared"),
        ("chip mismatch odd", "repeat 1: mismatch, not as declared"),
        ("chip mismatch odd", "repeat 2: mismatch, not as declared"),
    ]


def test_what_a_reviewer_asks_for_is_there() -> None:
    text = page(pairs.proven()).text
    for words in (
        "✗ path (retry_path, as declared)",
        "/v1/videos/text2video?trace=1+ /v1/videos?trace=1",
        "✓ Baseline: 12 of 12 attempts arrived at the mock upstream, 127.0.0.1:40001",
        "a× 2",  # noqa: RUF001 - as the page writes it
        "Commit" + " " + "c" * 40,
        "higress-4396, patch SHA-256",
        "--baseline-ref=" + "c" * 40,
        "nox -s verify -- PATH/OF/THIS/BUNDLE",
        "✓ process 7, the gateway: ended, exit status 0",
        "✓ port of gateway kling 127.0.0.1:40001: refuses a connection",
        "baseline/logs/gateway.log",
        "[info] a line",
        "claims no approval",
    ):
        assert words in text, words


def test_without_what_lies_beside_the_records_that_is_said() -> None:
    text = Page(html.render(*pairs.proven())).text
    assert "No clean-up proof is at hand." in text
    assert "No logs are at hand." in text


@pytest.mark.parametrize("name", EVERY)
def test_a_page_is_whole_and_asks_for_nothing(name: str) -> None:
    found = page(EVERY[name]())
    assert (found.open, found.unclosed) == ([], [])
    tags = {tag for tag, _ in found.elements}
    assert not tags & {"script", "img", "iframe", "object", "embed", "form", "base", "svg", "video"}
    ids = {attributes["id"] for _, attributes in found.elements if "id" in attributes}
    for tag, attributes in found.elements:
        assert not any(key.startswith("on") or key in ("style", "src") for key in attributes), tag
        target = attributes.get("href")
        if target is not None and target != "data:,":
            assert target.removeprefix("#") in ids
    style = found.source.split("<style>")[1].split("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = next(
        attributes["content"] or ""
        for tag, attributes in found.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; ")
    assert f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"url\(|@import", style)


def test_hostile_texts_are_shown_and_are_nothing_but_text() -> None:
    found = page(pairs.hostile(), log=TAGS + "\x00\u202e")
    assert TAGS in found.text
    assert not any(control in found.source for control in CONTROLS)
    assert not re.search(r"[^\n\x20-\x7e\xa1-\U0010ffff]", found.source)
    named = [attributes for tag, attributes in found.elements if attributes.get("class") == "named"]
    assert len(named) > 50
    assert "U+202E" in found.text
    assert "not UTF-8: bytes that are none are named" in found.text
    digest = hashlib.sha256(LONG).hexdigest()
    assert f"the first 2,000 of {len(LONG):,} bytes; SHA-256 of all {digest}" in found.text
    assert len(found.source) < 400_000


def test_thousands_of_cells_are_drawn_soon_and_what_is_left_out_is_counted() -> None:
    pair = pairs.many(1000, 3)
    start = time.perf_counter()
    found = page(pair)
    assert time.perf_counter() - start < 5
    assert len(found.source) < 600_000
    grid = found.text[found.text.index("Cells: baseline beside fixed") :]
    assert grid.index("survey-0999") < grid.index("survey-0000")
    assert "994 more, all alike" in grid
    assert "995 more, all alike" in grid
    assert "Shown are 11 of 2,000 rows" in grid


def test_very_many_repeats_are_counted_instead_of_drawn() -> None:
    shown = "✗ × 1,000"  # noqa: RUF001 - as the page writes it
    assert shown in page(pairs.many(1, 1000)).text


def test_the_same_records_make_the_same_page() -> None:
    assert page(pairs.refuted()).source == page(pairs.refuted()).source


def test_a_patch_is_quoted_without_what_looks_like_a_credential() -> None:
    secret = "sk-" + "live-0123456789abcdef"
    patch = Patch.of(f"--- a\n+++ b\n+key := {secret}\n".encode())
    fix = Fix(
        origin=Origin(kind=FixKind.PATCH, name="a.patch"),
        patch=patch,
        baseline_sha256=runs.SOURCE.files_sha256,
    )
    changed = runs.run(
        Variant.FIXED, module=runs.module(Variant.FIXED, fix=fix, dirty=True, uncommitted=patch)
    )
    proven = pairs.proven()
    page = html.render(proven.comparison, *proven[1:3], changed, proven.fixed_results)
    assert secret not in page
    assert page.count("masked-24-characters") == 2


def test_what_stands_in_backticks_is_shown_as_code() -> None:
    page = html.render(*pairs.proven())
    assert "<code>nox -s unit</code> on the variant makes them" in page
    assert "`nox" not in page


def test_a_patch_is_quoted_without_a_credential_of_several_lines() -> None:
    secret = "MIIEvQIBADANBgkq" + "hkiG9w0BAQEFAASC"
    begin = "-----BEGIN " + "PRIVATE KEY-----"
    patch = Patch.of(f"--- a\n+++ b\n@@ -0,0 +1,2 @@\n+{begin}\n+{secret}\n".encode())
    fix = Fix(
        origin=Origin(kind=FixKind.PATCH, name="a.patch"),
        patch=patch,
        baseline_sha256=runs.SOURCE.files_sha256,
    )
    fixed = runs.run(Variant.FIXED, module=runs.module(Variant.FIXED, fix=fix))
    pair = pairs.pair(
        runs.run(Variant.BASELINE),
        runs.results(Variant.BASELINE),
        fixed,
        runs.results(Variant.FIXED),
    )
    page = html.render(*pair)
    assert secret not in page
    assert "+masked-32-characters" in page
