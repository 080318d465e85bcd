"""Taking a variant's Go tree out of its source, into a folder of ours.

Only the plugin's folder and what its go.mod replaces by local folders is taken. The folder keeps
the repository's layout, so that those replacements and a patch's paths still fit.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from wasm.foundation import cache, paths, subprocesses
from wasm.foundation.errors import SourceError
from wasm.golang import goversion, toolchain
from wasm.records import Fix, Source, Variant
from wasm.source import files, fixes, own_build, repository

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

REFERENCE_PLUGIN = "wasm/go/reference"
AI_PROXY = "plugins/wasm-go/extensions/ai-proxy"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for: where both variants come from.

    Attributes:
        source: ``reference``, a path to a checkout, or a git URL.
        plugin: The plugin's folder in it; None for ai-proxy's own (or the reference's).
        baseline_ref: The baseline's commit; None for HEAD with its uncommitted changes.
        fixed_ref: The fixed variant's commit.
        fixed_patch: Or a patch on the baseline.
        fixed_worktree: Or the checkout as it lies; none of these: the fix for #4396 as a codemod.
        go: The version of Go for both variants; None for the one that the source asks for.
    """

    source: str = paths.REFERENCE
    plugin: str | None = None
    baseline_ref: str | None = None
    fixed_ref: str | None = None
    fixed_patch: Path | None = None
    fixed_worktree: bool = False
    go: str | None = None

    @property
    def names_a_fix(self) -> bool:
        """Whether another fix than the built-in one is asked for."""
        return bool(self.fixed_ref or self.fixed_patch or self.fixed_worktree)

    @property
    def kind(self) -> str:
        """``reference``, ``url`` or ``checkout``."""
        if self.source == paths.REFERENCE:
            return paths.REFERENCE
        return "url" if paths.is_url(self.source) else "checkout"

    @property
    def plugin_folder(self) -> str:
        """The plugin's folder in the repository, posix, without a trailing slash."""
        default = REFERENCE_PLUGIN if self.kind == paths.REFERENCE else AI_PROXY
        folder = PurePosixPath(self.plugin or default)
        if folder.is_absolute() or ".." in folder.parts:
            raise SourceError(
                f"--plugin {self.plugin} leads out of the source; expected a folder as seen from "
                f"the repository's root, such as {AI_PROXY}"
            )
        return folder.as_posix()

    @classmethod
    def of_options(cls, options: argparse.Namespace) -> Request:
        """Return what the options of wasm/options.py ask for."""
        return cls(
            source=options.source,
            plugin=options.plugin,
            baseline_ref=options.baseline_ref,
            fixed_ref=options.fixed_ref,
            fixed_patch=options.fixed_patch,
            fixed_worktree=options.fixed_worktree,
            go=options.go,
        )


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A variant's Go tree, taken out and changed as asked; gone when its context ends."""

    root: Path
    source: Source

    @property
    def plugin(self) -> Path:
        """The plugin's folder in it."""
        return self.root / self.source.plugin


@contextlib.contextmanager
def taken_out(variant: Variant, request: Request) -> Iterator[Tree]:
    """Take a variant's tree out of its source and apply what makes it that variant.

    A fix that is named is applied for the baseline, too: where it does not fit, the baseline's
    matrix would run in vain.

    Raises:
        SourceError: The source, a ref, the plugin's folder or the patch is not what was named, or
            the two variants ask for different versions of Go.
    """
    _refuse_contradictions(request)
    with _side(request, request.baseline_ref) as baseline:
        if variant is Variant.BASELINE and not request.names_a_fix:
            yield baseline.tree
            return
        with _fixed(request, baseline) as fixed:
            _refuse_two_toolchains(baseline.tree.source, fixed.source)
            yield baseline.tree if variant is Variant.BASELINE else fixed


def _refuse_contradictions(request: Request) -> None:
    given = [
        option
        for option, value in (
            ("--fixed-ref", request.fixed_ref),
            ("--fixed-patch", request.fixed_patch),
            ("--fixed-worktree", request.fixed_worktree),
        )
        if value
    ]
    if len(given) > 1:
        raise SourceError(
            f"{' and '.join(given)} were given together; expected one of them, or none for the "
            "built-in fix; drop the others"
        )
    if request.fixed_worktree and (request.kind == "url" or request.baseline_ref is None):
        found = "a URL has no work tree" if request.kind == "url" else "it is the baseline, too"
        raise SourceError(
            f"--fixed-worktree cannot be the fixed variant: {found}; expected a checkout, and "
            "--baseline-ref with the commit that has the defect; give both"
        )


