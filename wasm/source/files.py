"""A variant's files as they lie in a folder of ours: written, patched, and named by a digest."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wasm.foundation.errors import SourceError
from wasm.records import sha256_of
from wasm.source import diffs, git

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wasm.source.diffs import Entry

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


def add(files: Sequence[File], folder: Path, shown: str) -> None:
    """Write those files that are not there yet.

    Raises:
        SourceError: A link leads out of the folder.
    """
    write([file for file in files if not os.path.lexists(folder / file.path)], folder, shown)


@dataclass(frozen=True)
class Applied:
    """How a patch was applied.

    Attributes:
        changed: How many files it changed.
        outside: How many others it names.
        names: The paths of all files that are there after it, of the others too.
    """

    changed: int
    outside: int
    names: tuple[str, ...]


def apply(  # noqa: PLR0913 - a patch, and all that it has to fit
    patch: bytes,
    folder: Path,
    within: Sequence[str],
    shown: str,
    *,
    baseline: str = "BASELINE",
    elsewhere: Callable[[Sequence[str]], Sequence[File]] = lambda _: (),
) -> Applied:
    """Apply a patch to a tree that is not a repository, and prove that the tree changed.

    git skips a patch's files that lie outside the folder it was started in, with status 0
    (bun 35099 is one report of it): hence the look at the tree before and after. It also skips a
    file that is renamed out of what it is told to include: such a file is written, then removed.

    Args:
        patch: Its bytes.
        folder: Stands for the repository's root.
        within: The folders of the repository that were taken out; the rest of a patch is no
            concern of a build.
        shown: How messages name the patch.
        baseline: How a command names the commit that the patch has to fit.
        elsewhere: Gives files of the repository outside these folders; what is moved or copied
            from there is needed.

    Raises:
        SourceError: It does not apply, is not one diff, or changes nothing of the plugin.
    """
    entries = diffs.read(patch, folder, shown, baseline)
    inside = [each for each in entries if any(_lies_in(path, within) for path in each.changes)]
    _refuse_submodules(inside, shown)
    strangers = [path for each in inside for path in each.paths if not _lies_in(path, within)]
    before = digest(folder)
    add([file for file in elsewhere(strangers) if file.path in strangers], folder, shown)
    includes = [_glob(path) for path in strangers] + [_glob_below(name) for name in within]
    done = git.run(
        "apply",
        "--whitespace=nowarn",
        "--no-ignore-whitespace",
        *(f"--include={glob}" for glob in includes),
        "-",
        cwd=folder,
        env=diffs.alone(folder),
        stdin=patch,
    )
    if not done.succeeded:
        raise diffs.unfit(shown, git.reason(done), patch)
    for path in strangers:
        (folder / path).unlink(missing_ok=True)
    if digest(folder) == before:
        place = f"below {within[0]}" if within[0] != "." else "of the plugin"
        example = Path("a", within[0], "main.go").as_posix()
        raise SourceError(
            f"the patch {shown} changes nothing {place}; expected paths as seen from the "
            f"repository's root, such as {example}; make it again from there"
        )
    _refuse_links_out(folder, shown)
    names = tuple(each.new for each in entries if each.new is not None)
    return Applied(len(inside), len(entries) - len(inside), names)


def _refuse_submodules(entries: Sequence[Entry], shown: str) -> None:
    for entry in entries:
        if entry.is_submodule:
            raise SourceError(
                f"the patch {shown} changes the submodule {entry.paths[0]}; expected files only "
                "below the plugin's folder; name a fix without one there"
            )


def _lies_in(path: str, folders: Sequence[str]) -> bool:
    return any(folder == "." or path.startswith(f"{folder}/") for folder in folders)


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
        # Go passes over a file that begins so, and over none else. Without the last two it builds
        # something else, and says nothing.
        is_read = path.suffix == ".go" and path.name[0] not in "._"
        if (is_read or path.name in {"vendor", "default.pgo"}) and not path.exists():
            raise SourceError(
                f"{path.relative_to(folder).as_posix()} in {shown} is a link to "
                f"{path.readlink()}, which is not among the files of the plugin; expected a tree "
                "that stands alone; replace the link by the file"
            )


def _glob_below(folder: str) -> str:
    """Return git's pattern for every path below a folder, whose own name is no pattern."""
    if folder == ".":
        return "*"
    return f"{_glob(folder)}/*"


def _glob(path: str) -> str:
    """Return git's pattern for a path, whose own name is no pattern."""
    return re.sub(r"([*?\[\\])", r"\\\1", path)
