"""What the user's own `go build` in a plugin's folder would take, beside what is taken out of it.

docs/sources.md has the rule: what would make the two differ is taken along, refused by name, or
noted in the record.
"""

from __future__ import annotations

import shlex
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from wasm.foundation.errors import SourceError
from wasm.golang import golist, toolchain
from wasm.source import repository
from wasm.source.files import File

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from wasm.golang.goversion import GoChoice
    from wasm.records import Source
    from wasm.source.repository import Repository

# What Go reads for a package beside what is embedded, by its suffix.
_SOURCES = frozenset({".mod", ".go", ".s", ".S", ".sx", ".c", ".h", ".syso"})
_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
# Flags that change no module, or that every build here has.
_HARMLESS = frozenset(
    {"buildvcs", "count", "json", "modcacherw", "p", "timeout", "trimpath", "v", "x"}
)
_SHOWN = 3


def no_packages(folders: Sequence[str]) -> list[str]:
    """Return where a build finds what is no package's file, and `go list` does not name."""
    names = ("go.mod", "go.sum", "vendor/modules.txt", "default.pgo")
    return [(PurePosixPath(folder) / name).as_posix() for folder in folders for name in names]


def refuse_hidden_files(found: Repository, named: Path, plugin: str) -> None:
    """Refuse a checkout of which git knows no work tree: its files would be passed over.

    Args:
        found: The repository.
        named: What the user named: a .git folder that is named itself has no work tree.
        plugin: The plugin's folder.

    Raises:
        SourceError: core.bare is set where files of the plugin lie.
    """
    top = found.folder.parent
    if (
        found.bare
        and found.folder.name == ".git"
        and named != found.folder
        and (top / plugin).is_dir()
    ):
        raise SourceError(
            f"core.bare is set in {top}, where files of the plugin lie; expected a checkout, whose "
            "files git may read; run `git config core.bare false` there, or name a commit with "
            "--baseline-ref"
        )


def settings(found: Repository, plugin: str, commit: str | None) -> dict[str, str]:
    """Return the settings of Go that the user's own build takes: of its folder, if that is there.

    Raises:
        BuildError: Go refuses one of them.
    """
    own = found.folder / plugin
    return toolchain.users_own(own if commit is None and own.is_dir() else Path("/"))


def refuse_workspace(
    found: Repository, plugin: str, commit: str | None, own: dict[str, str]
) -> None:
    """Refuse a go.work that the user's own build takes into account, and ours does not.

    Args:
        found: The repository.
        plugin: The plugin's folder in it.
        commit: None for the checkout as it lies.
        own: The user's own settings.

    Raises:
        SourceError: There is one.
    """
    work = own.get("GOWORK", "")
    if not work and commit is not None:
        work = next(iter(found.having(commit, _workspaces(plugin))), "")
    if work not in ("", "off"):
        raise _in_a_workspace(found, plugin, Path(work))


def refuse_patched(found: Repository, source: Source, root: Path, names: Collection[str]) -> None:
    """Refuse a patch that makes what would be refused in a commit: a workspace, an LFS pointer.

    Args:
        found: The repository.
        source: Of the baseline, with the Go that both variants are built with.
        root: The tree with the patch.
        names: The files that the patch names and leaves there.

    Raises:
        SourceError: With the file.
        BuildError: Go cannot make sense of the folder.
    """
    work = next((path for path in _workspaces(source.plugin) if path in names), None)
    if work is not None and toolchain.users_own(Path("/")).get("GOWORK") != "off":
        raise _in_a_workspace(found, source.plugin, Path(work))
    there = [name for name in names if (root / name).is_file()]
    made = [File(name, "", (root / name).read_bytes()) for name in there]
    if source.go is not None:
        refuse_pointers(found, source.go, root, source.plugin, made)


def _workspaces(plugin: str) -> list[str]:
    """Return where a go.work has a part in a plugin's build."""
    return [*repository.above(plugin, "go.work"), (PurePosixPath(plugin) / "go.work").as_posix()]


def _in_a_workspace(found: Repository, plugin: str, place: Path) -> SourceError:
    shown = place.relative_to(found.folder) if place.is_relative_to(found.folder) else place
    return SourceError(
        f"{shown} is a workspace in which {plugin} of {found.name} would be built; expected a "
        "plugin that is built as its own go.mod says, as every module here is; set GOWORK=off, "
        "with which your own build is the same"
    )


