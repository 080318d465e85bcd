"""report.md: what a pull request's template asks for, short enough, and never more than text."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest
from markdown_it import MarkdownIt

from sessions.evidence.report import markdown, markup, report_fields
from tests.unit.evidence import pairs
from tests.unit.evidence.pairs import CONTROLS, MARKDOWN, TAGS, beside
from tests.unit.evidence.runs import FIX, module, run
from wasm.records import FixKind, Origin, Patch, Variant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it.token import Token

    from tests.unit.evidence.pairs import Pair

B, F = Variant.BASELINE, Variant.FIXED
EVERY = {
    "proven": pairs.proven,
    "refuted": pairs.refuted,
    "inconclusive": pairs.inconclusive,
    "hostile": pairs.hostile,
}
OURS = ("<details>", "</details>", "<summary>", "</summary>", "<code>", "</code>", "<!-- Written")


def tokens(text: str) -> Iterator[Token]:
    """Every token of a text, those within a line too."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        yield token
        yield from token.children or ()


def drawn(pair: Pair, log: str = "a line") -> str:
    return markdown.render(*pair, attached=beside(log))


def test_it_has_the_headings_of_the_template_in_their_order() -> None:
    assert re.findall(r"(?m)^## (.*)$", drawn(pairs.proven())) == [
        "I. Summary",
        "II. Related issue",
        "III. Change type",
        "IV. Agent participation and issue-spec gate",
        "V. Testing and verification",
        "VI. Special notes for reviewers",
        "VII. AI coding disclosure",
    ]


def test_every_field_of_the_template_is_filled_or_says_why_not() -> None:
    text = drawn(pairs.proven())
    for field in (
        "Test and deterministic rerun commands",
        "Environment and configuration",
        "Exact tested revision, version, image tag/digest, manifests, and values",
        "Baseline reproduction evidence for bug fixes",
        "Fixed-version verification evidence for bug fixes",
        "Wasm source revision and SHA-256",
    ):
        _, found, after = text.partition(f"**{field}:**")
        assert found, field
        assert after.strip()[0] not in "#*", field
    for words in (
        "Fixes #4396",
        "- [x] Bug fix",
        "**Shown in a real gateway: PROVEN.** The baseline failed in 2 of 8 cells",
        (
            "| `kling-text-to-video` | retry | `retry_path`, `retry_body`, `client_status`, "
            "`client_body` | ✗ 2 mismatch, as declared | ✓ 2 pass |"
        ),
        "      - /v1/videos/text2video?trace=1\n      + /v1/videos?trace=1",
        f"| baseline | `{'c' * 40}` | `{module(B).sha256}` |",
        f"its `SHA256SUMS`' own `{'9' * 64}`",
        "nox -s verify -- PATH/OF/THE/BUNDLE",
        "✓ process 7, the gateway: ended, exit status 0",
        "- Not release evidence for Higress' gateway: the gateway was not Higress' pinned image",
        "- Network isolation: none was enforced.",
        "only one key ever came first",
        "N/A here: only the author knows which tools took part.",
    ):
        assert words in text, words


def test_why_names_what_the_baseline_failed_and_only_that() -> None:
    why = re.search(r"(?m)^\*\*Why:\*\* (.*)$", drawn(pairs.proven()))
    assert why is not None
    assert why[1] == (
        "without it `Kling, text to video` (`retry`) fails `retry_path`, `retry_body`, "
        "`client_status`, `client_body`."
    )
    assert "**With it these fail:**" not in drawn(pairs.proven())


def test_what_the_fixed_module_fails_is_said_with_the_checks_that_failed() -> None:
    text = drawn(pairs.refuted())
    assert "what is told below" not in text
    failing = re.search(r"(?m)^\*\*With it these fail:\*\* (.*)$", text)
    assert failing is not None
    assert failing[1] == (
        "`Kling, text to video` (`retry`) fails `attempt_count`, `retry_key`, `retry_method`, "
        "`retry_path`, `retry_body`, `retry_headers`, `client_status`, `client_body`."
    )


