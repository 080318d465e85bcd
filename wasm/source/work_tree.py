"""A work tree as it lies on the disk: the files that belong to it, each with the bytes there.

git is asked for names alone. Its own picture of the files (what it takes for unchanged, what an
attribute or a filter makes of them) has no part in what is taken.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wasm.foundation.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LINK, _SUBMODULE = b"120000", b"160000"
_SHA1_DIGITS = 40


@dataclass(frozen=True)
class WorkTree:
    """The work tree of a repository.

    Attributes:
        folder: Its top.
        index: The user's index.
        copy: Where ours is, as the two functions know.
        name: How messages name the repository.
        trusts_modes: Whether the disk knows which file is executable (git's core.fileMode).
        ask: Runs git and returns what it wrote.
        write: The same for what writes objects.
    """

    folder: Path
    index: Path
    copy: Path
    name: str
    trusts_modes: bool
    ask: Callable[..., bytes]
    write: Callable[..., bytes]

    def rows(self, folders: Sequence[str], more: Iterable[str] = ()) -> bytes:
        """Return the files of these folders as git lists them, their bytes written as objects.

        They are what git tracks (a staged file too, whatever rule ignores it), untracked files that
        no rule ignores, and ``more``. A file that a sparse checkout left out is as in the index.

        Raises:
            SourceError: A submodule, or a repository of its own, lies there.
        """
        tracked = self._tracked(folders)
        others = self.ask("ls-files", "-z", "--others", "--exclude-standard", "--", *folders)
        rows, changed = b"", {}
        for path in sorted({*tracked, *others.split(b"\0"), *map(os.fsencode, more)} - {b""}):
            if path.endswith(b"/"):
                raise not_files_only(path, "repository of its own", self.name)
            known, lying = tracked.get(path), self._lying(path)
            if lying is None:
                if known is not None and known.left_out:
                    rows += b"%b %b\t%b\0" % (known.mode, known.name, path)
                continue
            if (
                known is not None
                and not self.trusts_modes
                and _LINK not in (known.mode, lying.mode)
            ):
                lying = replace(lying, mode=known.mode)
            if known is not None and known.name == lying.name(len(known.name)):
                rows += b"%b %b\t%b\0" % (lying.mode, known.name, path)
            else:
                changed[path] = lying
        return rows + self._written(changed)

    def left_out(self, folders: Sequence[str]) -> list[str]:
        """Return the files of these folders that a sparse checkout left out."""
        entries = self._tracked(folders).items()
        found = [path for path, entry in entries if entry.left_out and self._lying(path) is None]
        return [os.fsdecode(path) for path in found]

    def ignored(self, folders: Sequence[str]) -> list[str]:
        """Return what rules of git ignore in these folders; a folder of such files ends with /."""
        options = ("-z", "--others", "--ignored", "--exclude-standard", "--directory")
        listed = self.ask("ls-files", *options, "--", *folders)
        return [os.fsdecode(path) for path in listed.split(b"\0") if path]

    def _tracked(self, folders: Sequence[str]) -> dict[bytes, _Entry]:
        """Return what HEAD and, before it, a copy of the user's index have of these folders.

        What is in HEAD alone may still lie there: taken off the index, or never put into one.
        """
        self.copy.unlink(missing_ok=True)
        if self.index.is_file():
            shutil.copyfile(self.index, self.copy)
        found = {}
        for row in self.ask("ls-tree", "-r", "-z", "--full-tree", "HEAD", "--", *folders).split(
            b"\0"
        ):
            meta, _, path = row.partition(b"\t")
            mode, name = meta[:6], meta.rpartition(b" ")[2]
            if mode not in (b"", _SUBMODULE):
                found[path] = _Entry(mode, name, left_out=False)
        for row in self.ask("ls-files", "-t", "--stage", "-z", "--", *folders).split(b"\0"):
            if not row:
                continue
            meta, _, path = row.partition(b"\t")
            tag, mode, name, _ = meta.split()
            if mode == _SUBMODULE:
                raise not_files_only(path, "submodule", self.name)
            found[path] = _Entry(mode, name, left_out=tag == b"S")
        return found

    def _lying(self, path: bytes) -> _Lying | None:
        """Return what lies at a path; None for no file, and for one beyond a link."""
        top = os.fsencode(self.folder) + b"/"
        parts = path.split(b"/")
        if any(os.path.islink(top + b"/".join(parts[:n])) for n in range(1, len(parts))):  # noqa: PTH114 - bytes
            return None
        try:
            mode = os.lstat(top + path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(mode):
            return _Lying(_LINK, os.readlink(top + path))  # noqa: PTH115 - bytes
        if not stat.S_ISREG(mode):
            return None
        with open(top + path, "rb") as file:  # noqa: PTH123 - bytes
            return _Lying(b"100755" if mode & stat.S_IXUSR else b"100644", file.read())

    def _written(self, files: dict[bytes, _Lying]) -> bytes:
        """Write files as objects, and return their rows."""
        plain = [path for path, file in files.items() if file.mode != _LINK]
        top = os.fsencode(self.folder) + b"/"
        listed = b"".join(b'"%b"\n' % _escaped(top + path) for path in plain)
        wanted = ("hash-object", "-w", "--no-filters")
        names = dict(
            zip(plain, self.write(*wanted, "--stdin-paths", stdin=listed).split(), strict=True)
        )
        for path in files.keys() - names.keys():
            names[path] = self.write(*wanted, "--stdin", stdin=files[path].content).strip()
        return b"".join(
            b"%b %b\t%b\0" % (file.mode, names[path], path) for path, file in files.items()
        )


@dataclass(frozen=True)
class _Entry:
    """What an index has of a file."""

    mode: bytes
    name: bytes
    left_out: bool


@dataclass(frozen=True)
class _Lying:
    """A file, or a link with its target, as it lies on the disk."""

    mode: bytes
    content: bytes

    def name(self, digits: int) -> bytes:
        """Return git's name for the bytes, SHA-1 or SHA-256 by its length."""
        return blob_name(self.content, digits)


def blob_name(content: bytes, digits: int) -> bytes:
    """Return git's name for the bytes of a file, SHA-1 or SHA-256 by its length."""
    kind = "sha1" if digits == _SHA1_DIGITS else "sha256"
    head = b"blob %d\0" % len(content)
    return hashlib.new(kind, head + content, usedforsecurity=False).hexdigest().encode()


def not_files_only(path: bytes, kind: str, name: str) -> SourceError:
    """Say that something in a folder that is taken is no file."""
    return SourceError(
        f"{os.fsdecode(path).rstrip('/')} in {name} is a {kind}; expected files only "
        "below the plugin's folder; name a source without one there"
    )


def _escaped(path: bytes) -> bytes:
    """Return a path as git takes it in quotes: then it may hold any byte, a line's end too."""
    for byte, escape in ((b"\\", rb"\\"), (b'"', rb"\""), (b"\n", rb"\n"), (b"\r", rb"\r")):
        path = path.replace(byte, escape)
    return path
