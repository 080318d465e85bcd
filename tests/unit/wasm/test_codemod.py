"""Rules on Go files in memory: what they change, what they keep, what they refuse."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from wasm.foundation.errors import MisfitError, SourceError
from wasm.golang.codemod import Rewrite, Rule, apply, call, inside, method, read_package

FILE = "provider/a.go"
DIFFERS = (
    "this tree is not the one the fix was written for; give the fix by --fixed-ref or --fixed-patch"
)

SEND_LATER = Rule(
    id="send-later",
    says="A send is told to be late.",
    file=FILE,
    where={"rule": call("$CLIENT.send($WHAT)")},
    rewrite={"WHAT": "$WHAT, later"},
    places=1,
)

IF_CHAIN = Rule(
    id="swap-branches",
    says="The second branch comes first.",
    file=FILE,
    where={
        "rule": {
            "kind": "if_statement",
            "all": [
                {"has": {"field": "condition", "pattern": "$FIRST"}},
                {"has": {"field": "consequence", "pattern": "$THEN"}},
                {
                    "has": {
                        "field": "alternative",
                        "kind": "if_statement",
                        "all": [
                            {"has": {"field": "condition", "pattern": "$SECOND"}},
                            {"has": {"field": "consequence", "pattern": "$ELSE"}},
                        ],
                    },
                },
            ],
        },
    },
    rewrite={"FIRST": "$SECOND", "THEN": "$ELSE", "SECOND": "$FIRST", "ELSE": "$THEN"},
    places=1,
)


def applied(source: str, *rules: Rule) -> str:
    """The text of the one file after rules."""
    content = source.encode()
    return apply(rules, {FILE: content}).files.get(FILE, content).decode()


def refusal(tree: dict[str, bytes], *rules: Rule) -> str:
    """The sentence with which rules refuse a tree."""
    with pytest.raises(SourceError) as refused:
        apply(rules, tree)
    assert isinstance(refused.value, MisfitError) is ("--fixed-" in str(refused.value))
    return str(refused.value)


def body(*lines: str) -> str:
    """A Go file with one method, of these lines."""
    inner = "".join(f"\t{line}\n" for line in lines)
    return f"package provider\n\nfunc (c *Client) run() {{\n{inner}}}\n"


def test_the_piece_that_a_metavariable_names_is_rewritten() -> None:
    assert applied(body("c.send(one)"), SEND_LATER) == body("c.send(one, later)")


def test_the_result_holds_changed_files_and_the_places_of_each_rule() -> None:
    tree = {FILE: body("c.send(one)", "c.send(two)").encode(), "provider/b.go": b"package b\n"}
    assert apply([replace(SEND_LATER, places=2)], tree) == Rewrite(
        files={FILE: body("c.send(one, later)", "c.send(two, later)").encode()},
        places={"send-later": 2},
    )


def test_the_tree_stays_as_it_is() -> None:
    tree = {FILE: body("c.send(one)").encode()}
    apply([SEND_LATER], tree)
    assert tree == {FILE: body("c.send(one)").encode()}


def test_a_rule_that_changes_nothing_leaves_no_changed_file() -> None:
    same = replace(SEND_LATER, rewrite={"WHAT": "$WHAT"})
    assert apply([same], {FILE: body("c.send(one)").encode()}) == Rewrite({}, {"send-later": 1})


def test_a_rule_sees_what_the_one_before_it_wrote() -> None:
    again = Rule(
        id="send-at-once",
        says="What was told to be late is told to be now.",
        file=FILE,
        where={"rule": call("$CLIENT.send($WHAT, $WHEN)")},
        rewrite={"WHEN": "now"},
        places=1,
    )
    assert applied(body("c.send(one)"), SEND_LATER, again) == body("c.send(one, now)")


def test_pieces_of_one_place_can_change_places() -> None:
    source = body("if a {", "\tx()", "} else if b {", "\ty()", "} else {", "\tz()", "}")
    swapped = body("if b {", "\ty()", "} else if a {", "\tx()", "} else {", "\tz()", "}")
    assert applied(source, IF_CHAIN) == swapped


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_further_lines_of_a_template_follow_indentation_and_line_endings(newline: str) -> None:
    statement = Rule(
        id="check-first",
        says="A check comes before the send.",
        file=FILE,
        where={
            "rule": {
                "kind": "expression_statement",
                "pattern": "$SEND",
                "has": {"all": [call("$CLIENT.send($WHAT)")]},
            },
        },
        rewrite={"SEND": "if ready {\n\tcheck()\n}\n$SEND"},
        places=1,
    )
    source = body("if x {", "\tc.send(`a", "b`)", "}").replace("\n", newline)
    expected = body(
        "if x {", "\tif ready {", "\t\tcheck()", "\t}", "\tc.send(`a", "b`)", "}"
    ).replace("\n", newline)
    assert applied(source, statement) == expected


@pytest.mark.parametrize(
    "around",
    [
        pytest.param(lambda text: "\ufeff" + text, id="a byte order mark"),
        pytest.param(lambda text: "\n\n// 中文 é 🙂\n" + text, id="blank lines, other scripts"),
        pytest.param(lambda text: text.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(lambda text: text.removesuffix("\n"), id="no newline at the end"),
        pytest.param(lambda text: text + 'var s = "" + ``\n', id="empty strings"),
    ],
)
def test_bytes_around_the_places_are_kept(around: Callable[[str], str]) -> None:
    assert applied(around(body("c.send(one)")), SEND_LATER) == around(body("c.send(one, later)"))


def test_comments_and_strings_are_no_places() -> None:
    lookalikes = ("// c.send(one)", "/* c.send(one) */", 's := "c.send(one)" + `c.send(one)`')
    assert applied(body(*lookalikes, "c.send(one)"), SEND_LATER) == body(
        *lookalikes, "c.send(one, later)"
    )


def test_comments_among_arguments_do_not_hide_a_call() -> None:
    assert applied(body("c.send(/* all */ one)"), SEND_LATER) == body(
        "c.send(/* all */ one, later)"
    )


def test_inside_a_method_reaches_into_function_literals_and_not_into_others() -> None:
    here = replace(
        SEND_LATER,
        where={"rule": {"all": [call("$CLIENT.send($WHAT)"), inside(method("run"))]}},
    )
    other = "\nfunc (c *Client) other() {\n\tc.send(two)\n}\n"
    assert applied(body("func() { c.send(one) }()") + other, here) == (
        body("func() { c.send(one, later) }()") + other
    )


def test_another_number_of_places_is_refused() -> None:
    assert refusal({FILE: body("c.send(one)", "", "c.send(two)").encode()}, SEND_LATER) == (
        "rule send-later applies 2 times in provider/a.go (lines: 4, 6), expected 1; " + DIFFERS
    )
    assert refusal({FILE: body("c.sent(one)").encode()}, SEND_LATER) == (
        "rule send-later applies 0 times in provider/a.go (lines: none), expected 1; " + DIFFERS
    )


def test_places_inside_of_each_other_are_refused() -> None:
    nested = {FILE: body("c.send(c.send(one))").encode()}
    assert refusal(nested, replace(SEND_LATER, places=2)) == (
        "provider/a.go:4 would be changed twice by one rule, expected places apart from each "
        "other; " + DIFFERS
    )


def test_a_missing_file_is_refused() -> None:
    assert refusal({"provider/b.go": b"package provider\n"}, SEND_LATER) == (
        "provider/a.go was not found in the plugin's folder; " + DIFFERS
    )


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        pytest.param(("", "c.send(", "x := ]"), 5, id="text that is skipped"),
        pytest.param(("c.send(one)", "x :="), 5, id="an expression that is missing"),
        pytest.param(("if x {", "c.send(one)"), 7, id="a brace that is missing"),
    ],
)
def test_go_that_does_not_parse_is_refused_with_its_line(lines: tuple[str, ...], line: int) -> None:
    assert refusal({FILE: body(*lines).encode()}, SEND_LATER) == (
        f"provider/a.go:{line} does not parse as Go; "
        "see what `gofmt -l provider/a.go` says and correct the file"
    )


def test_other_encodings_are_refused_with_their_line() -> None:
    assert refusal({FILE: b"package provider\n\n// caf\xe9\n"}, SEND_LATER) == (
        "provider/a.go:3 is not UTF-8, as Go source must be; re-encode or restore the file"
    )


def test_a_package_is_read_without_what_is_not_its_go(tmp_path: Path) -> None:
    package = tmp_path / "provider"
    (package / "folder.go").mkdir(parents=True)
    (package / "sub").mkdir()
    (package / "sub" / "c.go").write_bytes(b"package sub\n")
    (package / "a.go").write_bytes(b"package provider\r\n")
    (package / "README.md").write_bytes(b"\n")
    assert read_package(tmp_path, "provider") == {"provider/a.go": b"package provider\r\n"}


def test_a_folder_without_the_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as refused:
        read_package(tmp_path, "provider")
    assert str(refused.value) == (
        f"{tmp_path}/provider holds no Go files, expected the package provider of the plugin; "
        "name the plugin's folder by --source and --plugin"
    )
