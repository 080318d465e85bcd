"""The cache after runs that died, and emptied: what a live process uses stays."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from wasm.foundation import cache, owners

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "0f" * 32
# Takes an entry, says so, and lives until its stdin is closed.
TAKES = f"""
from wasm.foundation import cache
cache.entry("modules", "{KEY}", lambda draft: (draft / "main.wasm").write_text("of it"))
print("taken", flush=True)
input()
"""


def owned(name: str, owner: object) -> Path:
    folder = cache.root() / "work" / f"{name}-{owner}-x_y1"
    folder.mkdir(parents=True)
    (folder / "file").write_text("half")
    return folder


@pytest.fixture
def user(cache_folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A live process that uses an entry of the cache."""
    with subprocess.Popen(
        [sys.executable, "-c", TAKES],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "GATEWAY_PROOF_CACHE": str(cache_folder),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "taken\n"
        yield process
        process.kill()


@pytest.mark.usefixtures("cache_folder")
def test_only_the_work_of_an_owner_that_is_gone_is_abandoned() -> None:
    ours = owners.here()
    gone = replace(ours, started=ours.started - 9)
    dead = [owned("go-build", gone), owned("source", gone)]
    owned("git", ours)
    owned("git", replace(gone, place=replace(gone.place, machine="00000000")))
    owned("git", "of somebody")
    assert cache.abandoned() == dead


def test_a_cache_that_was_never_used_has_nothing(cache_folder: Path) -> None:
    assert cache.abandoned() == []
    assert cache.empty() == {}
    assert not cache_folder.exists()


def test_a_folder_is_removed_with_what_is_read_only_in_it(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").touch()
    (tmp_path / "a" / "b").chmod(0o500)
    cache.remove(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_the_cache_is_not_emptied_while_a_live_process_uses_an_entry(
    cache_folder: Path, user: subprocess.Popen[str]
) -> None:
    entry = cache_folder / "modules" / KEY / "main.wasm"
    assert cache.empty() is None
    assert entry.exists()
    user.kill()
    user.wait()
    assert cache.empty() == {"modules": (1, 0)}
    assert {each.name for each in cache_folder.iterdir()} == {"work", "in-use.lock"}


def test_emptying_leaves_what_is_no_entry_of_ours_and_work_in_progress(cache_folder: Path) -> None:
    """The folder may be one that others use too."""
    for name in (f"modules/{KEY}/main.wasm", f"modules/{KEY}.lock", "letters/mine", "modules/mine"):
        (cache_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (cache_folder / name).write_text("content")
    work = owned("git", owners.here())
    assert cache.empty() == {"modules": (1, 0)}
    assert not (cache_folder / "modules" / KEY).exists()
    assert not (cache_folder / "modules" / f"{KEY}.lock").exists()
    assert (cache_folder / "modules" / "mine").exists()
    assert (cache_folder / "letters" / "mine").exists()
    assert work.exists()


def test_an_entry_that_cannot_be_removed_is_counted(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in (KEY, KEY[::-1]):
        (cache_folder / "modules" / key).mkdir(parents=True)
    monkeypatch.setattr(
        "wasm.foundation.cache.remove", lambda each: each.name == KEY and each.rmdir()
    )
    assert cache.empty() == {"modules": (1, 1)}


def test_an_entry_of_a_cache_that_was_emptied_is_filled_again(
    cache_folder: Path, user: subprocess.Popen[str]
) -> None:
    user.kill()
    user.wait()
    assert cache.empty() == {"modules": (1, 0)}
    found = cache.entry("modules", KEY, lambda draft: (draft / "main.wasm").touch())
    assert found == cache_folder / "modules" / KEY
    assert (found / "main.wasm").exists()
    assert cache.empty() is None  # this process uses it now
