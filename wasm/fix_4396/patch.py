"""The fix and its regression tests as one patch that ``git apply`` takes, proved before it is kept.

What is written has been applied to a fresh copy of the baseline; the tree after it has been held
against the one that was meant, formatted, vetted, and its tests run, on the baseline too.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wasm.fix_4396 import regression
from wasm.fix_4396.regression import Compared
from wasm.fix_4396.retry_identity import RULES
from wasm.foundation import cache
from wasm.foundation.errors import BuildError, MisfitError, SourceError
from wasm.golang import go_vet, toolchain
from wasm.module import build
from wasm.records import Fix, FixKind, Patch, Source, Variant
from wasm.source import files, git, repository, variant_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from wasm.fix_4396.regression import Showing
    from wasm.golang.toolchain import Toolchain
    from wasm.source.repository import Repository
    from wasm.source.variant_tree import Request, Tree

_HEADER = """\
ai-proxy: a retry keeps the API of its request (Higress #4396)

A retry was rebuilt as Chat Completions whatever API its request was of, so that the retry of a
video went out with the path and the body of a chat. The helper that rebuilds a request now takes
the API name; a retry passes its own, and the generated health check passes Chat Completions,
which it means to probe. The order of the dispatch stays as it was. No public configuration changes.
The proposal is #4718.

Changed, by rule (places):
{rules}

With it come regression tests, new files only:
{tests}
On this source {fail_to_pass} of them fail before and pass after, {pass_to_pass} pass before and
after, and {only} need the new argument to compile.

What it leaves as it was: a retry is sent as POST whatever the method of its request; the content
type of a retry is JSON, even where its body is a multipart form; provider domain and base path;
streaming responses, which are not retried. Of neighbouring pull requests (4552, 3882) it has
nothing.

{base_path}

Made from {plugin}
of {repository}
at {commit}{dirty}.
"""
_KEPT = """\
A providerBasePath together with a Kling video: on this source the retry keeps it
({paths})."""
_LOST = """\
A providerBasePath together with a Kling video: on this source the retry goes to
{paths} without it.
A first attempt applies the base path before the transform of body and headers, and again after it.
The helper applies it only before, and Kling's transform then sets the path. Without this patch the
retry went to
{before}.
This patch leaves that as it is. Three lines after the helper's dispatch would mend it:

    if path := headers.Get(":path"); c.providerBasePath != "" {{
        headers.Set(":path", c.applyProviderBasePath(path))
    }}

headers are those that the helper returns; applyProviderBasePath is what ai-proxy itself applies to
the path of a first attempt."""


_ANOTHER_BASELINE = (
    "name a --baseline-ref that the built-in fix fits, which is what this session is about"
)


@dataclass(frozen=True, kw_only=True)
class PatchRecord:
    """What was proved of a patch, and where it fits.

    Attributes:
        sha256: Digest of the patch file, its description included.
        source: The baseline that it was made from.
        places: Rule id -> how many places it changed.
        changed: The files of the source that it changes.
        added: The files that it adds.
        vet: What ``go vet`` finds on the baseline already, left as it is.
        unformatted: The same of ``gofmt -l``.
        tests: How the regression tests fared.
        base_path: The paths of retries with a providerBasePath -> whether they kept it.
    """

    sha256: str
    source: Source
    places: dict[str, int]
    changed: list[str]
    added: list[str]
    vet: list[str]
    unformatted: list[str]
    tests: Compared
    base_path: dict[str, bool]


def refuse_other_fixes(request: Request) -> None:
    """Refuse options that name another fix: it is the built-in one that is spoken of.

    Raises:
        SourceError: One was given.
    """
    for option, value in (
        ("--fixed-ref", request.fixed_ref),
        ("--fixed-patch", request.fixed_patch),
        ("--fixed-worktree", request.fixed_worktree),
    ):
        if value:
            raise SourceError(
                f"{option} was given; expected the built-in fix for #4396, which this session is "
                "about; leave it out"
            )


@contextlib.contextmanager
def advised(root: Path | None = None) -> Iterator[None]:
    """Let what refuses a source advise what these sessions take, and name no folder of ours.

    The rules are those of every session, and most take another fix where the built-in one does
    not fit. Here that very fix is spoken of, so another baseline is all that helps.

    Args:
        root: Where the tree lies that is looked at.
    """
    try:
        yield
    except SourceError as error:
        seen = error.seen_from(root) if root else error
        if isinstance(error, MisfitError):
            raise SourceError(seen.found, seen.detail, advice=_ANOTHER_BASELINE) from error
        if root is None:
            raise
        raise seen from error


def make(request: Request, say: Callable[[str], object]) -> tuple[bytes, PatchRecord]:
    """Make the patch and prove it; return it with what was proved.

    Raises:
        SourceError: The source is not one that the fix fits, or does not show the defect.
        BuildError: The tree after it is not formatted, does not vet, or its tests do not pass.
    """
    refuse_other_fixes(request)
    with (
        advised(),
        variant_tree.taken_out(Variant.BASELINE, request) as baseline,
        variant_tree.taken_out(Variant.FIXED, request) as meant,
        variant_tree.taken_out(Variant.BASELINE, request) as patched,
        aside() as ours,
    ):
        fix = _built_in(meant)
        go = toolchain.of(baseline.source)
        for rule in RULES:
            say(f"{rule.id}: {_places(fix.places[rule.id])}: {rule.says}")
        modules = [build.built_from(baseline, Variant.BASELINE)]
        modules += [build.built_from(meant, Variant.FIXED)]
        before = ours.tree_of(baseline.root)
        tests = regression.lay_over(meant.plugin, with_the_fix=True)
        diff = difference(ours, before, meant)
        files.apply(diff.content, patched.root, [baseline.source.plugin], "of the fix")
        _refuse_another_tree(meant, patched)
        say(f"git apply: {len(fix.changed)} files changed, {len(tests)} added, as was meant")
        vet, unformatted = _findings(go, baseline, patched, say)

        regression.lay_over(baseline.plugin, with_the_fix=False)
        shown = [
            regression.run(go, tree.plugin, module.path)
            for tree, module in zip((baseline, patched), modules, strict=True)
        ]
    compared = regression.compare(*shown)
    for line in told(compared):
        say(line)
    plugin = baseline.source.plugin
    described = _described(baseline.source, fix, tests, compared, shown)
    content = described.encode() + diff.content
    record = PatchRecord(
        sha256=Patch.of(content).sha256,
        source=baseline.source,
        places=fix.places,
        changed=fix.changed,
        added=[f"{plugin}/{name}" for name in tests],
        vet=sorted(vet),
        unformatted=sorted(unformatted),
        tests=compared,
        base_path=shown[1].base_path,
    )
    return content, record


@contextlib.contextmanager
def aside() -> Iterator[Repository]:
    """Give an empty repository of ours, to name trees in and to tell them apart."""
    with cache.scratch("patch") as folder:
        made = git.run("init", "--quiet", "--bare", cwd=folder)
        if not made.succeeded:
            raise SourceError(
                f"git init failed in {folder}: {git.reason(made)}; expected git 2.30 or newer"
            )
        with repository.opened(folder) as ours:
            yield ours


def difference(ours: Repository, before: str, after: Tree) -> Patch:
    """Return what makes one tree the other, as ``git apply`` takes it at the repository's root.

    Raises:
        SourceError: They are the same.
    """
    found = ours.diff(before, ours.tree_of(after.root), ["."])
    if found is None:
        raise SourceError(
            f"nothing was changed in {after.source.plugin}; expected the defect of #4396 there; "
            "name a --baseline-ref that has it"
        )
    return found


def told(compared: Compared) -> Iterator[str]:
    """Say which tests show what, a line each."""
    for title, names in (
        ("fail on the baseline, pass with the fix", compared.fail_to_pass),
        ("pass on both", compared.pass_to_pass),
        ("need the fix to compile, and pass", compared.only_with_the_fix),
    ):
        yield f"{len(names)} regression tests {title}:"
        yield from (f"  {name}" for name in names)


@dataclass(frozen=True)
class _BuiltIn:
    """The built-in fix as it was made on a tree."""

    places: dict[str, int]
    changed: list[str]


def _built_in(meant: Tree) -> _BuiltIn:
    made = meant.source.fix
    if made is None or made.origin.kind is not FixKind.BUILT_IN:
        raise SourceError(
            "the fix was not made by the built-in rules; expected neither --fixed-ref nor "
            "--fixed-patch; leave them out"
        )
    return _BuiltIn(places=dict(made.places), changed=_changed_files(made))


def _changed_files(made: Fix) -> list[str]:
    lines = made.patch.content.splitlines()
    # A path with quotes or spaces does not end its line in b/...; none of the rules' has any.
    return [line.split(b" b/", 1)[1].decode() for line in lines if line.startswith(b"diff --git ")]


def _refuse_another_tree(meant: Tree, patched: Tree) -> None:
    if files.digest(meant.root) != files.digest(patched.root):
        raise BuildError(
            "the patch leaves another tree than the rules made; expected the same files; look "
            "for attributes in the source that change what git applies"
        )


def _findings(
    go: Toolchain, baseline: Tree, patched: Tree, say: Callable[[str], object]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return what vet and gofmt find on the baseline; refuse more after the patch."""
    known = []
    for name, find in (("go vet", go_vet.vet), ("gofmt -l", go_vet.unformatted)):
        before, after = find(go, baseline.plugin), find(go, patched.plugin)
        say(f"{name}: {len(after - before)} new findings, {len(after & before)} the baseline's")
        if after - before:
            raise BuildError(
                f"{name} finds {len(after - before)} things after the patch that the baseline does "
                "not have; expected none; see the lines above",
                detail="\n".join(sorted(after - before)),
            )
        known.append(before)
    return known[0], known[1]


def _described(
    made_from: Source,
    fix: _BuiltIn,
    tests: Mapping[str, bytes],
    compared: Compared,
    shown: Sequence[Showing],
) -> str:
    """Return the text before the patch, which ``git apply`` passes over."""
    return _HEADER.format(
        rules="\n".join(f"  {rule.says} ({fix.places[rule.id]})" for rule in RULES),
        tests="\n".join(f"  {name}" for name in tests),
        fail_to_pass=len(compared.fail_to_pass),
        pass_to_pass=len(compared.pass_to_pass),
        only=len(compared.only_with_the_fix),
        base_path=_on_base_path(*(showing.base_path for showing in shown)),
        plugin=made_from.plugin,
        repository=made_from.repository,
        commit=made_from.commit,
        dirty=" with uncommitted changes" if made_from.dirty else "",
    )


def _on_base_path(before: Mapping[str, bool], after: Mapping[str, bool]) -> str:
    """Say what becomes of the base path in a retry, as the two runs of the tests saw it."""
    if not (before and after):
        raise BuildError(
            "no regression test told what becomes of a providerBasePath; expected a line of "
            "TestRetryApiIdentityOfKlingWithABasePath for each kind of video; look at what it logs"
        )
    told = []
    for kept, text in ((True, _KEPT), (False, _LOST)):
        paths = [path for path, is_kept in after.items() if is_kept is kept]
        if paths:
            told.append(text.format(paths=" and\n".join(paths), before=" and\n".join(before)))
    return "\n\n".join(told)


def _places(count: int) -> str:
    return f"{count} place" + "s" * (count != 1)
