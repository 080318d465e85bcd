"""report.html as people see it: in a real Chromium, on a phone, a desk, paper, light and dark."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Page, sync_playwright

from sessions.evidence.report import html
from tests.unit.evidence import pairs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
MADE = {
    "proven": pairs.proven,
    "refuted": pairs.refuted,
    "inconclusive": pairs.inconclusive,
    "hostile": pairs.hostile,
}
PHONE, DESK = 375, 1280

# Of every element with text of its own: the contrast of its colour to what is really behind it,
# as WCAG 2 defines it. Elements that are not seen are left out.
CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3]));
  const light = (rgb) => {
    const [r, g, b] = rgb.map((c) => c / 255)
      .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const below = element.parentElement ? behind(element.parentElement) : [255, 255, 255];
    return over(rgba(getComputedStyle(element).backgroundColor), below);
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || !element.checkVisibility()) continue;
    const paper = behind(element);
    const [one, other] = [light(over(rgba(getComputedStyle(element).color), paper)), light(paper)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    found.push([ratio, element.className, element.textContent.trim().slice(0, 40)]);
  }
  return found;
}"""
# Every visible element that ends beyond the right edge.
TOO_WIDE = """(width) => [...document.body.querySelectorAll("*")]
  .filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > width + 0.5)
  .map((e) => `${e.tagName}.${e.className}`)"""


@dataclass
class Seen:
    """A page that was opened, and what it did beside being shown."""

    page: Page
    url: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def is_quiet(self) -> bool:
        """Whether it asked for nothing but itself, and nothing went wrong."""
        return (self.requests, self.complaints) == ([self.url], [])


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A headless Chromium of the machine; in CI there must be one."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        reason = f"no browser: none of {', '.join(PROGRAMS)} is on PATH; install Debian's chromium"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*FLAGS])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each report, as a file."""
    folder = tmp_path_factory.mktemp("reports")
    files = {}
    for name, make in MADE.items():
        files[name] = folder / f"{name}.html"
        files[name].write_text(
            html.render(*make(), attached=pairs.beside(pairs.TAGS)), encoding="utf-8"
        )
    return files


@pytest.fixture
def opened(chromium: Browser, reports: dict[str, Path]) -> Iterator[Any]:
    """Give a function that opens a report at a width, light or dark."""
    contexts = []

    def seen(name: str, width: int = DESK, scheme: Any = "light") -> Seen:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        contexts.append(context)
        shown = Seen(context.new_page(), reports[name].as_uri())
        shown.page.on("request", lambda request: shown.requests.append(request.url))
        shown.page.on("console", lambda message: shown.complaints.append(message.text))
        shown.page.on("pageerror", lambda error: shown.complaints.append(str(error)))
        shown.page.on("dialog", lambda dialog: shown.complaints.append(dialog.message))
        shown.page.goto(shown.url)
        return shown

    yield seen
    for context in contexts:
        context.close()


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", MADE)
def test_it_fits_can_be_read_and_asks_for_nothing(
    opened: Any, name: str, width: int, scheme: str
) -> None:
    seen = opened(name, width, scheme)
    # All that is folded too.
    seen.page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width
    assert seen.page.evaluate(TOO_WIDE, width) == []
    contrasts = seen.page.evaluate(CONTRASTS)
    assert len(contrasts) > 100
    assert [each for each in contrasts if each[0] < 4.5] == []
    assert seen.is_quiet(), (seen.requests, seen.complaints)


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_verdict_grid_and_the_mismatch_are_seen_without_a_click(
    opened: Any, width: int, scheme: str
) -> None:
    page = opened("proven", width, scheme).page
    verdict = page.locator(".verdict .word")
    assert verdict.inner_text() == "✓ Proven"
    assert verdict.bounding_box()["y"] < 200
    chips = page.locator(".grid .chip")
    assert chips.all_inner_texts() == ["✗", "✗", *["✓"] * 14]
    assert all(chip.is_visible() for chip in chips.all())
    wrong = page.locator(".message.attempt.wrong")
    assert wrong.count() == 1
    assert wrong.locator(".key").inner_text() == "b"
    assert wrong.locator(".text").inner_text() == "POST /v1/videos?trace=1"
    lines = wrong.locator(".diff .line")
    assert [line.inner_text() for line in lines.all() if line.is_visible()][:2] == [
        "− /v1/videos/text2video?trace=1",  # noqa: RUF001 - as the page writes it
        "+ /v1/videos?trace=1",
    ]
    assert wrong.locator(".diff mark").all_inner_texts() == ["/text2video", "_name"]
    baseline, fixed = (page.locator(".lane h4").nth(place).bounding_box() for place in (0, 1))
    if width == DESK:
        assert baseline["y"] == fixed["y"]
    else:
        assert baseline["x"] == fixed["x"]


def test_dark_is_dark_and_paper_is_white_even_then(opened: Any) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    light, dark = opened("proven").page, opened("proven", scheme="dark").page
    assert light.evaluate(paper) == "rgb(255, 255, 255)"
    assert dark.evaluate(paper) == "rgb(15, 19, 24)"
    dark.emulate_media(media="print")
    assert dark.evaluate(paper) == "rgb(255, 255, 255)"


def test_printed_every_picture_is_there_and_what_is_for_clicking_is_not(opened: Any) -> None:
    page = opened("proven").page
    pictures = page.locator(".picture")
    assert [picture.is_visible() for picture in pictures.all()].count(False) == 4
    page.emulate_media(media="print")
    assert pictures.count() == 8
    assert all(picture.is_visible() for picture in pictures.all())
    assert not page.locator("nav").is_visible()
    document = page.pdf(format="A4", print_background=True)
    assert document.startswith(b"%PDF-")
    assert 3 <= document.count(b"/Type /Page\n") <= 12


def test_hostile_texts_do_nothing_and_can_be_read(opened: Any) -> None:
    seen = opened("hostile")
    page = seen.page
    page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
    assert page.title() == "Refuted: baseline and fixed compared – gateway-proof"  # noqa: RUF001 - as the page writes it
    assert page.locator("script, img, svg, iframe, form, body style").count() == 0
    text = page.inner_text("body")
    assert pairs.TAGS in text.replace("\n", "")
    assert not any(control in text for control in pairs.CONTROLS)
    named = page.locator(".named")
    assert {"U+202E", "U+0000", "U+001B", "FF"} <= {*named.all_inner_texts()}
    assert f"of {len(pairs.LONG):,} bytes; SHA-256 of all" in text
    assert seen.is_quiet(), (seen.requests, seen.complaints)


def test_what_is_folded_opens_with_a_click(opened: Any) -> None:
    page = opened("proven", PHONE).page
    body = page.locator("details pre", has_text='"model_name":"up-m1"').first
    assert not body.is_visible()
    page.locator("summary", has_text="Bodies and headers of this cell").first.click()
    assert body.is_visible()