def test_the_commands_name_commits_and_nothing_that_only_the_author_has() -> None:
    proven = pairs.proven()
    own = ["python", "--source=/home/me/higress", "--fixed-patch=/home/me/my.patch", "--repeat=5"]
    text = drawn(proven._replace(fixed=msgspec.structs.replace(proven.fixed, command=own)))
    assert (
        "nox -s runtime-baseline runtime-fixed -- --source=PATH/TO/higress "
        "--fixed-patch=PATH/OF/THE/BUNDLE/fixed/config/fix.patch --repeat=5 "
        f"--baseline-ref={'c' * 40}\nnox -s verify -- PATH/OF/THE/BUNDLE\n"
    ) in text


def test_no_approval_is_claimed() -> None:
    text = drawn(pairs.proven())
    assert "nothing in this report is an approval, and none is claimed" in text
    assert len(re.findall(r"(?i)\bapprov", text)) == 2


@pytest.mark.parametrize("name", ["refuted", "inconclusive"])
def test_what_is_not_proven_claims_no_fix(name: str) -> None:
    text = drawn(EVERY[name]())
    assert "Fixes #" not in text
    assert "- [ ] Bug fix" in text
    assert "N/A here: the runs do not prove the fix; the author names it." in text
    assert f"**Shown in a real gateway: {name.upper()}.**" in text


def test_the_bundled_plugin_is_no_claim_about_higress() -> None:
    reference = run(F, module=module(F, kind="reference"))
    text = drawn(pairs.proven()._replace(fixed=reference))
    assert "Fixes #" not in text
    assert "N/A: what ran is the reference plugin that gateway-proof bundles" in text


@pytest.mark.parametrize("name", EVERY)
def test_nothing_from_outside_is_markup(name: str) -> None:
    text = drawn(EVERY[name]())
    seen = list(tokens(text))
    assert not {token.type for token in seen} & {
        "link_open",
        "image",
        "em_open",
        "hr",
        "code_block",
    }
    headings = [token for token in seen if token.type == "heading_open"]
    assert len(headings) == 7
    for token in seen:
        if token.type.startswith("html_"):
            left = token.content
            for tag in OURS:
                left = left.replace(tag, "")
            assert "<" not in left, token.content
        if token.type == "text":
            assert not re.search(r"@\w|https?://|www\.|\bGH-\d|<", token.content), token.content
            assert "#" not in token.content.replace("Fixes #4396", "")
    folded = "".join(token.content for token in seen if token.type == "html_block")
    assert folded.count("<details>") == folded.count("</details>") > 3
    assert len([token for token in seen if token.type == "table_open"]) == 4


def test_hostile_texts_are_shown_and_what_cannot_be_seen_is_named() -> None:
    text = drawn(pairs.hostile())
    assert not any(control in text for control in CONTROLS)
    assert "⟨U+202E⟩" in text
    assert "⟨U+0000⟩" in text
    lines = [line for line in text.splitlines() if line.startswith("| `") and "case-" in line]
    # Five columns: no cell was split.
    assert [line.count(" | ") for line in lines] == [4, 4]


def oversized() -> Pair:
    """Whatever can be long is, and there is much of everything."""
    pair = pairs.hostile()
    long = TAGS + MARKDOWN * 200
    cases = tuple(
        msgspec.structs.replace(each, title=long, name=f"{long}{number}", plugin={long: [long] * 9})
        for number in range(100)
        for each in pair.baseline.cases[:1]
    )
    wide = {
        "command": [long] * 300,
        "environment": {f"{long}{number}": long for number in range(50)},
        "machine": msgspec.structs.replace(
            pair.baseline.machine, versions={f"{long}{number}": long for number in range(300)}
        ),
        "cases": cases,
    }
    told = msgspec.structs.replace(
        pair.comparison, reasons=(long,) * 300, no_release_evidence=(long,) * 300
    )
    return pair._replace(
        comparison=told,
        baseline=msgspec.structs.replace(pair.baseline, **wide),
        fixed=msgspec.structs.replace(pair.fixed, **wide),
    )


@pytest.mark.parametrize("make", [*EVERY.values(), oversized, lambda: pairs.many(1000, 3)])
def test_it_is_never_longer_than_github_takes(make: object) -> None:
    assert callable(make)
    assert len(drawn(make(), log="x" * 5_000_000)) < markdown.AT_MOST