def _refuse_two_toolchains(baseline: Source, fixed: Source) -> None:
    one, other = baseline.go, fixed.go
    if one and other and one.version != other.version:
        raise SourceError(
            f"the baseline asks for {one.version} ({one.because}) and the fixed variant for "
            f"{other.version} ({other.because}); expected one Go for both, so that nothing but the "
            "fix differs; name it with --go"
        )


@dataclass(frozen=True, kw_only=True)
class Side:
    """What was taken out of a source: the tree, where it came from, and which folders of it.

    Attributes:
        treeish: Git's name for what was taken.
        as_it_lies: Whether that is the work tree.
    """

    found: repository.Repository
    tree: Tree
    treeish: str
    folders: list[str]
    as_it_lies: bool

    def files(self, paths: Sequence[str]) -> list[files.File]:
        """Return other files of the same state of the repository, by their paths or folders."""
        if not paths:
            return []
        treeish = self.treeish
        if self.as_it_lies:
            treeish = self.found.work_tree([*self.folders, *paths])
        return self.found.files(treeish, paths)

    def replaced_folders(self, root: Path) -> list[str]:
        """Return the folders that go.mod replaces modules by, in another tree of this plugin."""
        return _replaced_folders(root, self.tree.source.plugin)


@contextlib.contextmanager
def _side(request: Request, ref: str | None) -> Iterator[Side]:
    """Take a state of the source out; None is HEAD, with the work tree's changes if it has any."""
    with _opened(request, ref or "HEAD") as found, cache.scratch("source") as root:
        yield _take(found, request, ref, root)


@contextlib.contextmanager
def _opened(request: Request, ref: str) -> Iterator[repository.Repository]:
    plugin = request.plugin_folder
    if request.kind == "url":
        with repository.fetched(request.source, ref, plugin) as found:
            yield found
        return
    path = cache.PROJECT if request.kind == paths.REFERENCE else Path(request.source)
    with repository.opened(path) as found:
        yield found


def _take(found: repository.Repository, request: Request, ref: str | None, root: Path) -> Side:
    plugin = request.plugin_folder
    as_it_lies = ref is None and request.kind != "url" and not found.bare
    if ref is None and request.kind == "checkout":
        own_build.refuse_hidden_files(found, Path(request.source), plugin)
    commit = found.commit("HEAD" if request.kind == "url" else ref or "HEAD")
    tree = _plugin_tree(found, commit, request, ref)
    at = None if as_it_lies else commit
    # The reference is nobody's own build.
    reference = request.kind == paths.REFERENCE
    own = {} if reference else own_build.settings(found, plugin, at)
    own_build.refuse_workspace(found, plugin, None if reference else at, own)
    folders = [plugin]
    treeish = at or found.work_tree(folders, own_build.no_packages(folders))
    taken = found.files(treeish, folders)
    files.write(taken, root, found.name)
    if not (root / plugin / "go.mod").is_file():
        raise SourceError(
            f"no go.mod in {plugin} of {found.name} at {ref or 'HEAD'}; expected the folder of a "
            "Go-Wasm plugin; name it with --plugin"
        )
    go = _go(found, commit, root, request)
    folders += _replaced_folders(root, plugin)
    read = own_build.ignored_but_read(found, go, plugin, folders, taken) if as_it_lies else set()
    unseen = read - {file.path for file in taken}
    if len(folders) > 1 or unseen:
        treeish = at or found.work_tree(folders, {*own_build.no_packages(folders), *read})
        taken = found.files(treeish, folders)
        files.add(taken, root, found.name)
    if unseen:
        own_build.refuse_difference(found, go, root, plugin, read)
    own_build.refuse_pointers(found, go, root, plugin, taken)
    uncommitted = found.diff(commit, treeish, folders) if as_it_lies else None
    source = Source(
        kind=request.kind,
        repository=found.name,
        ref=ref or "HEAD",
        commit=commit,
        plugin=plugin,
        tree=tree,
        dirty=uncommitted is not None,
        uncommitted=uncommitted,
        go=go,
        unpublished=request.kind != "url" and found.keeps_to_itself(commit),
        files_sha256=files.digest(root),
        notes=[] if reference else list(own_build.notes(found, at, folders, taken, own)),
    )
    return Side(
        found=found,
        tree=Tree(root=root, source=source),
        treeish=treeish,
        folders=folders,
        as_it_lies=as_it_lies,
    )


