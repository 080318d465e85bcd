"""The fixed variant's tree, from the baseline's: by a ref, the work tree, a patch, or rules."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from wasm.fix_4396 import retry_identity
from wasm.foundation import paths
from wasm.foundation.errors import SourceError
from wasm.records import Fix, FixKind, Origin, Patch
from wasm.source import files, own_build

if TYPE_CHECKING:
    from pathlib import Path

    from wasm.source.variant_tree import Request, Side


def between(request: Request, baseline: Side, side: Side) -> Fix:
    """Return what a ref, or the work tree, changes, seen from the baseline."""
    found, tree = side.found, side.tree
    patch = found.diff(found.tree_of(baseline.tree.root), found.tree_of(tree.root), ["."])
    if request.fixed_ref is None:
        origin, applied = Origin(kind=FixKind.WORK_TREE), "the work tree itself"
    else:
        origin = Origin(kind=FixKind.REF, name=request.fixed_ref)
        applied = f"the tree of commit {tree.source.commit[:12]} itself"
    return Fix(
        origin=origin,
        patch=patch or Patch.of(b""),
        baseline_sha256=baseline.tree.source.files_sha256,
        applied=applied,
        left_out=_left_out(request, baseline, tree.source.commit),
    )


def patched(request: Request, path: Path, baseline: Side, root: Path) -> Fix:
    """Make a tree with a patch at a folder that is not there yet.

    Raises:
        SourceError: It cannot be read, is not one diff, does not fit the baseline, or makes what a
            ref with it is refused for.
    """
    content = _content(path)
    source = baseline.tree.source
    folders: list[str] = []
    wanted = baseline.folders
    while not {*wanted} <= {*folders}:
        # A patch may let go.mod name more folders, which it changes, too.
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(baseline.tree.root, root, symlinks=True)
        more = [folder for folder in wanted if folder not in baseline.folders]
        files.add(baseline.files(more), root, path.name)
        folders = [*baseline.folders, *more]
        applied = files.apply(
            content,
            root,
            folders,
            path.name,
            baseline=source.commit[:12],
            elsewhere=baseline.files,
        )
        wanted = [*folders, *baseline.replaced_folders(root)]
    own_build.refuse_patched(baseline.found, source, root, applied.names)
    left_out = _left_out(request, baseline, source.commit)
    if applied.outside:
        left_out.append(f"{_files(applied.outside)} of the patch outside the plugin")
    return Fix(
        origin=Origin(kind=FixKind.PATCH, name=path.name),
        patch=Patch.of(content),
        baseline_sha256=source.files_sha256,
        applied=f"git apply, one diff of {_files(applied.changed)}",
        left_out=left_out,
    )


def rewritten(request: Request, baseline: Side, root: Path) -> Fix:
    """Make a tree with the built-in fix at a folder that is not there yet.

    Raises:
        SourceError: The rules do not fit the baseline.
    """
    found, source = baseline.found, baseline.tree.source
    plugin = source.plugin
    shutil.copytree(baseline.tree.root, root, symlinks=True)
    try:
        rewrite = retry_identity.fix(root / plugin)
    except SourceError as error:  # as seen from the repository, not from a folder that will be gone
        raise error.seen_from(root) from error
    changed = {f"{plugin}/{name}": content for name, content in rewrite.files.items()}
    for name, content in changed.items():
        (root / name).write_bytes(content)
    after = found.tree_with(baseline.treeish, plugin, changed)
    patch = found.diff(baseline.treeish, after, [plugin])
    if patch is None:
        raise SourceError(
            f"the fix {retry_identity.FIX_ID} changed nothing in {plugin}; expected the defect "
            "there; name a --baseline-ref that has it"
        )
    return Fix(
        origin=Origin(kind=FixKind.BUILT_IN, name=retry_identity.FIX_ID),
        patch=patch,
        baseline_sha256=source.files_sha256,
        places=dict(rewrite.places),
        applied=f"structural rules, which changed {_files(len(changed))}",
        left_out=_left_out(request, baseline, source.commit),
    )


def _left_out(request: Request, baseline: Side, fixed_commit: str) -> list[str]:
    """Say what lies in a checkout and is of neither variant: a user may believe that it is."""
    found, folders = baseline.found, baseline.folders
    if request.kind == "url" or found.bare or baseline.as_it_lies or request.fixed_worktree:
        return []
    if not found.has_commits:
        return ["the checkout, whose HEAD names no commit"]
    head = found.commit("HEAD")
    known = (baseline.tree.source.commit, fixed_commit)
    left_out = []
    if all(head != commit and found.changed(commit, head, folders) for commit in known):
        left_out.append(f"HEAD ({head[:12]})")
    uncommitted = found.changed(head, found.work_tree(folders), folders)
    if uncommitted:
        left_out.append(f"{uncommitted} uncommitted file{'s' * (uncommitted != 1)}")
    return left_out


def _files(number: int) -> str:
    return f"{number} file{'s' * (number != 1)}"


def _content(path: Path) -> bytes:
    try:
        return paths.content(path)
    except OSError as error:
        raise SourceError(
            f"--fixed-patch {path} cannot be read ({error.strerror}); expected a patch as "
            "`git diff` writes it; check the path"
        ) from error
