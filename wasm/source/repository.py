"""A user's git repository, read without changing anything in it.

Whatever git has to write (an index, the objects of an uncommitted change, blobs that a partial
clone fetches late) goes to a folder of ours: the user's index, refs and objects stay as they are.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from wasm.foundation import cache
from wasm.foundation.errors import SourceError
from wasm.golang import goversion
from wasm.records import Patch, sha256_of
from wasm.source import git
from wasm.source.files import File
from wasm.source.work_tree import WorkTree, blob_name, not_files_only

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wasm.foundation import subprocesses

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
_TRUSTING = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "all",
}
# What asks git to change a file's bytes on their way to a work tree, and the values that do not.
_CONVERSIONS = ("eol", "filter", "ident", "working-tree-encoding")
_NO_CONVERSION = ("unspecified", "unset", "lf", "UTF-8", "utf-8")
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
    _users_index: Path
    _trusts_modes: bool

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

    @property
    def has_commits(self) -> bool:
        """Whether HEAD names a commit; it names none on a branch that was not begun yet."""
        return self._git("rev-parse", "--verify", "--quiet", "HEAD^{commit}").succeeded

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

    @property
    def lies(self) -> WorkTree:
        """The work tree; not of a bare repository."""
        places = (self.folder, self._users_index, self._index)
        return WorkTree(*places, self.name, self._trusts_modes, self._need, self._write)

    def work_tree(self, folders: Sequence[str], more: Iterable[str] = ()) -> str:
        """Return a tree of these folders as they lie in the work tree, byte for byte."""
        return self._tree_of(self.lies.rows(folders, more))

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

    def changed(self, before: str, after: str, folders: Sequence[str]) -> int:
        """Return how many files of these folders differ between two trees."""
        names = ("-r", "--name-only", "-z", "--no-renames")
        return self._need("diff-tree", *names, before, after, "--", *folders).count(b"\0")

    def keeps_to_itself(self, commit: str) -> bool:
        """Whether this is named by its remote, of which no fetched branch has the commit."""
        if not _names_a_host(self.name):
            return False
        having = ("--count=1", f"--contains={commit}", "refs/remotes/origin")
        return not self._need("for-each-ref", *having).strip()

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
                raise not_files_only(path, "submodule", self.name)
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
            # git does not look whether a loose object is what its name says.
            if blob_name(blobs[-1], len(head[0])) != head[0]:
                raise SourceError(
                    f"the content of {path} in {self.name} is not what its name {head[0].decode()} "
                    "says; expected a sound repository; see `git fsck` there, and clone it again"
                )
            at = end + 1 + size + 1
        return blobs

    def conversions(self, treeish: str, paths: Sequence[str]) -> dict[str, str]:
        """Return the files of a commit that a checkout would convert, and what asks for that."""
        self._need("read-tree", treeish)
        names = b"".join(os.fsencode(path) + b"\0" for path in paths)
        asked = ("check-attr", "--cached", "-z", "--stdin", *_CONVERSIONS)
        parts = self._need(*asked, stdin=names).split(b"\0")
        told = zip(parts[0::3], parts[1::3], map(os.fsdecode, parts[2::3]), strict=False)
        found = [
            (os.fsdecode(path), f"{os.fsdecode(what)}={to}")
            for path, what, to in told
            if to not in _NO_CONVERSION
        ]
        return dict(reversed(found))

    def setting(self, key: str) -> str:
        """Return the value of a setting, and nothing for none."""
        return self._git("config", key).stdout.decode("utf-8", "replace").strip()

    def having(self, treeish: str, paths: Sequence[str]) -> list[str]:
        """Return those of some paths that are files of a commit."""
        listed = self._need("ls-tree", "-z", "--name-only", "--full-tree", treeish, "--", *paths)
        return [os.fsdecode(path) for path in listed.split(b"\0") if path]

    def _git(self, *arguments: str, stdin: bytes = b"") -> subprocesses.Finished:
        return git.run(*arguments, cwd=self.folder, env=self._environment, stdin=stdin)

    def _need(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return self._sound(arguments[0], self._git(*arguments, stdin=stdin))

    def _write(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run what writes objects, out of sight of the user's: git would renew those's times."""
        env = self._environment | {"GIT_ALTERNATE_OBJECT_DIRECTORIES": ""}
        done = git.run(*arguments, cwd=self.folder, env=env, stdin=stdin)
        return self._sound(arguments[0], done)

    def _sound(self, command_name: str, done: subprocesses.Finished) -> bytes:
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
    # A bare repository that is named is an explicit one, as safe.bareRepository asks for.
    named = all((path / part).exists() for part in ("HEAD", "objects", "refs"))
    trusting = _TRUSTING if named else {}
    found = git.run("rev-parse", "--is-inside-work-tree", cwd=path, env=trusting)
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
    place = {"GIT_DIR": _path_of(path, trusting, "--absolute-git-dir")}
    top = Path(place["GIT_DIR"])
    if not bare:
        top = Path(_path_of(path, {}, "--show-toplevel"))
        place["GIT_WORK_TREE"] = str(top)
    with cache.scratch("git") as ours:
        (ours / "objects").mkdir()
        yield _described(top, place, ours, bare=bare)


