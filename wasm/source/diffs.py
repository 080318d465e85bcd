"""What a patch file holds, as git reads it; what is not one diff against one tree is refused.

``git apply`` takes a series of commits for one diff: it applies them in the file's order, to trees
that they were not made on, and may end with status 0 and a tree that nobody wrote.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wasm.foundation.errors import SourceError
from wasm.source import git

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
# What begins a commit in the output of `git format-patch --stdout`, of `git log -p` and `git show`.
_COMMIT = re.compile(
    rb"From ([0-9a-f]{40,64}) Mon Sep 17 00:00:00 2001|commit ([0-9a-f]{40,64})(?: \(.*\))?"
)
# A mail as others than git write it.
_MAIL = re.compile(rb"From \S+ .*\d\d:\d\d:\d\d.* \d{4}|Subject: .*\[[^]]*PATCH[^]]*\].*")
_COMBINED = re.compile(rb"diff --(?:cc|combined) .*")
_CRLF = re.compile(rb"^diff --git .*\r$", re.MULTILINE)
# In a mail's header; a hunk's lines begin otherwise.
_TRANSFER = re.compile(
    rb"^content-transfer-encoding:\s*(quoted-printable|base64)", re.MULTILINE | re.IGNORECASE
)
_INDEX = re.compile(rb"index ([0-9a-f]+)\.\.[0-9a-f]+(?: (\d+))?")
_MODE = re.compile(rb"(?:new file|deleted file|old|new) mode (\d+)")
_ESCAPED = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPES = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_ESCAPES |= {b"v": b"\v"}
_SUBMODULE = "160000"
_ENCODED = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a diff does to one file.

    Attributes:
        old: Its path before; None for a file that is created.
        new: Its path after; None for a file that is deleted.
        copied: Whether the file at ``old`` stays.
        before: Git's name for the content before, or the beginning of it; empty where it is not
            told.
        modes: Git's modes that are named, before and after.
    """

    old: str | None
    new: str | None
    copied: bool
    before: str
    modes: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The path after, and the one before where that is another."""
        return tuple(dict.fromkeys(path for path in (self.new, self.old) if path is not None))

    @property
    def changes(self) -> tuple[str, ...]:
        """The paths at which it changes the tree."""
        return self.paths[:1] if self.copied else self.paths

    @property
    def is_submodule(self) -> bool:
        """Whether it is a submodule's commit, not a file's content."""
        return _SUBMODULE in self.modes


def read(patch: bytes, folder: Path, shown: str, baseline: str = "BASELINE") -> list[Entry]:
    """Return what a patch does to each file, in its order.

    Args:
        patch: Its bytes.
        folder: Where git is started; nothing in it is read or written.
        shown: How messages name the patch.
        baseline: How a command names the commit that it has to fit.

    Raises:
        SourceError: It is not one diff that git can read.
    """
    _refuse_other_bytes(patch, shown)
    parts = list(_parts(patch, shown))
    commits = list(dict.fromkeys(part.commit for part in parts))
    if len(commits) > 1:
        # `git log` begins with the last commit, `git format-patch` ends with it.
        named = [commit for commit in commits if commit.name]
        tip = named[0 if named[0].is_log else -1].name[:12] if named else "BRANCH"
        raise SourceError(
            f"the patch {shown} holds {len(commits)} commits; expected one diff against the "
            "baseline, since git applies a series to trees that it was not made on; make one with "
            f"`git diff --binary {baseline} {tip} > one.patch`, or name the commit with "
            "--fixed-ref"
        )
    listed = git.run("apply", "--numstat", "-z", "-", cwd=folder, env=alone(folder), stdin=patch)
    if not listed.succeeded:
        raise unfit(shown, git.reason(listed), patch)
    names = [os.fsdecode(row.split(b"\t", 2)[2]) for row in listed.stdout.split(b"\0") if row]
    if len(names) != len(parts):
        raise unfit(shown, f"git reads {len(names)} files in it, {len(parts)} are named", patch)
    entries = [part.entry(name) for part, name in zip(parts, names, strict=True)]
    for path in (path for entry in entries for path in entry.paths):
        # git refuses such a path, too, unless it is told to leave it out.
        if {"", ".", ".."} & {*path.split("/")}:
            raise unfit(shown, f"invalid path '{path}'", patch)
    _refuse_several_trees(entries, shown, baseline)
    return entries


def alone(folder: Path) -> dict[str, str]:
    """Return what keeps repositories around a folder and the user's settings out of git."""
    return {
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }


def unfit(shown: str, reason: str, patch: bytes) -> SourceError:
    """Return what to raise for a patch that git does not take."""
    ends = " (it has lines that end in CRLF)" if b"\r\n" in patch else ""
    return SourceError(
        f"the patch {shown} does not apply: {reason}{ends}; expected a patch against the "
        "baseline as `git diff` writes it at the repository's root; make it again from there"
    )


def _refuse_other_bytes(patch: bytes, shown: str) -> None:
    found = ""
    if not patch.strip():
        found = "is empty"
    elif patch.startswith(_ENCODED) or b"\0d\0i\0f\0f\0" in patch:
        found = "begins with a byte order mark, or is UTF-16, as PowerShell's > writes it"
    elif re.search(rb"^\x1b\[[0-9;]*m(?:diff|---)", patch, re.MULTILINE):
        found = "holds a terminal's colours"
    elif encoded := _TRANSFER.search(patch):
        found = f"is a mail in the encoding {encoded[1].decode()}, which git apply does not undo"
    elif _CRLF.search(patch):
        found = "has headers whose lines end in CRLF"
    if found:
        raise SourceError(
            f"the patch {shown} {found}; expected the bytes that git writes; make it again with "
            "`git diff --no-color --output=FILE`"
        )


