"""A variant's files as they lie in a folder of ours: written, patched, and named by a digest."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wasm import git
from wasm.errors import SourceError
from wasm.records import sha256_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINK = "120000"
_EXECUTABLE = "100755"


@dataclass(frozen=True)
class File:
    """One file of a tree: its path in the repository, git's mode, and its bytes."""

    path: str
    mode: str
    content: bytes


def write(files: Sequence[File], folder: Path, shown: str) -> None:
    """Write files below a folder, executable bits and links included.

    Raises:
        SourceError: A link leads out of the folder.
    """
    for file in files:
        target = folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.mode == _LINK:
            target.symlink_to(os.fsdecode(file.content))
            continue
        target.write_bytes(file.content)
        if file.mode == _EXECUTABLE:
            target.chmod(0o755)
    _refuse_links_out(folder, shown)


def apply(patch: bytes, folder: Path, within: Sequence[str], shown: str) -> None:
    """Apply a patch to a tree that is not a repository, and prove that the tree changed.

    git skips a patch's files that lie outside the folder it was started in, with status 0
    (bun 35099 is one report of it): hence the look at the tree before and after.

    Args:
        patch: Its bytes.
        folder: Stands for the repository's root.
        within: The folders of the repository that were taken out; the rest of a patch is no
            concern of a build.
        shown: How messages name the patch.

    Raises:
        SourceError: It does not apply, or changes nothing of the plugin.
    """
    before = digest(folder)
    done = git.run(
        "apply",
        "--whitespace=nowarn",
        "--no-ignore-whitespace",
        *(f"--include={_glob_below(name)}" for name in within),
        "-",
        cwd=folder,
        # No repository around the cache, and no setting of the user's, takes part.
        env={
            "GIT_CEILING_DIRECTORIES": str(folder.parent),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        },
        stdin=patch,
    )
    if not done.succeeded:
        raise SourceError(
            f"the patch {shown} does not apply: {git.reason(done)}; expected a patch against the "
            "baseline as `git diff` writes it at the repository's root; make it again from there"
        )
    if digest(folder) == before:
        place = f"below {within[0]}" if within[0] != "." else "of the plugin"
        example = Path("a", within[0], "main.go").as_posix()
        raise SourceError(
            f"the patch {shown} changes nothing {place}; expected paths as seen from the "
            f"repository's root, such as {example}; make it again from there"
        )
    _refuse_links_out(folder, shown)


def changed(patch: bytes, folder: Path, within: Sequence[str]) -> list[str]:
    """Return which of some folders of the repository a patch changes; it need not apply."""
    listed = git.run(
        "apply",
        "--numstat",
        "-z",
        "-",
        cwd=folder,
        env={"GIT_CEILING_DIRECTORIES": str(folder.parent)},
        stdin=patch,
    )
    paths = [row.split(b"\t")[-1] for row in listed.stdout.split(b"\0") if row]
    found = set()
    for path in map(os.fsdecode, paths):
        holding = [each for each in within if each == "." or path.startswith(f"{each}/")]
        if holding:
            found.add(max(holding, key=len))
    return sorted(found)


def digest(folder: Path) -> str:
    """Return the SHA-256 over path, kind and bytes of every file below a folder."""
    rows: list[str] = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            rows.append(f"link {name} {path.readlink()}")
        elif path.is_file():
            kind = "exec" if os.access(path, os.X_OK) else "file"
            rows.append(f"{kind} {name} {sha256_of(path.read_bytes())}")
    return sha256_of("\n".join(rows).encode("utf-8", "surrogateescape"))


def _refuse_links_out(folder: Path, shown: str) -> None:
    root = os.path.realpath(folder)
    for path in folder.rglob("*"):
        if path.is_symlink() and os.path.commonpath([root, os.path.realpath(path)]) != root:
            raise SourceError(
                f"{path.relative_to(folder).as_posix()} in {shown} is a link to "
                f"{path.readlink()}, outside the repository; expected a tree that stands alone; "
                "replace the link by the file"
            )
        # Go passes over a file that begins so, and over none else.
        if path.suffix == ".go" and path.name[0] not in "._" and not path.exists():
            raise SourceError(
                f"{path.relative_to(folder).as_posix()} in {shown} is a link to "
                f"{path.readlink()}, which is not among the files of the plugin; expected a tree "
                "that stands alone; replace the link by the file"
            )


def _glob_below(folder: str) -> str:
    """Return git's pattern for every path below a folder, whose own name is no pattern."""
    if folder == ".":
        return "*"
    return re.sub(r"([*?\[\\])", r"\\\1", folder) + "/*"