def _described(top: Path, place: dict[str, str], ours: Path, *, bare: bool) -> Repository:
    remote = git.run("remote", "get-url", "origin", cwd=top, env=place)
    named = top.parent if top.name == ".git" else top
    url = os.fsdecode(remote.stdout).strip() if remote.succeeded else ""
    modes = git.run("config", "--type=bool", "core.fileMode", cwd=top, env=place)
    # Without our environment: git would answer with our index's own place.
    objects, index = (
        top / _path_of(top, place, "--git-path", each) for each in ("objects", "index")
    )
    return Repository(
        folder=top,
        name=_without_credentials(url) if _names_a_host(url) else named.name,
        bare=bare,
        partial=git.run("config", "--get-regexp", _PARTIAL, cwd=top, env=place).succeeded,
        _environment=place
        | {
            "GIT_INDEX_FILE": str(ours / "index"),
            "GIT_OBJECT_DIRECTORY": str(ours / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(objects),
        },
        _index=ours / "index",
        _users_index=index,
        _trusts_modes=modes.stdout.strip() != b"false",
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
        wanted = ("cat-file", "-e", f"{commit}^{{tree}}")
        return git.run(*wanted, cwd=entry, env={"GIT_DIR": str(entry)}).succeeded

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


def _download(draft: Path, url: str, commit: str, folder: str) -> subprocesses.Finished:
    """Fetch a commit and a folder's files; stop at the first step that fails."""
    place = {"GIT_DIR": str(draft)}
    for step in (
        ("init", "--quiet", "--bare"),
        ("config", "remote.origin.url", url),
        ("config", "remote.origin.promisor", "true"),
        ("config", "remote.origin.partialclonefilter", "blob:none"),
        ("fetch", "--quiet", "--depth=1", "--filter=blob:none", "--no-tags", "origin", commit),
        ("update-ref", "--no-deref", "HEAD", commit),
    ):
        done = git.run(*step, cwd=draft, env=place, limit_s=_DOWNLOAD_S)
        if not done.succeeded:
            return done
    wanted = [folder, *goversion.recipes(folder), *above(folder, ".gitattributes")]
    return _fetch_missing(draft, commit, wanted, place)


def above(folder: str, name: str) -> list[str]:
    """Return where a file of a name would lie in the folders above a folder."""
    return [(parent / name).as_posix() for parent in PurePosixPath(folder).parents]


def _fetch_missing(
    repository: Path, treeish: str, folders: Sequence[str], env: dict[str, str]
) -> subprocesses.Finished:
    """Let git fetch all missing blobs of some folders at once; reading asks for one by one."""
    empty = git.run("hash-object", "-t", "tree", "--stdin", cwd=repository, env=env)
    name = empty.stdout.decode().strip()
    # A patch's statistics need every blob; --raw would not.
    statistics = ("diff-tree", "-r", "--shortstat", "--no-renames")
    wanted = (*statistics, name, treeish, "--", *folders)
    return git.run(*wanted, cwd=repository, env=env, limit_s=_DOWNLOAD_S)


def _path_of(folder: Path, env: dict[str, str], *question: str) -> str:
    answer = git.run("rev-parse", *question, cwd=folder, env=env)
    return os.fsdecode(answer.stdout).removesuffix("\n")


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
