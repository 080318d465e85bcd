"""What the wasm room hands over: where a source came from, and the module built from it.

Frozen dataclasses; between processes the same ones as JSON (``msgspec.json``), one schema each.
Digests are lower-case hex; git's own object names are SHA-1, all others SHA-256.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import msgspec

from wasm.foundation.errors import BuildError
from wasm.golang.goversion import GoChoice

UNPUBLISHED = (
    "is in no branch that was fetched from there; push it, or others may be unable to fetch it"
)


class Variant(StrEnum):
    """Which of the two sides of a proof a module is."""

    BASELINE = "baseline"
    FIXED = "fixed"


@dataclass(frozen=True, kw_only=True)
class Patch:
    """A change to a source, as ``git apply`` takes it at the repository's root."""

    content: bytes
    sha256: str

    @classmethod
    def of(cls, content: bytes) -> Patch:
        """Name a patch by its own bytes."""
        return cls(content=content, sha256=sha256_of(content))


class FixKind(StrEnum):
    """Where a fix came from."""

    BUILT_IN = "built-in"
    MUTANT = "mutant"
    PATCH = "patch"
    REF = "ref"
    WORK_TREE = "work tree"


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a fix came from: the kind, and the name within that kind.

    Attributes:
        name: The built-in fix's or the mutant's id, the patch file's name, the ref as it was
            given; empty for the work tree.
    """

    kind: FixKind
    name: str = ""

    @property
    def is_a_tree(self) -> bool:
        """Whether the fix is a tree of its own, of another commit or state than the baseline's."""
        return self.kind in (FixKind.REF, FixKind.WORK_TREE)

    def __str__(self) -> str:
        if self.kind is FixKind.WORK_TREE:
            return "the work tree"
        article = "" if self.kind is FixKind.REF else "the "
        fix = " fix" if self.kind is FixKind.BUILT_IN else ""
        return f"{article}{self.kind}{fix} {self.name}"


@dataclass(frozen=True, kw_only=True)
class Fix:
    """What makes the fixed variant differ from the baseline it was made from.

    Attributes:
        origin: Where it came from.
        patch: The change itself; empty when the ref changes nothing of the plugin.
        baseline_sha256: ``files_sha256`` of the tree that it was made on.
        places: Rule id -> how many places it changed; of the built-in fix and its mutants alone.
        applied: How the fixed tree was made with it, in a few words.
        left_out: What a reader could take for a part of the fixed module and is none: HEAD,
            uncommitted files, the files of a patch that lie outside the plugin.
        folders: What it changes: the plugin's folder, and ones that its go.mod replaces.
    """

    origin: Origin
    patch: Patch
    baseline_sha256: str
    places: dict[str, int] = field(default_factory=dict)
    applied: str = ""
    left_out: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """Where the fix came from and what is no part of it, in a line."""
        none = f"; not part of it: {', '.join(self.left_out)}" if self.left_out else ""
        return f"{self.origin}{none}"


@dataclass(frozen=True, kw_only=True)
class Source:
    """Provenance of one variant's tree (docs/evidence.md, 2).

    Attributes:
        kind: ``reference``, ``checkout`` or ``url``.
        repository: The remote's URL where there is one, else the folder's name.
        ref: As it was asked for; ``HEAD`` when none was.
        commit: The commit that the ref names.
        plugin: The plugin's folder in the repository.
        tree: Git's tree object name of the plugin's folder at that commit.
        dirty: Whether uncommitted changes were taken along.
        uncommitted: Those changes.
        fix: What was applied on top, on the fixed variant.
        go: The Go version that it is built and tested with; None in a record without a build.
        unpublished: Whether ``repository`` is a remote of which no fetched branch has the commit,
            so that nobody else may be able to fetch it.
        files_sha256: Digest over path, mode and bytes of every file that the build saw.
        notes: What a build of the user's own might take otherwise (docs/sources.md), a sentence
            each.
    """

    kind: str
    repository: str
    ref: str
    commit: str
    plugin: str
    tree: str
    dirty: bool
    uncommitted: Patch | None = None
    fix: Fix | None = None
    go: GoChoice | None = None
    unpublished: bool = False
    files_sha256: str = ""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Module:
    """A compiled module and how it came to be (docs/evidence.md, 3).

    Attributes:
        path: The .wasm file on this machine; not part of what identifies it.
        seconds: How long the compiler took, when this module was first built.
    """

    variant: Variant
    path: str
    sha256: str
    size_bytes: int
    source: Source
    go_version: str
    command: list[str]
    environment: dict[str, str]
    seconds: float

    @property
    def summary(self) -> tuple[str, ...]:
        """Where it came from and what it is, a line each."""
        source = self.source
        dirty = " with uncommitted changes" if source.dirty else ""
        told = [f"{source.plugin} of {source.repository} at {source.commit[:12]}{dirty}"]
        if source.unpublished:
            told.append(f"commit {source.commit[:12]} {UNPUBLISHED}")
        if source.fix:
            told.append(f"fix: {source.fix.summary}")
            if source.fix.folders not in ([], [source.plugin]):
                told.append(f"fix: it changes {', '.join(source.fix.folders)}")
        if source.go:
            told.append(f"built with {source.go.version}: {source.go.because}")
        told += source.notes
        told.append(f"module {self.sha256} ({self.size_bytes / 1e6:.1f} MB)")
        return tuple(f"{self.variant}: {line}" for line in told)

    def read(self) -> bytes:
        """Return the module's bytes.

        Raises:
            BuildError: The file is gone, or is no longer what was built.
        """
        try:
            data = Path(self.path).read_bytes()
        except OSError as error:
            raise BuildError(
                f"the {self.variant} module at {self.path} cannot be read ({error.strerror}); "
                "build it again"
            ) from error
        if sha256_of(data) != self.sha256:
            raise BuildError(
                f"the {self.variant} module at {self.path} is not the one that was built: expected "
                f"SHA-256 {self.sha256[:12]}, found {sha256_of(data)[:12]}; build it again"
            )
        return data

    @classmethod
    def load(cls, record: Path) -> Module:
        """Read a module's record, as ``python -m wasm build`` wrote it.

        Raises:
            BuildError: There is none, or it does not say what a record must say.
        """
        try:
            return msgspec.json.decode(record.read_bytes(), type=cls)
        except OSError as error:
            raise BuildError(
                f"no module record at {record} ({error.strerror}); expected the file that "
                "`python -m wasm build` wrote; build the variant first"
            ) from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BuildError(
                f"{record} is no module record: {error}; build the variant again"
            ) from error


def sha256_of(data: bytes) -> str:
    """Return the lower-case hex SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()