def ignored_but_read(
    found: Repository, go: GoChoice, plugin: str, folders: Sequence[str], taken: Iterable[File]
) -> set[str]:
    """Return all files that a build in the checkout reads, if a file that git ignores may be one.

    A go.mod that is ignored is among them: for Go its folder is no part of the plugin.

    Raises:
        BuildError: Go cannot make sense of the folder.
    """
    if not (found.folder / plugin).is_dir():
        return set()
    embeds = len(folders) > 1 or any(
        b"//go:embed" in file.content for file in taken if file.path.endswith(".go")
    )
    ignored = found.lies.ignored(folders)
    for path in ignored:
        folder = path.endswith("/") or (found.folder / path).is_symlink()
        if embeds or folder or PurePosixPath(path).suffix in _SOURCES:
            modules = {each for each in ignored if PurePosixPath(each).name == "go.mod"}
            return {*_read(go, found.folder, plugin), *modules}
    return set()


def refuse_difference(
    found: Repository, go: GoChoice, root: Path, plugin: str, theirs: set[str]
) -> None:
    """Refuse what was taken out when a build reads other files there than in the checkout.

    Raises:
        SourceError: With the first file that differs.
        BuildError: Go cannot make sense of the folder.
    """
    ours = set(_read(go, root, plugin))
    for name in sorted(theirs ^ ours):
        if PurePosixPath(name).name == "go.mod":
            continue
        # A file that a sparse checkout left out is taken: a note has it.
        if name in theirs or (found.folder / name).exists():
            reads, lacks = ("checkout", "folder") if name in theirs else ("folder", "checkout")
            raise SourceError(
                f"a build in {plugin} of {found.name} reads {name} in the {reads}, and not in the "
                f"{lacks}: one is the checkout as it lies, the other what is taken out of it; "
                "expected both to read the same; commit the file, or lift the rule of git that "
                "ignores it"
            )


def refuse_pointers(
    found: Repository, go: GoChoice, root: Path, plugin: str, taken: Iterable[File]
) -> None:
    """Refuse to build from what Git LFS puts in place of a file.

    Raises:
        SourceError: With the file.
    """
    pointers = [file.path for file in taken if file.content.startswith(_LFS_POINTER)]
    read = sorted({*pointers} & set(_read(go, root, plugin))) if pointers else []
    if read:
        raise SourceError(
            f"{_listed(read)} in {found.name} is a pointer of Git LFS, and the plugin is built "
            "from it; expected the file itself; run `git lfs pull` in a checkout and name that "
            "without a ref"
        )


def notes(
    found: Repository,
    commit: str | None,
    folders: Sequence[str],
    taken: Sequence[File],
    own: dict[str, str],
) -> Iterator[str]:
    """Give a sentence for each thing that the user's own build might take otherwise.

    Args:
        found: The repository.
        commit: None for the checkout as it lies.
        folders: The folders of it that were taken.
        taken: Their files.
        own: The user's own settings.
    """
    if commit is None:
        if left_out := found.lies.left_out(folders):
            yield f"left out by a sparse checkout, taken as git stores it: {_listed(left_out)}"
    else:
        converted = found.conversions(commit, [file.path for file in taken])
        line_ends = (("core.autocrlf", "true"), ("core.eol", "crlf"))
        asked = [f"{key}={to}" for key, to in line_ends if found.setting(key) == to]
        if converted or asked:
            named = [f"{path} ({what})" for path, what in converted.items()]
            yield (
                "taken as git stores it, without what a checkout makes of it: "
                f"{_listed([*asked, *named])}"
            )
    if unused := list(_unused(own)):
        yield f"set on this machine, and no part of the build: {', '.join(unused)}"


def _unused(own: dict[str, str]) -> Iterator[str]:
    for key, value in own.items():
        if key == "GOFLAGS":
            try:
                words = shlex.split(value)
            except ValueError:
                words = value.split()
            names = [word.lstrip("-").partition("=")[0] for word in words]
            told = [f"-{name}" for name in names if name not in _HARMLESS]
            if told:
                yield f"GOFLAGS ({' '.join(told)})"
        elif value and key != "GOWORK":
            yield key


def _read(go: GoChoice, root: Path, plugin: str) -> Iterator[str]:
    """Give the files that a build reads as seen from a root; a link in place of what is beyond."""
    for path in golist.read_by_go(toolchain.locate(go.version), root / plugin):
        if path.is_relative_to(root):
            name = path.relative_to(root)
            links = [above for above in reversed(name.parents) if (root / above).is_symlink()]
            yield (links[0] if links else name).as_posix()


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
