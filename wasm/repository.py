"""A user's git repository, read without changing anything in it.

Whatever git has to write (an index, the objects of an uncommitted change, blobs that a partial
clone fetches late) goes to a folder of ours: the user's index, refs and objects stay as they are.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from wasm import cache, command
from wasm.errors import SourceError
from wasm.records import Patch, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# A diff that no user setting changes, as `git apply` takes it.
_PLAIN_DIFF = (
    "--binary",
    "--full-index",
    "--no-color",
    "--no-ext-diff",
    "--no-renames",
    "--no-textconv",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
# Nothing of the user's machine may run or add to what we read.
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0")


@dataclass(frozen=True)
class File:
    """One file of a tree: its path in the repository, git's mode, and its bytes."""

    path: str
    mode: str
    content: bytes


@dataclass(frozen=True)
class Repository:
    """A git repository and the folder that takes what git writes while we read it.

    Attributes:
        folder: Where git is started: the work tree, or the bare repository.
        name: How evidence names it: the remote's URL, else the folder's name.
        bare: Whether there is no work tree.
    """

    folder: Path
    name: str
    bare: bool
    _environment: dict[str, str]
    _index: Path

    def commit(self, ref: str) -> str:
        """Return the commit that a ref names.

        Raises:
            SourceError: There is no such commit here.
        """
        found = self._git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"
        )
        if not found.succeeded:
            raise SourceError(
                f"unknown ref {ref!r} in {self.name}; expected a branch, tag or commit that is in "
                "this repository; fetch it first, or name another"
            )
        return found.stdout.decode().strip()

    def tree(self, treeish: str, folder: str) -> str | None:
        """Return git's name for a folder's tree, or None when the folder is not there."""
        found = self._git("rev-parse", "--verify", "--quiet", f"{treeish}:{folder}")
        if not found.succeeded:
            return None
        name = found.stdout.decode().strip()
        kind = self._git("cat-file", "-t", name)
        return name if kind.stdout.strip() == b"tree" else None

    def work_tree(self, folders: Sequence[str]) -> str:
        """Return a tree like HEAD but with these folders as they lie in the work tree.

        Untracked files that are not ignored belong to it: they take part in a build.
        """
        real_index = self.folder / self._need("rev-parse", "--git-path", "index").decode().strip()
        if real_index.is_file():
            shutil.copyfile(real_index, self._index)
        else:
            self._need("read-tree", "HEAD")
        self._need("add", "--all", "--", *folders)
        return self._need("write-tree", "--missing-ok").decode().strip()

    def tree_with(self, treeish: str, changed: dict[str, bytes]) -> str:
        """Return a tree like another but with these files' contents, byte for byte."""
        self._need("read-tree", treeish)
        rows = []
        for path, content in changed.items():
            mode = self._need("ls-tree", "--full-tree", treeish, "--", path).split()[0].decode()
            name = self._need("hash-object", "-w", "--no-filters", "--stdin", stdin=content)
            rows.append(f"{mode} {name.decode().strip()}\t{path}")
        self._need("update-index", "--index-info", stdin="\n".join(rows).encode() + b"\n")
        return self._need("write-tree", "--missing-ok").decode().strip()

    def diff(self, before: str, after: str, folders: Sequence[str]) -> Patch | None:
        """Return what changed in these folders from one tree to another, None for nothing."""
        content = self._need("diff", *_PLAIN_DIFF, before, after, "--", *folders)
        return Patch.of(content) if content else None

    def files(self, treeish: str, folders: Sequence[str]) -> list[File]:
        """Return every file of some folders, as git stores it: no attribute or filter applies.

        Raises:
            SourceError: A file's content is missing (a partial clone), or is a submodule.
        """
        listing = self._need("ls-tree", "-r", "-z", "--full-tree", treeish, "--", *folders)
        rows: list[tuple[str, str, str]] = []
        for line in listing.split(b"\0"):
            if not line:
                continue
            meta, _, path = line.partition(b"\t")
            mode, kind, name = meta.decode().split()
            if kind != "blob":
                raise SourceError(
                    f"{path.decode(errors='replace')} in {self.name} is a {kind}, expected files "
                    "only below the plugin's folder; name a source without submodules there"
                )
            rows.append((mode, name, path.decode("utf-8", "surrogateescape")))
        blobs = self._blobs([name for _, name, _ in rows], [path for _, _, path in rows])
        return [File(path, mode, blob) for (mode, _, path), blob in zip(rows, blobs, strict=True)]

    def _blobs(self, names: Sequence[str], paths: Sequence[str]) -> list[bytes]:
        answer = self._git("cat-file", "--batch", stdin="\n".join(names).encode() + b"\n")
        blobs: list[bytes] = []
        at = 0
        for path in paths:
            end = answer.stdout.find(b"\n", at)
            head = answer.stdout[at:end].split()
            if end < 0 or len(head) != 3:  # noqa: PLR2004 - name, kind, size
                raise SourceError(
                    f"the content of {path} is not in {self.name} (a partial clone?); expected "
                    f"every file of the plugin; git said: {answer.last_line}"
                )
            size = int(head[2])
            blobs.append(answer.stdout[end + 1 : end + 1 + size])
            at = end + 1 + size + 1
        return blobs

    def _git(self, *arguments: str, stdin: bytes = b"") -> command.Finished:
        return git(*arguments, cwd=self.folder, env=self._environment, stdin=stdin)

    def _need(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self._git(*arguments, stdin=stdin)
        if not done.succeeded:
            raise SourceError(
                f"git {arguments[0]} failed in {self.name}: {done.last_line}; expected a sound "
                "repository; run that command there to see more"
            )
        return done.stdout


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Repository]:
    """Open the git repository at a path for reading.

    Raises:
        SourceError: There is no such folder, or no git repository in it.
    """
    if not path.is_dir():
        raise SourceError(
            f"no folder at --source {path}; expected a git checkout, a git URL, or `reference`"
        )
    found = git("rev-parse", "--is-bare-repository", "--absolute-git-dir", cwd=path)
    if not found.succeeded:
        raise SourceError(
            f"no git repository at --source {path}; expected a checkout made with git clone; "
            f"git said: {found.last_line}"
        )
    answer, git_dir = found.stdout.decode().splitlines()
    bare = answer == "true"
    top = path
    if not bare:
        shown = git("rev-parse", "--show-toplevel", cwd=path)
        top = Path(shown.stdout.decode().rstrip("\n")) if shown.succeeded else path
    objects = git("rev-parse", "--git-path", "objects", cwd=top).stdout.decode().rstrip("\n")
    remote = git("remote", "get-url", "origin", cwd=top)
    name = remote.stdout.decode().strip() if remote.succeeded else Path(git_dir).parent.name
    with cache.scratch("git") as ours:
        (ours / "objects").mkdir()
        yield Repository(
            folder=top,
            name=_without_credentials(name),
            bare=bare,
            _environment={
                "GIT_INDEX_FILE": str(ours / "index"),
                "GIT_OBJECT_DIRECTORY": str(ours / "objects"),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(top / objects),
            },
            _index=ours / "index",
        )