def _go(
    found: repository.Repository, commit: str, root: Path, request: Request
) -> goversion.GoChoice:
    """Return the Go that the tree in a folder asks for; its builder is the commit's."""

    def builder() -> tuple[str, str] | None:
        recipes = goversion.recipes(request.plugin_folder)
        there = {file.path: file.content for file in found.files(commit, recipes)}
        nearest = next((path for path in recipes if path in there), None)
        return (nearest, there[nearest].decode("utf-8", "replace")) if nearest else None

    go_mod = (root / request.plugin_folder / "go.mod").read_bytes()
    return goversion.choose(go_mod.decode("utf-8", "replace"), builder, request.go)


def _plugin_tree(
    found: repository.Repository, commit: str, request: Request, ref: str | None
) -> str:
    plugin = request.plugin_folder
    tree = found.tree(commit, plugin)
    if tree is None:
        # An archive that was unpacked within a checkout of something else.
        inside = request.kind == "checkout" and not found.folder.samefile(request.source)
        around = f", the git repository around {request.source}," if inside else ""
        raise SourceError(
            f"no folder {plugin} in {found.name}{around} at {ref or 'HEAD'}; expected the plugin's "
            "folder as seen from the repository's root; name it with --plugin"
        )
    return tree


def _replaced_folders(root: Path, plugin: str) -> list[str]:
    """Return the folders of the repository that go.mod puts in place of modules."""
    go = toolchain.locate()
    shown = subprocesses.run(
        [go.program, "mod", "edit", "-json", str(root / plugin / "go.mod")], env=go.environment
    )
    if not shown.succeeded:
        told = shown.last_line.replace(f"{root}/", "")
        raise SourceError(
            f"{plugin}/go.mod cannot be read: {told}; expected what `go mod edit` takes; mend it "
            "there"
        )
    folders = []
    for row in json.loads(shown.stdout).get("Replace") or []:
        new = row["New"]["Path"]
        if not re.match(r"\.{0,2}(/|$)", new):
            continue
        folder = os.path.normpath(os.path.join(plugin, new))  # noqa: PTH118 - a path of the repository
        if folder.startswith(("..", "/")):
            raise SourceError(
                f"{plugin}/go.mod replaces {row['Old']['Path']} by {new}, outside the repository; "
                "expected a source that stands alone; move that folder into it"
            )
        folders.append(folder)
    return folders


@contextlib.contextmanager
def _fixed(request: Request, baseline: Side) -> Iterator[Tree]:
    """Make the fixed variant's tree."""
    if request.fixed_ref or request.fixed_worktree:
        with _side(request, request.fixed_ref) as side:
            if request.fixed_worktree and not side.as_it_lies:
                raise SourceError(
                    f"--fixed-worktree was given and {side.found.name} is a bare repository; "
                    "expected a checkout with files; name a commit with --fixed-ref"
                )
            fix = fixes.between(request, baseline, side)
            source = replace(side.tree.source, fix=_with_folders(fix, side.tree.root, side.folders))
            yield replace(side.tree, source=source)
        return
    with cache.scratch("fixed") as folder:
        root = folder / "tree"
        if request.fixed_patch is not None:
            fix = fixes.patched(request, request.fixed_patch, baseline, root)
        else:
            fix = fixes.rewritten(request, baseline, root)
        source = replace(
            baseline.tree.source,
            fix=_with_folders(fix, root, [*baseline.folders, *baseline.replaced_folders(root)]),
            go=_go(baseline.found, baseline.tree.source.commit, root, request),
            files_sha256=files.digest(root),
        )
        yield Tree(root=root, source=source)


def _with_folders(fix: Fix, root: Path, folders: Sequence[str]) -> Fix:
    """Say which folders a fix changes; a replaced one is easily overlooked."""
    return replace(fix, folders=files.changed(fix.patch.content, root, folders))
