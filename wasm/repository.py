"""A user's git repository, read without changing anything in it.

Whatever git has to write (an index, the objects of an uncommitted change, blobs that a partial
clone fetches late) goes to a folder of ours: the user's index, refs and objects stay as they are.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wasm import cache, git
from wasm.errors import SourceError
from wasm.files import File
from wasm.records import Patch, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wasm import command

# A diff as `git apply` takes it. diff-tree reads none of the user's settings for looks.
_PLAIN_DIFF = (
    "-r",
    "--patch",
    "--binary",
    "--full-index",
    "--no-color",
    "--no-ext-diff",
    "--no-renames",
    "--no-textconv",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
# A listing of refs is short; a commit's trees and a plugin's files are a few MB, for slow networks.
_LISTING_S = 60.0
_DOWNLOAD_S = 300.0
_FULL_NAME = re.compile(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}")
# What git may take for a commit's short name, or for more than a name.
_NO_REF_ALONE = re.compile(r"[0-9a-fA-F]{4,}|.*[~^@:].*")
# Where git looks for a ref that is not named in full (gitrevisions(7)).
_PLACES = ("refs/{}", "refs/tags/{}", "refs/heads/{}", "refs/remotes/{}", "refs/remotes/{}/HEAD")
_PARTIAL = r"^(remote\..*\.promisor|extensions\.partialclone)$"


@dataclass(frozen=True)
class Repository:
    """A git repository and the folder that takes what git writes while we read it.

    Attributes:
        folder: Where git is started: the work tree, or the bare repository.
        name: How evidence names it: the remote's URL, unless that is a path of this machine;
            then the folder's name.
        bare: Whether there is no work tree.
        partial: Whether blobs may be missing, to be fetched when they are read.
    """

    folder: Path
    name: str
    bare: bool
    partial: bool
    _environment: dict[str, str]
    _index: Path

    def commit(self, ref: str) -> str:
        """Return the commit that a ref names.

        Raises:
            SourceError: There is no such commit here.
        """
        found = self._git("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
        if "is ambiguous" in found.stderr and self._commits(ref) != {found.stdout}:
            raise _ambiguous(ref, self.name)
        if found.succeeded:
            return found.stdout.decode().strip()
        if ref == "HEAD":
            raise _without_commits(self.name)
        shallow = self._need("rev-parse", "--is-shallow-repository").strip() == b"true"
        raise SourceError(
            f"unknown ref {ref!r} in {self.name}{', a shallow clone' if shallow else ''}; expected "
            "a branch, tag or commit that is in this repository; fetch it first"
            f"{', with `git fetch --unshallow`' if shallow else ''}, or name another"
        )

    def _commits(self, ref: str) -> set[bytes]:
        """Return the commits of all refs of a name; none for what may mean something else, too."""
        if _NO_REF_ALONE.fullmatch(ref):
            return set()
        places = [f"{place.format(ref)}^{{commit}}" for place in _PLACES]
        found = [self._git("rev-parse", "--verify", "--quiet", place) for place in places]
        return {each.stdout for each in found if each.succeeded}

    def tree(self, treeish: str, folder: str) -> str | None:
        """Return git's name for a folder's tree, or None when the folder is not there."""
        path = "" if folder == "." else folder
        found = self._git("rev-parse", "--verify", "--quiet", f"{treeish}:{path}")
        if not found.succeeded:
            return None
        name = found.stdout.decode().strip()
        kind = self._git("cat-file", "-t", name)
        return name if kind.stdout.strip() == b"tree" else None

    def work_tree(self, folders: Sequence[str]) -> str:
        """Return a tree of these folders as they lie in the work tree.

        Untracked files that are not ignored belong to it: they take part in a build. Files that a
        sparse checkout left out are as in HEAD; the copy of the user's index knows which.
        """
        # Without our environment: git would answer with our index's own place.
        real_index = self.folder / _path_of(self.folder, "--git-path", "index")
        if real_index.is_file():
            # With its time: git looks into files that are no older than the index, and only there
            # finds a change of the same size within the same second.
            shutil.copy2(real_index, self._index)
        self._need("read-tree", "--reset", "HEAD")
        self._take_nothing_for_unchanged(folders)
        listed = ("--modified", "--deleted", "--others", "--exclude-standard")
        changed = set(self._need("ls-files", "-z", *listed, "--", *folders).split(b"\0")) - {b""}
        for path in changed:
            if path.endswith(b"/"):
                raise self._not_files_only(path, "repository of its own")
        # A file that has become a folder goes when that folder's files are added.
        changed -= {os.path.dirname(path) for path in changed}  # noqa: PTH120 - bytes
        names = b"".join(path + b"\0" for path in sorted(changed))
        self._write("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=names)
        return self._tree_of(self._need("ls-files", "--stage", "-z", "--", *folders))

    def _take_nothing_for_unchanged(self, folders: Sequence[str]) -> None:
        """Lift the marks by which git passes over files that are there, and may be changed."""
        rows = [
            row for row in self._need("ls-files", "-v", "-z", "--", *folders).split(b"\0") if row
        ]
        assumed = [row[2:] for row in rows if row[:1].islower()]
        here = os.fsencode(self.folder)
        skipped = [row[2:] for row in rows if row[:1] in (b"S", b"s")]
        skipped = [path for path in skipped if os.path.lexists(os.path.join(here, path))]  # noqa: PTH118 - bytes
        for flag, paths in (("assume-unchanged", assumed), ("skip-worktree", skipped)):
            if paths:
                names = b"".join(path + b"\0" for path in paths)
                self._write("update-index", f"--no-{flag}", "-z", "--stdin", stdin=names)

    def tree_with(self, treeish: str, folder: str, changed: dict[str, bytes]) -> str:
        """Return a tree of a folder with other contents of some of its files, byte for byte."""
        rows = self._need("ls-tree", "-r", "-z", "--full-tree", treeish, "--", folder)
        modes = {row.partition(b"\t")[2]: row.split()[0] for row in rows.split(b"\0") if row}
        for path, content in changed.items():
            name = self._write("hash-object", "-w", "--no-filters", "--stdin", stdin=content)
            key = os.fsencode(path)
            rows += b"%b %b\t%b\0" % (modes[key], name.strip(), key)
        return self._tree_of(rows)

    def tree_of(self, folder: Path) -> str:
        """Return the tree of a folder that is no repository, byte for byte."""
        paths = [path for path in sorted(folder.rglob("*")) if path.is_symlink() or path.is_file()]
        plain = [path for path in paths if not path.is_symlink()]
        listed = "".join(f"{path}\n" for path in plain).encode("utf-8", "surrogateescape")
        written = self._write("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=listed)
        names = dict(zip(plain, written.split(), strict=True))
        rows = b""
        for path in paths:
            if path.is_symlink():
                target = os.fsencode(path.readlink())
                mode = b"120000"
                name = self._write("hash-object", "-w", "--stdin", stdin=target).strip()
            else:
                mode = b"100755" if os.access(path, os.X_OK) else b"100644"
                name = names[path]
            rows += b"%b %b\t%b\0" % (mode, name, os.fsencode(path.relative_to(folder)))
        return self._tree_of(rows)

    def _tree_of(self, rows: bytes) -> str:
        """Return the tree of rows as ls-tree and ls-files list them; the last of a path holds."""
        self._need("read-tree", "--empty")
        self._write("update-index", "-z", "--index-info", stdin=rows)
        return self._write("write-tree", "--missing-ok").decode().strip()

    def diff(self, before: str, after: str, folders: Sequence[str]) -> Patch | None:
        """Return what changed in these folders from one tree to another, None for nothing."""
        content = self._need("diff-tree", *_PLAIN_DIFF, before, after, "--", *folders)
        return Patch.of(content) if content else None

    def files(self, treeish: str, folders: Sequence[str]) -> list[File]:
        """Return every file of some folders, as git stores it: no attribute or filter applies.

        Raises:
            SourceError: A file's content is missing (a partial clone), or is a submodule.
        """
        if self.partial:
            _fetch_missing(self.folder, treeish, folders, self._environment)
        listing = self._need("ls-tree", "-r", "-z", "--full-tree", treeish, "--", *folders)
        rows: list[tuple[str, str, str]] = []
        for line in listing.split(b"\0"):
            if not line:
                continue
            meta, _, path = line.partition(b"\t")
            mode, kind, name = meta.decode().split()
            if kind != "blob":
                raise self._not_files_only(path, "submodule")
            rows.append((mode, name, os.fsdecode(path)))
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
                    f"the content of {path} is not in {self.name} (a partial clone?): "
                    f"{git.reason(answer)}; expected every file of the plugin; fetch it with "
                    "`git checkout`, or check the network"
                )
            size = int(head[2])
            blobs.append(answer.stdout[end + 1 : end + 1 + size])
            at = end + 1 + size + 1
        return blobs

    def _not_files_only(self, path: bytes, kind: str) -> SourceError:
        return SourceError(
            f"{os.fsdecode(path).rstrip('/')} in {self.name} is a {kind}; expected files only "
            "below the plugin's folder; name a source without one there"
        )

    def _git(self, *arguments: str, stdin: bytes = b"") -> command.Finished:
        return git.run(*arguments, cwd=self.folder, env=self._environment, stdin=stdin)

    def _need(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return self._sound(arguments[0], self._git(*arguments, stdin=stdin))

    def _write(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run what writes objects, out of sight of the user's: git would renew those's times."""
        env = self._environment | {"GIT_ALTERNATE_OBJECT_DIRECTORIES": ""}
        done = git.run(*arguments, cwd=self.folder, env=env, stdin=stdin)
        return self._sound(arguments[0], done)

    def _sound(self, command_name: str, done: command.Finished) -> bytes:
        if not done.succeeded:
            raise SourceError(
                f"git {command_name} failed in {self.name}: {git.reason(done)}; expected a sound "
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
    found = git.run("rev-parse", "--is-inside-work-tree", cwd=path)
    if foreign := re.search("dubious ownership in repository at '(.+)'", found.stderr):
        raise SourceError(
            f"the git repository at --source {path} is another user's, so git does not read it; "
            "expected one of yours, or one that you trust; run `git config --global --add "
            f"safe.directory {shlex.quote(foreign[1])}`, then the same command again"
        )
    if not found.succeeded:
        raise SourceError(
            f"no git repository at --source {path}; expected a checkout made with git clone, not "
            f"an archive that was unpacked; git said: {git.reason(found)}"
        )
    # A .git folder that is named itself has no work tree either.
    bare = found.stdout.strip() != b"true"
    top = Path(_path_of(path, "--absolute-git-dir" if bare else "--show-toplevel"))
    objects = top / _path_of(top, "--git-path", "objects")
    remote = git.run("remote", "get-url", "origin", cwd=top)
    named = top.parent if top.name == ".git" else top
    url = os.fsdecode(remote.stdout).strip() if remote.succeeded else ""
    with cache.scratch("git") as ours:
        (ours / "objects").mkdir()
        yield Repository(
            folder=top,
            name=_without_credentials(url) if _names_a_host(url) else named.name,
            bare=bare,
            partial=git.run("config", "--get-regexp", _PARTIAL, cwd=top).succeeded,
            _environment={
                "GIT_INDEX_FILE": str(ours / "index"),
                "GIT_OBJECT_DIRECTORY": str(ours / "objects"),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(objects),
            },
            _index=ours / "index",
        )


@contextlib.contextmanager
def fetched(url: str, ref: str, folder: str) -> Iterator[Repository]:
    """Fetch one commit of a git URL, as HEAD of a bare repository: no history, one folder's files.

    It is kept in the cache by the commit's name, so that a download that breaks off, or is
    interrupted, leaves nothing that a later run could take for the whole.

    Raises:
        SourceError: Nothing answers there, the ref is unknown, or the download broke off.
    """
    shown = _without_credentials(url)
    commit = ref.lower() if _FULL_NAME.fullmatch(ref) else _remote_commit(url, ref, shown)

    def fill(draft: Path) -> None:
        done = _download(draft, url, commit, folder)
        if done.succeeded:
            return
        told = git.reason(done).replace(url, shown)
        if "not our ref" in told:
            raise _unknown(ref, shown)
        raise SourceError(
            f"the download of {ref!r} from {shown} broke off: {told}; expected a git repository "
            "that answers to the end; check the network, then run the same command again"
        )

    def whole(entry: Path) -> bool:
        return git.run("cat-file", "-e", f"{commit}^{{tree}}", cwd=entry).succeeded

    key = sha256_of(f"{url} {commit} {folder}".encode())
    with opened(cache.entry("repositories", key, fill, whole)) as repository:
        yield replace(repository, name=shown)


def _remote_commit(url: str, ref: str, shown: str) -> str:
    with cache.scratch("git") as nowhere:
        done = git.run("ls-remote", "--quiet", "--", url, cwd=nowhere, limit_s=_LISTING_S)
    if not done.succeeded:
        raise SourceError(
            f"cannot reach {shown}: {git.reason(done).replace(url, shown)}; expected a git "
            "repository that answers; check the URL and the network, then run the same command "
            "again"
        )
    rows = (line.split(b"\t", 1) for line in done.stdout.splitlines())
    names = {os.fsdecode(name): commit.decode() for commit, name in rows}
    # A tag's commit stands under its name with ^{}.
    places = (ref, f"refs/{ref}", f"refs/tags/{ref}", f"refs/heads/{ref}")
    found = {names.get(f"{place}^{{}}", names[place]) for place in places if place in names}
    if len(found) > 1:
        raise _ambiguous(ref, shown)
    if found:
        return found.pop()
    raise _without_commits(shown) if ref == "HEAD" else _unknown(ref, shown)


def _ambiguous(ref: str, shown: str) -> SourceError:
    return SourceError(
        f"the ref {ref!r} is ambiguous in {shown}; expected the name of one commit; write "
        f"refs/heads/{ref} for the branch, refs/tags/{ref} for the tag, or a commit's full name"
    )


def _without_commits(shown: str) -> SourceError:
    return SourceError(
        f"HEAD names no commit in {shown} (an empty repository?); expected one to take the plugin "
        "from; commit it, or name a commit with --baseline-ref"
    )


def _unknown(ref: str, shown: str) -> SourceError:
    return SourceError(
        f"unknown ref {ref!r} in {shown}; expected a branch, a tag or a commit's full name that "
        "is in this repository; name another"
    )


def _download(draft: Path, url: str, commit: str, folder: str) -> command.Finished:
    """Fetch a commit and a folder's files; stop at the first step that fails."""
    for step in (
        ("init", "--quiet", "--bare"),
        ("config", "remote.origin.url", url),
        ("config", "remote.origin.promisor", "true"),
        ("config", "remote.origin.partialclonefilter", "blob:none"),
        ("fetch", "--quiet", "--depth=1", "--filter=blob:none", "--no-tags", "origin", commit),
        ("update-ref", "--no-deref", "HEAD", commit),
    ):
        done = git.run(*step, cwd=draft, limit_s=_DOWNLOAD_S)
        if not done.succeeded:
            return done
    return _fetch_missing(draft, commit, [folder], {})


def _fetch_missing(
    repository: Path, treeish: str, folders: Sequence[str], env: dict[str, str]
) -> command.Finished:
    """Let git fetch all missing blobs of some folders at once; reading asks for one by one."""
    empty = git.run("hash-object", "-t", "tree", "--stdin", cwd=repository, env=env)
    name = empty.stdout.decode().strip()
    # A patch's statistics need every blob; --raw would not.
    statistics = ("diff-tree", "-r", "--shortstat", "--no-renames")
    wanted = (*statistics, name, treeish, "--", *folders)
    return git.run(*wanted, cwd=repository, env=env, limit_s=_DOWNLOAD_S)


def _path_of(folder: Path, *question: str) -> str:
    return os.fsdecode(git.run("rev-parse", *question, cwd=folder).stdout).removesuffix("\n")


def _quoted(path: Path) -> str:
    """Return a path as git's list of object folders takes it: a colon would end it."""
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _names_a_host(url: str) -> bool:
    """Whether a remote means the same to others: a path of this machine does not."""
    scheme, mark, _ = url.partition("://")
    return scheme != "file" if mark else re.match(r"[^/]+:", url) is not None


def _without_credentials(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
