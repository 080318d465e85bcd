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

from wasm import cache, command, files, own_build, paths, repository, retry_identity, toolchain
from wasm.errors import SourceError
from wasm.records import Fix, Patch, Source, Variant

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

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
        fixed_patch: Or a patch on the baseline; neither: the fix for #4396 as a codemod.
    """

    source: str = paths.REFERENCE
    plugin: str | None = None
    baseline_ref: str | None = None
    fixed_ref: str | None = None
    fixed_patch: Path | None = None

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

    Raises:
        SourceError: The source, a ref, the plugin's folder or the patch is not what was named.
    """
    if request.fixed_ref and request.fixed_patch:
        raise SourceError(
            "--fixed-ref and --fixed-patch were both given; expected one of them, or neither for "
            "the built-in fix; drop one"
        )
    fixed_by_ref = variant is Variant.FIXED and request.fixed_ref is not None
    ref = request.fixed_ref if fixed_by_ref else request.baseline_ref
    with _opened(request, ref or "HEAD") as found, cache.scratch("source") as root:
        taken = _take(found, request, ref, root)
        source = taken.source
        if variant is Variant.BASELINE and request.kind != "url":
            _refuse_no_fix(request, found)
        if fixed_by_ref:
            source = replace(source, fix=_between(request, found, root))
        elif variant is Variant.FIXED:
            source = replace(source, fix=_fix(request, found, taken, root))
        if source.fix is not None:
            changed = files.changed(source.fix.patch.content, root, taken.folders)
            source = replace(source, fix=replace(source.fix, folders=changed))
        yield Tree(root=root, source=replace(source, files_sha256=files.digest(root)))


@dataclass(frozen=True)
class _Taken:
    """What was taken out: provenance, the tree it came from, and the folders of it."""

    source: Source
    treeish: str
    folders: list[str]


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


def _take(found: repository.Repository, request: Request, ref: str | None, root: Path) -> _Taken:
    plugin = request.plugin_folder
    as_it_lies = _as_it_lies(found, request, ref)
    commit = found.commit("HEAD" if request.kind == "url" else ref or "HEAD")
    tree = _plugin_tree(found, commit, request, ref)
    at = None if as_it_lies else commit
    if request.kind != paths.REFERENCE:
        own_build.refuse_workspace(found, plugin, at)
    folders = [plugin]
    treeish = at or found.work_tree(folders, own_build.no_packages(folders))
    taken = found.files(treeish, folders)
    files.write(taken, root, found.name)
    if not (root / plugin / "go.mod").is_file():
        raise SourceError(
            f"no go.mod in {plugin} of {found.name} at {ref or 'HEAD'}; expected the folder of a "
            "Go-Wasm plugin; name it with --plugin"
        )
    folders += _replaced_folders(root, plugin)
    read = own_build.ignored_but_read(found, plugin, folders, taken) if as_it_lies else set()
    there = {file.path for file in taken}
    unseen = read - there
    if len(folders) > 1 or unseen:
        treeish = at or found.work_tree(folders, {*own_build.no_packages(folders), *read})
        # A replaced folder may hold the plugin's own.
        more = [file for file in found.files(treeish, folders) if file.path not in there]
        files.write(more, root, found.name)
        taken += more
    if unseen:
        own_build.refuse_difference(found, root, plugin, read)
    own_build.refuse_pointers(found, root, plugin, taken)
    uncommitted = found.diff(commit, treeish, folders) if as_it_lies else None
    ours = request.kind == paths.REFERENCE
    notes = [] if ours else list(own_build.notes(found, at, folders, taken))
    source = Source(
        kind=request.kind,
        repository=found.name,
        ref=ref or "HEAD",
        commit=commit,
        plugin=plugin,
        tree=tree,
        dirty=uncommitted is not None,
        uncommitted=uncommitted,
        notes=notes,
    )
    return _Taken(source, treeish, folders)


def _as_it_lies(found: repository.Repository, request: Request, ref: str | None) -> bool:
    """Whether the checkout is meant with its uncommitted changes, and not a commit alone."""
    if request.kind == "url" or ref is not None:
        return False
    beside = found.folder.parent / request.plugin_folder
    named = Path(request.source)
    if found.bare and found.folder.name == ".git" and named != found.folder and beside.is_dir():
        raise SourceError(
            f"core.bare is set in {found.folder.parent}, where files of the plugin lie; expected a "
            "checkout, whose files git may read; run `git config core.bare false` there, or name a "
            "commit with --baseline-ref"
        )
    return not found.bare


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
    shown = command.run(
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


def _fix(request: Request, found: repository.Repository, taken: _Taken, root: Path) -> Fix:
    if request.fixed_patch is not None:
        return _patched(request.fixed_patch, taken, root)
    return _rewritten(found, taken, root)


def _refuse_no_fix(request: Request, found: repository.Repository) -> None:
    """Refuse a fix that is not there while the baseline is made: its matrix would run in vain."""
    if request.fixed_ref is not None:
        found.commit(request.fixed_ref)
    if request.fixed_patch is not None:
        _content(request.fixed_patch)


def _between(request: Request, found: repository.Repository, root: Path) -> Fix:
    """Return what a ref changes, seen from the baseline that was asked for with it."""
    with taken_out(Variant.BASELINE, request) as baseline:
        before, after = found.tree_of(baseline.root), found.tree_of(root)
        patch = found.diff(before, after, ["."]) or Patch.of(b"")
        return Fix(
            origin=f"ref {request.fixed_ref}",
            patch=patch,
            baseline_sha256=baseline.source.files_sha256,
        )


def _content(path: Path) -> bytes:
    try:
        return paths.content(path)
    except OSError as error:
        raise SourceError(
            f"--fixed-patch {path} cannot be read ({error.strerror}); expected a patch as "
            "`git diff` writes it; check the path"
        ) from error


def _patched(path: Path, taken: _Taken, root: Path) -> Fix:
    content = _content(path)
    baseline_sha256 = files.digest(root)
    files.apply(content, root, taken.folders, path.name)
    return Fix(origin=path.name, patch=Patch.of(content), baseline_sha256=baseline_sha256)


def _rewritten(found: repository.Repository, taken: _Taken, root: Path) -> Fix:
    plugin = taken.source.plugin
    baseline_sha256 = files.digest(root)
    try:
        rewrite = retry_identity.fix(root / plugin)
    except SourceError as error:  # as seen from the repository, not from a folder that will be gone
        raise error.seen_from(root) from error
    changed = {f"{plugin}/{name}": content for name, content in rewrite.files.items()}
    for name, content in changed.items():
        (root / name).write_bytes(content)
    patch = found.diff(taken.treeish, found.tree_with(taken.treeish, plugin, changed), [plugin])
    if patch is None:
        raise SourceError(
            f"the fix {retry_identity.FIX_ID} changed nothing in {plugin}; expected the defect "
            "there; name a --baseline-ref that has it"
        )
    return Fix(
        origin=retry_identity.FIX_ID,
        patch=patch,
        baseline_sha256=baseline_sha256,
        places=dict(rewrite.places),
    )