@contextlib.contextmanager
def fetched(url: str, refs: Sequence[str], folders: Sequence[str]) -> Iterator[Repository]:
    """Fetch one commit per ref of a git URL: no history, and only the folders' files.

    Raises:
        SourceError: Nothing answers there, a ref is unknown, or the download broke off.
    """
    ours = cache.root() / "repositories" / sha256_of(url.encode())[:16]
    with cache.disk_errors(ours):
        ours.mkdir(parents=True, exist_ok=True)
    shown = _without_credentials(url)
    for setup in (
        ("init", "--quiet"),
        ("config", "remote.origin.url", url),
        ("config", "remote.origin.promisor", "true"),
        ("config", "remote.origin.partialclonefilter", "blob:none"),
        ("sparse-checkout", "set", "--no-cone", *(f"/{folder}/" for folder in folders)),
    ):
        done = git(*setup, cwd=ours)
        if not done.succeeded:
            raise SourceError(f"cannot prepare a fetch of {shown}: {done.last_line}")
    for ref in refs:
        name = f"refs/gateway-proof/{sha256_of(ref.encode())[:16]}"
        wanted = f"+{ref}:{name}"
        done = git(
            "fetch",
            "--quiet",
            "--depth=1",
            "--filter=blob:none",
            "--no-tags",
            "origin",
            wanted,
            cwd=ours,
        )
        if done.succeeded:
            # A checkout asks for all missing blobs at once; reading them one by one would not.
            done = git("checkout", "--quiet", "--force", "--detach", name, cwd=ours)
        if not done.succeeded:
            raise SourceError(
                f"cannot fetch {ref!r} of {shown}: {done.last_line}; expected a git repository "
                "that answers and has this ref; check the URL, the ref and the network, then run "
                "the same command again"
            )
    with opened(ours) as repository:
        yield repository


