"""A git repository as wasm.repository reads it, and that reading leaves it as it was."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import threading
import time
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from wasm.foundation.errors import SourceError
from wasm.source import git, repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.unit.wasm.conftest import Checkout, MakeCheckout
    from wasm.source.files import File

pytestmark = pytest.mark.usefixtures("cache_folder")


def by_path(files: list[File]) -> dict[str, bytes]:
    return {file.path: file.content for file in files}


def as_it_lies(checkout: Checkout) -> dict[str, bytes]:
    with repository.opened(checkout.path) as found:
        return by_path(found.files(found.work_tree([checkout.plugin]), [checkout.plugin]))


def sentence_of(call: Callable[[], object]) -> str:
    with pytest.raises(SourceError) as caught:
        call()
    return caught.value.sentence


def make_dirty(checkout: Checkout) -> None:
    """Every way for a work tree to differ from HEAD."""
    plugin = checkout.plugin
    checkout.write(f"{plugin}/deleted.go", "package main\n")
    checkout.write(f"{plugin}/staged_then_changed.go", "package main\n")
    checkout.write(f"{plugin}/was_a_file", "a file\n")
    checkout.write(f"{plugin}/.gitignore", "*.ignored\n")
    checkout.commit()
    checkout.write(f"{plugin}/main.go", "package main // modified\n")
    (checkout.path / plugin / "deleted.go").unlink()
    checkout.write(f"{plugin}/staged.go", "package main // staged\n")
    checkout.write(f"{plugin}/staged_then_changed.go", "package main // staged\n")
    checkout.git("add", f"{plugin}/staged.go", f"{plugin}/staged_then_changed.go")
    checkout.write(f"{plugin}/staged_then_changed.go", "package main // changed again\n")
    checkout.write(f"{plugin}/untracked.go", "package main // untracked\n")
    checkout.write(f"{plugin}/x.ignored", "ignored\n")
    (checkout.path / plugin / "was_a_file").unlink()
    checkout.write(f"{plugin}/was_a_file/now_a_folder", "a folder\n")
    checkout.write("elsewhere/notes.txt", "changed outside the plugin\n")


DIRTY = {
    ".gitignore": b"*.ignored\n",
    "go.mod": b"module tiny.example/plugin\n\ngo 1.24\n",
    "main.go": b"package main // modified\n",
    "staged.go": b"package main // staged\n",
    "staged_then_changed.go": b"package main // changed again\n",
    "untracked.go": b"package main // untracked\n",
    "was_a_file/now_a_folder": b"a folder\n",
}


def test_a_dirty_work_tree_is_taken_as_it_lies_without_what_is_ignored(checkout: Checkout) -> None:
    make_dirty(checkout)

    assert as_it_lies(checkout) == {
        f"{checkout.plugin}/{name}": content for name, content in DIRTY.items()
    }


def at_the_start_of_a_second() -> None:
    time.sleep(1 - time.time() % 1)


def test_a_change_of_the_same_size_within_the_second_of_the_checkout_is_seen(
    checkout: Checkout, tmp_path: Path
) -> None:
    name = f"{checkout.plugin}/main.go"
    at_the_start_of_a_second()
    checkout.git("clone", "--quiet", ".", str(tmp_path / "again"))
    again = replace(checkout, path=tmp_path / "again")
    before = (again.path / name).read_bytes()
    with (again.path / name).open("r+b") as file:  # in place, as some editors do it
        file.write(before.swapcase())
    at_the_start_of_a_second()
    assert as_it_lies(again)[name] == before.swapcase() != before


@pytest.mark.parametrize("flag", ["assume-unchanged", "skip-worktree"])
def test_a_changed_file_that_git_is_told_to_pass_over_is_seen(
    checkout: Checkout, flag: str
) -> None:
    name = f"{checkout.plugin}/main.go"
    checkout.git("update-index", f"--{flag}", name)
    checkout.write(name, "package main // changed\n")
    assert as_it_lies(checkout)[name] == b"package main // changed\n"
    assert checkout.git("ls-files", "-v", name)[0] in "hS"


@pytest.mark.parametrize(
    "setting",
    ["core.autocrlf=false", "core.splitIndex=true", "core.untrackedCache=true", "index.version=4"],
)
def test_reading_a_dirty_checkout_changes_no_byte_and_no_time_of_it(
    checkout: Checkout, setting: str
) -> None:
    checkout.git("config", *setting.split("=", 1))
    make_dirty(checkout)
    before = checkout.snapshot()
    status = ["git", "--no-optional-locks", "status", "--porcelain"]

    taken = as_it_lies(checkout)

    assert checkout.snapshot().keys() == before.keys()
    changed = {path for path, what in checkout.snapshot().items() if what != before[path]}
    # git renews the time of a split index's shared half whenever it reads it, in `git status` too.
    assert not {path for path in changed if "sharedindex" not in path}
    assert len(taken) == len(DIRTY)
    assert (
        b"staged.go"
        in subprocess.run(status, cwd=checkout.path, check=True, capture_output=True).stdout
    )


def test_hooks_monitors_and_filters_of_the_users_settings_do_not_run(
    checkout: Checkout, tmp_path: Path
) -> None:
    mark = tmp_path / "it-ran"
    script = checkout.write(".git/hooks/post-index-change", f"#!/bin/sh\ntouch '{mark}'\n")
    script.chmod(0o755)
    checkout.git("config", "core.fsmonitor", str(script))
    checkout.write(f"{checkout.plugin}/main.go", "package main // modified\n")

    as_it_lies(checkout)

    assert not mark.exists()


def test_a_file_that_a_sparse_checkout_left_out_is_as_in_head(checkout: Checkout) -> None:
    committed = as_it_lies(checkout)
    checkout.git("sparse-checkout", "set", "elsewhere")
    assert not (checkout.path / checkout.plugin).exists()

    assert as_it_lies(checkout) == committed
    assert len(committed) == 2


@pytest.mark.parametrize("sparse_index", ["--sparse-index", "--no-sparse-index"])
def test_changes_in_a_partly_left_out_folder_are_taken(
    checkout: Checkout, sparse_index: str
) -> None:
    checkout.write(f"{checkout.plugin}/deep/left_out.go", "package deep\n")
    checkout.commit()
    checkout.git("sparse-checkout", "set", "--cone", sparse_index, "elsewhere")
    checkout.write(f"{checkout.plugin}/new.go", "package main // new\n")

    taken = as_it_lies(checkout)

    assert taken[f"{checkout.plugin}/new.go"] == b"package main // new\n"
    assert taken[f"{checkout.plugin}/deep/left_out.go"] == b"package deep\n"
    assert f"{checkout.plugin}/main.go" in taken


def test_a_conflict_elsewhere_in_the_work_tree_does_not_matter(checkout: Checkout) -> None:
    checkout.git("checkout", "--quiet", "-b", "other")
    checkout.write("elsewhere/notes.txt", "theirs\n")
    checkout.commit()
    checkout.git("checkout", "--quiet", "main")
    checkout.write("elsewhere/notes.txt", "ours\n")
    checkout.commit()
    with contextlib.suppress(subprocess.CalledProcessError):
        checkout.git("merge", "other")
    assert checkout.git("status", "--porcelain") == "UU elsewhere/notes.txt"

    assert len(as_it_lies(checkout)) == 2


@pytest.mark.parametrize("as_it_lies", [True, False])
def test_an_object_that_is_not_what_its_name_says_is_refused(
    checkout: Checkout, *, as_it_lies: bool
) -> None:
    """Git itself reads a loose object without a look at that."""
    name = checkout.git("rev-parse", f"HEAD:{checkout.plugin}/main.go")
    place = checkout.path / ".git" / "objects" / name[:2] / name[2:]
    place.chmod(0o644)
    place.write_bytes(zlib.compress(b"blob 14\0package other\n"))
    assert checkout.git("cat-file", "blob", name) == "package other"

    with repository.opened(checkout.path) as found:
        treeish = found.work_tree([checkout.plugin]) if as_it_lies else "HEAD"
        told = sentence_of(lambda: found.files(treeish, [checkout.plugin]))

    assert told.startswith(
        f"the content of {checkout.plugin}/main.go in checkout is not what its name {name} says; "
    )


def test_a_partial_clone_fetches_only_what_is_read_and_keeps_none_of_it(
    checkout: Checkout, tmp_path: Path, make_clone: Callable[..., Checkout]
) -> None:
    first = checkout.git("rev-parse", "HEAD")
    checkout.write(f"{checkout.plugin}/main.go", "package main // second\n")
    checkout.commit()
    clone = make_clone(tmp_path / "clone", "--filter=blob:none")
    before = clone.snapshot()
    missing = clone.git("rev-list", "--objects", "--missing=print", "--all")
    assert "?" in missing

    with repository.opened(clone.path) as found:
        assert found.partial
        taken = by_path(found.files(found.commit(first), [clone.plugin]))

    assert b"return 41" in taken[f"{clone.plugin}/main.go"]
    assert clone.snapshot() == before


def test_content_that_a_partial_clone_cannot_fetch_any_more_is_named(
    checkout: Checkout, tmp_path: Path, make_clone: Callable[..., Checkout]
) -> None:
    first = checkout.git("rev-parse", "HEAD")
    checkout.write(f"{checkout.plugin}/main.go", "package main // second\n")
    checkout.commit()
    clone = make_clone(tmp_path / "clone", "--filter=blob:none")
    checkout.path.rename(tmp_path / "moved")

    with repository.opened(clone.path) as found:
        told = sentence_of(lambda: found.files(found.commit(first), [clone.plugin]))

    assert re.fullmatch(
        rf"the content of {clone.plugin}/main.go is not in {re.escape(found.name)} "
        r"\(a partial clone\?\): fatal: .+; expected every file of the plugin; fetch it with "
        r"`git checkout`, or check the network",
        told,
    )


@pytest.fixture
def make_clone(checkout: Checkout) -> Callable[..., Checkout]:
    def make(path: Path, *options: str) -> Checkout:
        checkout.git("config", "uploadpack.allowFilter", "true")
        checkout.git("config", "uploadpack.allowAnySHA1InWant", "true")
        checkout.git("clone", "--quiet", *options, checkout.path.as_uri(), str(path))
        return type(checkout)(path, checkout.plugin)

    return make


@pytest.mark.parametrize(
    "name", ["with a space", "with-ünïcödé-目录", "with:a:colon", 'with"a"quote', "with\\slash"]
)
def test_any_path_can_be_read_dirty_too(
    tmp_path: Path, make_checkout: MakeCheckout, name: str
) -> None:
    checkout = make_checkout(tmp_path / name, plugin=f"{name.replace(':', '-')}/plug[in]*")
    checkout.write(f"{checkout.plugin}/ünträcked.go", "package main\n")

    assert len(as_it_lies(checkout)) == 3
    with repository.opened(checkout.path) as found:
        assert found.name == name


def test_a_bare_repository_a_git_folder_and_a_subfolder_are_opened(
    checkout: Checkout, tmp_path: Path
) -> None:
    checkout.git("clone", "--quiet", "--bare", ".", str(tmp_path / "plugin.git"))
    subprocess.run(["git", "remote", "remove", "origin"], cwd=tmp_path / "plugin.git", check=True)
    for path, name, bare in (
        (tmp_path / "plugin.git", "plugin.git", True),
        (checkout.path / ".git", "checkout", True),
        (checkout.path / checkout.plugin, "checkout", False),
    ):
        with repository.opened(path) as found:
            assert (found.name, found.bare) == (name, bare)
            assert found.commit("HEAD") == checkout.git("rev-parse", "HEAD")
            assert len(found.files("HEAD", [checkout.plugin])) == 2


def test_a_linked_worktree_is_read_as_it_lies_and_left_as_it_is(
    checkout: Checkout, tmp_path: Path
) -> None:
    checkout.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "linked"))
    linked = type(checkout)(tmp_path / "linked")
    linked.write(f"{linked.plugin}/main.go", "package main // in the linked tree\n")
    before = (checkout.snapshot(), linked.snapshot())

    taken = as_it_lies(linked)

    assert taken[f"{linked.plugin}/main.go"] == b"package main // in the linked tree\n"
    assert (checkout.snapshot(), linked.snapshot()) == before


def test_credentials_in_a_remotes_url_are_not_recorded(checkout: Checkout) -> None:
    checkout.git("remote", "add", "origin", "https://user:secret@git.example/group/plugin.git")

    with repository.opened(checkout.path) as found:
        assert found.name == "https://git.example/group/plugin.git"


@pytest.mark.parametrize("how", ["submodule", "repository of its own"])
def test_a_repository_inside_the_plugins_folder_is_refused(
    checkout: Checkout, make_checkout: MakeCheckout, how: str
) -> None:
    make_checkout(checkout.path / checkout.plugin / "inner")
    if how == "submodule":
        checkout.commit()

    assert sentence_of(lambda: as_it_lies(checkout)) == (
        f"extensions/tiny/inner in checkout is a {how}; expected files only below the plugin's "
        "folder; name a source without one there"
    )


def test_no_users_setting_changes_a_patch(checkout: Checkout) -> None:
    first = checkout.git("rev-parse", "HEAD")
    checkout.write(f"{checkout.plugin}/main.go", "package main\n\n// another\nfunc main() {}\n")
    second = checkout.commit()
    with repository.opened(checkout.path) as found:
        plain = found.diff(first, second, [checkout.plugin])
    for key, value in {
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "diff.context": "9",
        "diff.algorithm": "patience",
        "diff.external": "false",
        "color.diff": "always",
        "core.quotePath": "false",
    }.items():
        checkout.git("config", key, value)

    with repository.opened(checkout.path) as found:
        assert found.diff(first, second, [checkout.plugin]) == plain
    assert plain is not None
    assert plain.content.startswith(b"diff --git a/extensions/tiny/main.go b/extensions/tiny/")


def test_a_git_that_another_git_started_reads_the_repository_that_was_named(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(variable, str(tmp_path / "nowhere"))

    assert len(as_it_lies(checkout)) == 2


# A ref that names no commit, or not one -----------------------------------------------------------


def commit_of(checkout: Checkout, ref: str) -> str:
    with repository.opened(checkout.path) as found:
        return found.commit(ref)


def test_a_name_of_two_commits_is_ambiguous_whatever_git_itself_would_take(
    checkout: Checkout, tmp_path: Path
) -> None:
    checkout.git("tag", "v1")
    checkout.write("elsewhere/notes.txt", "the next commit\n")
    checkout.commit()
    checkout.git("branch", "v1")
    checkout.git("config", "core.warnAmbiguousRefs", "false")
    checkout.git("clone", "--quiet", "--bare", ".", str(tmp_path / "remote.git"))
    url = (tmp_path / "remote.git").as_uri()

    def fetch() -> None:
        with repository.fetched(url, "v1", checkout.plugin):
            pass

    for told, name in (
        (sentence_of(lambda: commit_of(checkout, "v1")), "checkout"),
        (sentence_of(fetch), url),
    ):
        assert told == (
            f"the ref 'v1' is ambiguous in {name}; expected the name of one commit; write "
            "refs/heads/v1 for the branch, refs/tags/v1 for the tag, or a commit's full name"
        )
    assert commit_of(checkout, "refs/tags/v1") == checkout.git("rev-parse", "HEAD~1")
    assert commit_of(checkout, "refs/heads/v1") == checkout.git("rev-parse", "HEAD")


@pytest.mark.parametrize("annotated", [True, False])
def test_two_refs_of_one_name_on_one_commit_are_that_commit(
    checkout: Checkout, tmp_path: Path, *, annotated: bool
) -> None:
    checkout.git("tag", *(["--annotate", "--message=one"] if annotated else []), "v1")
    checkout.git("branch", "v1")
    checkout.git("clone", "--quiet", "--bare", ".", str(tmp_path / "remote.git"))

    with repository.fetched((tmp_path / "remote.git").as_uri(), "v1", checkout.plugin) as found:
        assert found.commit("HEAD") == checkout.git("rev-parse", "HEAD")
    assert commit_of(checkout, "v1") == checkout.git("rev-parse", "HEAD")


def test_a_ref_named_like_another_commit_is_ambiguous_though_there_is_one_such_ref(
    checkout: Checkout,
) -> None:
    short = checkout.git("rev-parse", "--short=8", "HEAD")
    checkout.write("elsewhere/notes.txt", "the next commit\n")
    checkout.commit()
    checkout.git("branch", short)

    assert sentence_of(lambda: commit_of(checkout, short)).startswith(
        f"the ref {short!r} is ambiguous in checkout; "
    )


def test_a_ref_that_a_shallow_clone_lacks_is_told_with_the_way_to_get_it(
    checkout: Checkout, tmp_path: Path, make_checkout: MakeCheckout
) -> None:
    checkout.write("elsewhere/notes.txt", "the next commit\n")
    checkout.commit()
    shallow = make_checkout(tmp_path / "other")
    shallow.git("clone", "--quiet", "--depth=1", checkout.path.as_uri(), str(tmp_path / "shallow"))

    def open_it() -> None:
        with repository.opened(tmp_path / "shallow") as found:
            found.commit("HEAD~1")

    # Its remote is a path of this machine: it is named by its folder.
    assert sentence_of(open_it) == (
        "unknown ref 'HEAD~1' in shallow, a shallow clone; expected a branch, tag or commit that "
        "is in this repository; fetch it first, with `git fetch --unshallow`, or name another"
    )


def test_a_url_of_an_empty_repository_is_told_so(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "empty.git")], check=True)
    url = (tmp_path / "empty.git").as_uri()

    def fetch() -> None:
        with repository.fetched(url, "HEAD", "p"):
            pass

    assert sentence_of(fetch) == (
        f"HEAD names no commit in {url} (an empty repository?); expected one to take the plugin "
        "from; commit it, or name a commit with --baseline-ref"
    )


def test_a_repository_of_another_user_is_told_with_what_makes_git_read_it(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "GIT_TEST_ASSUME_DIFFERENT_OWNER"  # git's own, for its tests
    monkeypatch.setattr("wasm.source.git._KEPT", (*git._KEPT, variable))
    monkeypatch.setenv(variable, "true")

    assert sentence_of(lambda: commit_of(checkout, "HEAD")) == (
        f"the git repository at --source {checkout.path} is another user's, so git does not read "
        "it; expected one of yours, or one that you trust; run `git config --global --add "
        f"safe.directory {checkout.path}`, then the same command again"
    )


# git's own protection against repositories that nobody has named --------------------------------


@pytest.fixture
def explicit(checkout: Checkout, tmp_path: Path) -> Path:
    """A bare repository, for a user who has git take such a one only when it is named."""
    checkout.git("clone", "--quiet", "--bare", ".", str(tmp_path / "plugin.git"))
    checkout.git("config", "--global", "safe.bareRepository", "explicit")
    return tmp_path / "plugin.git"


def test_a_bare_repository_that_is_named_is_an_explicit_one(
    checkout: Checkout, explicit: Path
) -> None:
    commit = checkout.git("rev-parse", "HEAD")

    with repository.opened(explicit) as found:
        assert found.commit("main") == commit
        assert len(found.files(commit, [checkout.plugin])) == 2
    for _ in range(2):  # downloaded, and from the cache
        with repository.fetched(explicit.as_uri(), "main", checkout.plugin) as found:
            assert found.commit("HEAD") == commit
            assert len(found.files("HEAD", [checkout.plugin])) == 2


def test_a_bare_repository_around_the_folder_that_is_named_is_none_to_read(explicit: Path) -> None:
    inside = explicit / "somewhere"
    inside.mkdir()

    with pytest.raises(SourceError) as caught, repository.opened(inside):
        pass

    assert "safe.bareRepository" in caught.value.sentence


# A remote ---------------------------------------------------------------------------------------


@pytest.fixture
def bare_url(checkout: Checkout, tmp_path: Path) -> str:
    checkout.git("tag", "light")
    checkout.git("tag", "--annotate", "--message=heavy", "v1")
    checkout.git("branch", "release/1.0")
    checkout.git("clone", "--quiet", "--bare", ".", str(tmp_path / "remote.git"))
    for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        subprocess.run(["git", "config", key, "true"], cwd=tmp_path / "remote.git", check=True)
    return (tmp_path / "remote.git").as_uri()


@pytest.mark.parametrize(
    "ref",
    ["HEAD", "main", "release/1.0", "refs/heads/main", "light", "v1", "tags/v1", "a full name"],
)
def test_any_name_of_a_commit_is_fetched_from_a_url(
    checkout: Checkout, bare_url: str, ref: str
) -> None:
    commit = checkout.git("rev-parse", "HEAD")

    with repository.fetched(bare_url, commit if " " in ref else ref, checkout.plugin) as found:
        assert found.bare
        assert found.name == bare_url
        assert found.commit("HEAD") == commit
        assert len(found.files("HEAD", [checkout.plugin])) == 2


def test_a_commit_that_no_branch_leads_to_is_fetched_without_its_history(
    checkout: Checkout, bare_url: str
) -> None:
    old = checkout.git("rev-parse", "HEAD")
    checkout.write(f"{checkout.plugin}/main.go", "package main // second\n")
    checkout.commit()
    checkout.git("push", "--quiet", bare_url, "main")

    with repository.fetched(bare_url, old, checkout.plugin) as found:
        assert (
            b"return 41"
            in by_path(found.files("HEAD", [checkout.plugin]))[f"{checkout.plugin}/main.go"]
        )


def test_only_the_plugins_blobs_are_downloaded(
    checkout: Checkout, bare_url: str, cache_folder: Path
) -> None:
    with repository.fetched(bare_url, "main", checkout.plugin):
        pass

    [kept] = [path for path in (cache_folder / "repositories").iterdir() if path.is_dir()]
    listed = subprocess.run(
        ["git", "rev-list", "--objects", "--missing=print", "HEAD"],
        cwd=kept,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    other = checkout.git("rev-parse", "HEAD:elsewhere/notes.txt")
    assert [line for line in listed.splitlines() if line.startswith("?")] == [f"?{other}"]


def test_a_branch_that_moves_is_fetched_anew(checkout: Checkout, bare_url: str) -> None:
    with repository.fetched(bare_url, "main", checkout.plugin) as found:
        first = found.commit("HEAD")
    checkout.write(f"{checkout.plugin}/main.go", "package main // second\n")
    second = checkout.commit()
    checkout.git("push", "--quiet", bare_url, "main")

    with repository.fetched(bare_url, "main", checkout.plugin) as found:
        assert found.commit("HEAD") == second != first


def test_a_commit_by_its_full_name_needs_its_remote_only_once(
    checkout: Checkout, bare_url: str, tmp_path: Path
) -> None:
    commit = checkout.git("rev-parse", "HEAD")
    with repository.fetched(bare_url, commit, checkout.plugin):
        pass
    (tmp_path / "remote.git").rename(tmp_path / "gone.git")

    with repository.fetched(bare_url, commit, checkout.plugin) as found:
        assert len(found.files("HEAD", [checkout.plugin])) == 2


def test_a_damaged_download_is_downloaded_again(
    checkout: Checkout, bare_url: str, cache_folder: Path
) -> None:
    with repository.fetched(bare_url, "main", checkout.plugin):
        pass
    for pack in (cache_folder / "repositories").glob("*/objects/pack/*.pack"):
        pack.chmod(0o644)
        pack.write_bytes(b"")

    with repository.fetched(bare_url, "main", checkout.plugin) as found:
        assert len(found.files("HEAD", [checkout.plugin])) == 2


@pytest.mark.parametrize("ref", ["nope", "1234567", "0" * 40, "main:other", "--upload-pack=x"])
def test_a_ref_that_a_url_does_not_have_is_named(
    checkout: Checkout, bare_url: str, ref: str
) -> None:
    def fetch() -> None:
        with repository.fetched(bare_url, ref, checkout.plugin):
            pass

    assert sentence_of(fetch) == (
        f"unknown ref {ref!r} in {bare_url}; expected a branch, a tag or a commit's full name that "
        "is in this repository; name another"
    )


class BreakingServer:
    """A git:// server that closes a connection after so many bytes of its answer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.limits: list[int] = []  # of the connections to come; none for the rest
        self.connections = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"git://127.0.0.1:{self._socket.getsockname()[1]}/remote.git"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """Answer nobody any more."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                limit = self.limits.pop(0) if self.limits else None
                with connection:
                    self._answer(connection, limit)

    def _answer(self, connection: socket.socket, limit: int | None) -> None:
        asked = connection.recv(int(connection.recv(4), 16) - 4)
        protocol = asked.rstrip(b"\0").rpartition(b"\0")[2].decode()
        with subprocess.Popen(
            ["git", "upload-pack", str(self.folder / "remote.git")],
            stdin=connection.fileno(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "GIT_PROTOCOL": protocol},
        ) as process:
            assert process.stdout
            sent = 0
            while data := os.read(process.stdout.fileno(), 4096):
                data = data if limit is None else data[: limit - sent]
                with contextlib.suppress(OSError):
                    connection.sendall(data)
                sent += len(data)
                if sent == limit:
                    connection.shutdown(socket.SHUT_RDWR)
                    process.kill()
                    return


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BreakingServer]:
    server = BreakingServer(tmp_path)
    yield server
    server.close()


# A fetch by a full name connects twice: for the commit with its trees, then for the blobs.
@pytest.mark.parametrize("limits", [[0], [100], [600], [10**6, 100], [10**6, 50_000]])
def test_a_download_that_breaks_off_is_told_and_the_next_run_succeeds(
    checkout: Checkout, bare_url: str, server: BreakingServer, cache_folder: Path, limits: list[int]
) -> None:
    checkout.write(f"{checkout.plugin}/large.bin", os.urandom(200_000))
    commit = checkout.commit()
    checkout.git("push", "--quiet", bare_url, "main")
    server.limits = list(limits)

    def fetch() -> int:
        with repository.fetched(server.url, commit, checkout.plugin) as found:
            return len(found.files("HEAD", [checkout.plugin]))

    told = sentence_of(fetch)
    assert re.fullmatch(
        rf"the download of '{commit}' from {server.url} broke off: \S.+; expected a git repository "
        r"that answers to the end; check the network, then run the same command again",
        told,
    )
    assert server.connections == len(limits)
    assert list((cache_folder / "work").iterdir()) == []
    assert fetch() == 3


@pytest.fixture
def mute() -> Iterator[str]:
    """Where a connection is taken, and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}/x.git"


