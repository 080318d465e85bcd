"""Changes Go source by structural rules, and refuses a tree they were not written for.

A rule is data: where it applies (an ast-grep configuration), what becomes of the pieces of code
found there, and how many places there must be. Rules are applied in order, each to what the one
before it left, so a further rule may change what an earlier one wrote. Text outside the changed
pieces keeps its bytes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ast_grep_py import Config, SgNode, SgRoot
from ast_grep_py import Rule as Match

from wasm.foundation.errors import MisfitError, SourceError

DIFFERS = "this tree is not the one the fix was written for; give the fix by --fixed-ref or \
--fixed-patch"
"""What to do when a tree differs: an advice."""

_METAVARIABLE = re.compile(r"\$([A-Z][A-Z0-9_]*)")

# What the parser makes of text that is not Go: a node for what it skipped, or an empty one for
# what it missed. The only empty node of Go that parses is what an empty raw string holds.
_NOT_GO: Config = {
    "rule": {
        "any": [
            {"kind": "ERROR"},
            {"regex": "^$", "not": {"kind": "raw_string_literal_content"}},
        ],
    },
}


@dataclass(frozen=True)
class Rule:
    """One structural change.

    Attributes:
        id: Its name, in kebab-case.
        says: What it changes, in a sentence.
        file: The Go file it changes; a path within the plugin's folder, with slashes.
        where: The ast-grep configuration that finds its places and names pieces of them by
            metavariables.
        rewrite: What each named piece becomes: metavariable, without ``$``, to a template in
            which ``$NAME`` stands for what that metavariable found. Further lines of a template
            get the indentation of the line on which the piece starts.
        places: In how many places it must apply.
    """

    id: str
    says: str
    file: str
    where: Config
    rewrite: Mapping[str, str]
    places: int


@dataclass(frozen=True)
class Rewrite:
    """What rules made of a tree.

    Attributes:
        files: The files that changed, and no others: path to new content.
        places: In how many places each rule applied: rule id to count.
    """

    files: dict[str, bytes]
    places: dict[str, int]


def method(name: str, *also: Match) -> Match:
    """Match the declaration of a method by its name, of which more may have to hold."""
    return {
        "kind": "method_declaration",
        "all": [{"has": {"field": "name", "regex": f"^{name}$"}}, *also],
    }


def call(code: str) -> Match:
    """Match a call, given in Go with metavariables; comments among its arguments do not matter."""
    return {
        "pattern": {
            "context": f"package p\nfunc _() {{ {code} }}",
            "selector": "call_expression",
            "strictness": "relaxed",
        },
    }


def inside(match: Match) -> Match:
    """Match what is inside of a match, however deep."""
    return {"inside": {"stopBy": "end", "all": [match]}}


def assigned(name: str) -> Match:
    """Match a name that an assignment gives another value."""
    statement: Match = {"kind": "assignment_statement"}
    return {
        "kind": "identifier",
        "regex": f"^{name}$",
        "inside": {
            "kind": "expression_list",
            "inside": {"field": "left", "all": [statement]},
        },
    }


def declared_inside(name: str) -> Config:
    """Match what declares a name in the body of a method."""
    on_the_left: list[Match] = [
        {"inside": {"kind": kind, "field": field, "stopBy": "end"}}
        for kind, field in (
            ("short_var_declaration", "left"),
            ("range_clause", "left"),
            ("receive_statement", "left"),
            ("type_switch_statement", "alias"),
        )
    ]
    as_name: list[Match] = [
        {"inside": {"kind": kind, "field": "name"}}
        for kind in ("var_spec", "const_spec", "parameter_declaration")
    ]
    return {
        "rule": {
            "kind": "identifier",
            "regex": f"^{name}$",
            "any": [*on_the_left, *as_name],
            "all": [inside({"kind": "block"})],
        },
    }


def types_of(declared: SgNode | None) -> list[str]:
    """The types of a list of parameters or results, one for each name."""
    types = []
    for each in declared.named_children() if declared else []:
        of_type = each.field("type")
        if of_type is not None:
            variadic = "..." * (each.kind() == "variadic_parameter_declaration")
            types += [variadic + of_type.text()] * max(1, len(each.field_children("name")))
    return types


def apply(rules: Sequence[Rule], tree: Mapping[str, bytes]) -> Rewrite:
    """Apply rules, in order, to the Go files of a tree, which stays as it is.

    Raises:
        SourceError: A file is missing or is not Go, or a rule applies in another number of
            places than it states.
    """
    files: dict[str, bytes] = {}
    places: dict[str, int] = {}
    for rule in rules:
        before = GoFile.parse(rule.file, {**tree, **files})
        found = before.root.find_all(rule.where)
        if len(found) != rule.places:
            raise _other_number_of_places(rule, found)
        edits = [edit for place in found for edit in _edits(rule, before, place)]
        files[rule.file] = before.with_edits(edits)
        places[rule.id] = len(found)
    return Rewrite({path: new for path, new in files.items() if new != tree[path]}, places)


def read_package(folder: Path, package: str) -> dict[str, bytes]:
    """Read the Go files of one package of the plugin in a folder: path in that folder to content.

    Raises:
        SourceError: There are none.
    """
    paths = sorted(path for path in (folder / package).glob("*.go") if path.is_file())
    if not paths:
        raise SourceError(
            f"{folder / package} holds no Go files, expected the package {package} of the plugin; "
            "name the plugin's folder by --source and --plugin"
        )
    return {f"{package}/{path.name}": path.read_bytes() for path in paths}


@dataclass(frozen=True)
class Edit:
    """Other text for the characters from ``start`` up to ``end``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class GoFile:
    """A parsed Go file: its path in the plugin's folder, its text, its syntax tree."""

    path: str
    text: str
    root: SgNode

    @classmethod
    def parse(cls, path: str, tree: Mapping[str, bytes]) -> Self:
        """Parse one file of a tree.

        Raises:
            SourceError: It is missing, is not UTF-8, or does not parse.
        """
        if path not in tree:
            raise MisfitError(f"{path} was not found in the plugin's folder", advice=DIFFERS)
        try:
            text = tree[path].decode()
        except UnicodeDecodeError as error:
            line = tree[path].count(b"\n", 0, error.start) + 1
            raise SourceError(
                f"{path}:{line} is not UTF-8, as Go source must be",
                advice="re-encode or restore the file",
            ) from error
        file = cls(path, text, SgRoot(text, "go").root())
        if not_go := file.root.find(_NOT_GO):
            raise SourceError(
                f"{file.at(not_go)} does not parse as Go",
                advice=f"see what `gofmt -l {path}` says and correct the file",
            )
        return file

    def at(self, node: SgNode) -> str:
        """Where a node starts, as ``path:line``."""
        return f"{self.path}:{line_of(node)}"

    def indentation_at(self, index: int) -> str:
        """What the line of a character starts with."""
        line = self.text[self.text.rfind("\n", 0, index) + 1 : index]
        return line[: len(line) - len(line.lstrip())]

    def with_edits(self, edits: Sequence[Edit]) -> bytes:
        """Its content with edits made.

        ast-grep's own ``commit_edits`` is not used: it drops what comes before the first token,
        such as a byte order mark.

        Raises:
            SourceError: Two edits overlap.
        """
        parts: list[str] = []
        done = 0
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            if edit.start < done:
                line = self.text.count("\n", 0, edit.start) + 1
                raise MisfitError(
                    f"{self.path}:{line} would be changed twice by one rule, expected places "
                    "apart from each other",
                    advice=DIFFERS,
                )
            parts += [self.text[done : edit.start], edit.text]
            done = edit.end
        return "".join([*parts, self.text[done:]]).encode()


def line_of(node: SgNode) -> int:
    """The line on which a node starts, from 1."""
    return node.range().start.line + 1


def _edits(rule: Rule, file: GoFile, place: SgNode) -> list[Edit]:
    """What a rule changes in one of its places."""
    newline = "\r\n" if "\r\n" in file.text else "\n"
    edits = []
    for name, template in rule.rewrite.items():
        piece = place[name].range()
        start, end = piece.start.index, piece.end.index
        lines = template.replace("\n", newline + file.indentation_at(start))
        text = _METAVARIABLE.sub(lambda metavariable: place[metavariable[1]].text(), lines)
        edits.append(Edit(start, end, text))
    return edits


def _other_number_of_places(rule: Rule, found: Sequence[SgNode]) -> MisfitError:
    """Say that a rule's count does not hold."""
    lines = ", ".join(str(line_of(place)) for place in found) or "none"
    return MisfitError(
        f"rule {rule.id} applies {len(found)} times in {rule.file} (lines: {lines}), "
        f"expected {rule.places}",
        advice=DIFFERS,
    )