def test_what_was_left_out_is_said() -> None:
    text = drawn(oversized())
    assert "Details were left out to stay below GitHub's limit" in text
    assert "## VII. AI coding disclosure" in text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("kling/retry/1: expected no check to fail", "kling/retry/1: expected no check to fail"),
        ("run `nox -s unit` again", "run `nox -s unit` again"),
        ("retry_path, client_body", "retry_path, client_body"),
        ("@maintainer", "`@maintainer`"),
        ("see https://evil.example", "`see https://evil.example`"),
        ("see www.evil.example", "`see www.evil.example`"),
        ("closes #1", "`closes #1`"),
        ("GH-12", "`GH-12`"),
        ("<b>", "`<b>`"),
        ("_emphasis_", "`_emphasis_`"),
        (":tada:", "`:tada:`"),
        ("faccaad586", "`faccaad586`"),
        ("one ` tick", "``one ` tick``"),
        ("a `` b", "```a `` b```"),
        ("a" * 50, "`aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa… (50 characters)`"),
    ],
)
def test_only_plain_words_stand_outside_of_code(text: str, written: str) -> None:
    assert markup.said(text, 40) == written


@pytest.mark.parametrize("text", ["`", "``a``", " a ", "a|b", "\n", "", "   ", "`a", "a`"])
def test_a_code_span_is_one_whatever_is_in_it(text: str) -> None:
    written = markup.code(text, 100)
    seen = [token for token in tokens(f"x {written} y") if token.type == "code_inline"]
    if text.strip(" "):
        assert [token.content.strip() for token in seen] == [
            text.replace("|", "⟨U+007C⟩").replace("\n", "⟨U+000A⟩").strip()
        ]
    else:
        assert written in ("(empty)", "(blanks)")


@pytest.mark.parametrize("text", ["```", "````\n```", "~~~", "a\n```\n# no", "</details>", ""])
def test_a_block_is_one_whatever_is_in_it(text: str) -> None:
    seen = list(tokens(f"before\n\n{markup.block(text, 100)}\n\nafter"))
    assert [token.content.strip("\n") for token in seen if token.type == "fence"] == [text]
    assert [token.content for token in seen if token.type == "text"] == ["before", "after"]


def test_plain_words_are_told_apart_in_no_time_whatever_the_text() -> None:
    assert markup.said("a" * 30_000 + "_" * 30_000 + "!", 10**6).startswith("`")


@pytest.mark.parametrize("dirty", [True, False])
def test_a_work_tree_is_run_again_by_its_commit_and_its_patch(*, dirty: bool) -> None:
    fix = replace(FIX, origin=Origin(kind=FixKind.WORK_TREE), left_out=[])
    changes = Patch.of(b"x") if dirty else None
    made = module(F, commit="9" * 40, dirty=dirty, uncommitted=changes, fix=fix, unpublished=True)
    command = ["--variant=fixed", "--baseline-ref=main", "--fixed-worktree", "--go=go1.26.8"]

    *before, last = report_fields.rerun(run(B), run(F, module=made, command=command), unit=False)

    assert ("--fixed-worktree" in last.split()) is dirty
    assert (f"--fixed-ref={'9' * 40}" in last.split()) is not dirty
    assert {f"--baseline-ref={'c' * 40}", "--go=go1.26.8"} <= {*last.split()}
    assert any("config/uncommitted.patch" in line for line in before) is dirty
    assert any("9" * 40 in line and "no branch" in line for line in before)


def test_a_report_names_what_was_left_out_and_what_nobody_else_can_fetch() -> None:
    fix = replace(FIX, left_out=["HEAD (abc123)"], applied="structural rules")
    made = module(F, fix=fix, unpublished=True)

    told = {each.what: each.fixed for each in report_fields.provenance(run(B), run(F, module=made))}

    assert told["not part of the fixed module"] == "HEAD (abc123)"
    assert told["how it was applied"] == "structural rules"
    assert "no branch" in (told["whether others can fetch it"] or "")