@dataclass(frozen=True)
class _Commit:
    """A commit of a patch file: its place in it, and its name where it is told."""

    number: int
    name: str = ""
    is_log: bool = False

    @property
    def is_quotable(self) -> bool:
        """Whether the line that begins it may stand in the message of another."""
        return self.is_log or not self.name


@dataclass(frozen=True)
class _Part:
    """The lines of a patch that stand before a file's hunks, and the commit they belong to."""

    commit: _Commit
    header: tuple[bytes, ...]

    def entry(self, name: str) -> Entry:
        """Return what it does to a file, whose path git gave: the new one where there is one."""
        told = {line.partition(b" ")[0]: line for line in self.header}
        index = _INDEX.match(told.get(b"index", b""))
        modes = [found[1].decode() for line in self.header if (found := _MODE.match(line))]
        modes += [index[2].decode()] if index and index[2] else []
        source = self._named(b"rename from ") or self._named(b"copy from ")
        created = b"new" in told and any(line.startswith(b"new file") for line in self.header)
        return Entry(
            old=None if created else source or name,
            new=None if b"deleted" in told else name,
            copied=b"copy" in told,
            before=index[1].decode() if index else "",
            modes=tuple(modes),
        )

    def _named(self, key: bytes) -> str | None:
        for line in self.header:
            if line.startswith(key):
                return os.fsdecode(_unquoted(line.removeprefix(key)))
        return None


def _parts(patch: bytes, shown: str) -> Iterator[_Part]:
    """Find each file's part; what stands in a hunk is no header, whatever it looks like."""
    lines = patch.split(b"\n")
    commit, is_new = _Commit(0), False
    at = 0
    while at < len(lines):
        if _COMBINED.fullmatch(lines[at]):
            raise SourceError(
                f"the patch {shown} holds the combined diff of a merge, which git does not apply; "
                "expected a diff against the baseline alone; make it with `git diff --binary "
                "BASELINE BRANCH`"
            )
        begun = _begun(lines[at], commit.number + 1)
        # A commit's own message may quote another's name.
        if begun and not (is_new and begun.is_quotable):
            commit, is_new = begun, True
        end = _header_end(lines, at)
        if end == at:
            at += 1
            continue
        yield _Part(commit, tuple(lines[at:end]))
        at, is_new = end, False
        while at < len(lines) and _HUNK.match(lines[at]):
            at = _hunk_end(lines, at)


def _begun(line: bytes, number: int) -> _Commit | None:
    """Return the commit that begins with a line."""
    found = _COMMIT.fullmatch(line)
    if found is None:
        return _Commit(number) if _MAIL.fullmatch(line) else None
    name = (found[1] or found[2]).decode()
    return _Commit(number, name if name.strip("0") else "", is_log=found[1] is None)


def _header_end(lines: Sequence[bytes], at: int) -> int:
    """Return where a file's header ends that begins at a line; that line where none does."""
    if lines[at].startswith(b"diff --git "):
        end = at + 1
        while end < len(lines) and _goes_on(lines[end]):
            end += 1
        return end
    has_names = [line[:4] for line in lines[at : at + 2]] == [b"--- ", b"+++ "]
    return at + 2 if has_names and _HUNK.match(b"".join(lines[at + 2 : at + 3])) else at


def _goes_on(line: bytes) -> bool:
    starts = (b"old mode ", b"new mode ", b"new file mode ", b"deleted file mode ", b"index ")
    more = (b"rename ", b"copy ", b"similarity ", b"dissimilarity ", b"--- ", b"+++ ")
    return line.startswith((*starts, *more))


def _hunk_end(lines: Sequence[bytes], at: int) -> int:
    found = _HUNK.match(lines[at])
    before, after = (int(found[n] or 1) if found else 0 for n in (1, 2))
    at += 1
    while at < len(lines) and (before > 0 or after > 0 or lines[at].startswith(b"\\")):
        kind = lines[at][:1]
        before -= kind in (b" ", b"-", b"")
        after -= kind in (b" ", b"+", b"")
        at += 1
    return at


def _unquoted(name: bytes) -> bytes:
    """Return a path that git may have written in quotes."""
    if not (name.startswith(b'"') and name.endswith(b'"')):
        return name

    def one(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes([int(code, 8)]) if len(code) > 1 else _ESCAPES.get(code, code)

    return _ESCAPED.sub(one, name[1:-1])


def _refuse_several_trees(entries: Sequence[Entry], shown: str, baseline: str) -> None:
    """Refuse diffs of which one is made on what another leaves."""
    changed: dict[str, Entry] = {}
    for entry in entries:
        for path in entry.changes:
            other = changed.setdefault(path, entry)
            if other is not entry and not _is_other_kind(other, entry):
                raise _several(path, shown, baseline)
    for entry in entries:
        source = changed.get(entry.old or "")
        # A copy is of the file as the baseline has it; `git diff -C` tells the same of both.
        if entry.copied and source is not None and source.old == source.new and source.before:
            told = entry.before and entry.before[: len(source.before)]
            if not told or not source.before.startswith(told):
                raise _several(entry.old or "", shown, baseline)


def _is_other_kind(one: Entry, other: Entry) -> bool:
    """Whether a file becomes a link, or the reverse: git writes that as two entries."""
    kinds = [{mode[:3] for mode in entry.modes} for entry in (one, other)]
    return one.new is None and other.old is None and not kinds[0] & kinds[1]


def _several(path: str, shown: str, baseline: str) -> SourceError:
    return SourceError(
        f"the patch {shown} changes {path} more than once, as several diffs one after the other "
        "do; expected one diff against the baseline; make it with `git diff --binary --no-renames "
        f"{baseline} BRANCH > one.patch`, or name the commit with --fixed-ref"
    )