def fetched_ref(ref: str) -> str:
    """Return the name under which :func:`fetched` keeps a ref."""
    return f"refs/gateway-proof/{sha256_of(ref.encode())[:16]}"


def write(files: Sequence[File], folder: Path, shown: str) -> None:
    """Write files below a folder, executable bits and links included.

    Raises:
        SourceError: A link leads out of the folder.
    """
    for file in files:
        target = folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.mode == "120000":
            destination = os.fsdecode(file.content)
            within = os.path.normpath(PurePosixPath(file.path).parent / destination)
            if destination.startswith("/") or within.startswith(".."):
                raise SourceError(
                    f"{file.path} in {shown} is a link to {destination}, outside the repository; "
                    "expected a tree that stands alone; replace the link by the file"
                )
            target.symlink_to(destination)
        else:
            target.write_bytes(file.content)
            if file.mode == "100755":
                target.chmod(0o755)


def apply(patch: bytes, folder: Path, within: Sequence[str], shown: str) -> None:
    """Apply a patch to a tree that is not a repository, and prove that the tree changed.

    git skips a patch's files that lie outside the folder it was started in, with status 0
    (bun 35099 is one report of it): hence the look at the tree before and after.

    Raises:
        SourceError: It does not apply, or changes nothing of the plugin.
    """
    before = digest(folder)
    done = git(
        "apply",
        "--whitespace=nowarn",
        *(f"--include={name}/*" for name in within),
        "-",
        cwd=folder,
        env={"GIT_CEILING_DIRECTORIES": str(folder.parent)},
        stdin=patch,
    )
    if not done.succeeded:
        raise SourceError(
            f"the patch {shown} does not apply: {done.last_line}; expected a patch against the "
            "baseline as `git diff` writes it at the repository's root; make it again from there"
        )
    if digest(folder) == before:
        raise SourceError(
            f"the patch {shown} changes nothing below {within[0]}; expected paths as seen from "
            "the repository's root, such as a/" + within[0] + "/main.go; make it again from there"
        )


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


def git(
    *arguments: str,
    cwd: Path,
    env: dict[str, str] | None = None,
    stdin: bytes = b"",
) -> command.Finished:
    """Run git in a folder: no prompt, no lock it can do without, no variable of an outer git."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    for kept in ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_CONFIG_GLOBAL"):
        if kept in os.environ:
            environment[kept] = os.environ[kept]
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        return command.run(
            ["git", *_QUIET, *arguments], cwd=cwd, env=environment | (env or {}), stdin=stdin
        )
    except FileNotFoundError as error:
        raise SourceError(
            "git was not found on PATH; a source is read with it; install git"
        ) from error


def _without_credentials(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