@pytest.mark.parametrize(
    ("ref", "told"),
    [
        (
            "main",
            (
                "cannot reach {url}: no end within 0.5 s; expected a git repository that answers; "
                "check the URL and the network, then run the same command again"
            ),
        ),
        (
            "0" * 40,
            (
                "the download of '{ref}' from {url} broke off: no end within 0.5 s; expected a git "
                "repository that answers to the end; check the network, then run the same command "
                "again"
            ),
        ),
    ],
    ids=["a name", "a full name"],
)
def test_a_url_that_stays_mute_is_left_within_the_limit(
    cache_folder: Path, mute: str, monkeypatch: pytest.MonkeyPatch, ref: str, told: str
) -> None:
    monkeypatch.setattr(repository, "_LISTING_S", 0.5)
    monkeypatch.setattr(repository, "_DOWNLOAD_S", 0.5)

    def fetch() -> None:
        with repository.fetched(f"git://{mute}", ref, "p"):
            pass

    assert sentence_of(fetch) == told.format(url=f"git://{mute}", ref=ref)
    assert list((cache_folder / "work").iterdir()) == []


def test_over_http_git_itself_leaves_a_url_that_stays_mute(
    mute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(git._QUIET, "http.lowSpeedTime", "1")

    def fetch() -> None:
        with repository.fetched(f"http://{mute}", "main", "p"):
            pass

    assert sentence_of(fetch).startswith(f"cannot reach http://{mute}: fatal: unable to access ")


def test_a_url_that_refuses_is_told_without_its_credentials(cache_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def fetch() -> None:
        with repository.fetched(f"http://me:secret@127.0.0.1:{port}/x.git", "main", "p"):
            pass

    told = sentence_of(fetch)
    assert re.fullmatch(
        rf"cannot reach http://127.0.0.1:{port}/x.git: fatal: unable to access .+; expected a git "
        r"repository that answers; check the URL and the network, then run the same command again",
        told,
    )
    assert "secret" not in told
    assert list((cache_folder / "work").iterdir()) == []
