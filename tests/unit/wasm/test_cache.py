"""The cache folder: entries are whole or not there, and work in progress is gone afterwards."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wasm.foundation import cache
from wasm.foundation.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Callable


def fill_with(text: str) -> Callable[[Path], None]:
    def fill(draft: Path) -> None:
        (draft / "file").write_text(text)

    return fill


def never(_draft: Path) -> None:
    pytest.fail("it was filled again")


def test_the_folder_is_the_projects_own_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GATEWAY_PROOF_CACHE", raising=False)

    assert cache.root() == Path(__file__).parents[3] / ".cache"


@pytest.mark.parametrize("named", ["relative/folder", "~/folder"])
def test_the_folder_is_absolute_however_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "relative"))
    monkeypatch.setenv("GATEWAY_PROOF_CACHE", named)

    assert cache.root() == tmp_path / "relative/folder"


def test_an_entry_is_filled_once(cache_folder: Path) -> None:
    first = cache.entry("kind", "key", fill_with("content"))

    assert first == cache_folder / "kind/key"
    assert cache.entry("kind", "key", never) == first
    assert (first / "file").read_text() == "content"
    assert list((cache_folder / "work").iterdir()) == []


@pytest.mark.usefixtures("cache_folder")
def test_an_entry_whose_filling_fails_is_not_there() -> None:
    def fails(draft: Path) -> None:
        (draft / "half").write_text("of it")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.entry("kind", "key", fails)

    assert list((cache.root() / "work").iterdir()) == []
    assert (cache.entry("kind", "key", fill_with("whole")) / "file").read_text() == "whole"


@pytest.mark.usefixtures("cache_folder")
def test_an_entry_that_is_no_longer_whole_is_filled_again() -> None:
    def whole(folder: Path) -> bool:
        return (folder / "file").read_text() == "content"

    damaged = cache.entry("kind", "key", fill_with("content"), whole) / "file"
    damaged.write_text("cont")

    assert cache.entry("kind", "key", fill_with("content"), whole) == damaged.parent
    assert damaged.read_text() == "content"


@pytest.mark.usefixtures("cache_folder")
def test_of_two_that_ask_at_once_one_fills_and_both_get_it() -> None:
    filling = threading.Event()
    filled: list[str] = []
    got: list[Path] = []

    def slowly(draft: Path) -> None:
        filling.set()
        asking.start()
        asking.join(0.2)  # it has to wait for us
        assert asking.is_alive()
        (draft / "file").write_text("by the first")
        filled.append("first")

    asking = threading.Thread(target=lambda: got.append(cache.entry("kind", "key", never)))
    first = cache.entry("kind", "key", slowly)
    asking.join(10)

    assert filling.is_set()
    assert filled == ["first"]
    assert got == [first]


@pytest.mark.parametrize("what", ["the folder is a file", "its work folder is a file"])
def test_a_folder_that_cannot_be_one_is_told(cache_folder: Path, what: str) -> None:
    file = cache_folder if "the folder" in what else cache_folder / "work"
    file.parent.mkdir(exist_ok=True)
    file.write_text("a file")

    with pytest.raises(BuildError) as caught, cache.scratch("build"):
        pass

    why = "Not a directory" if "the folder" in what else "File exists"
    assert caught.value.sentence == (
        f"cannot write below {cache_folder} ({why}); expected a folder of ours to build in; set "
        "GATEWAY_PROOF_CACHE to one that can be written"
    )


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_folder_that_may_not_be_written_is_told(cache_folder: Path, number: int) -> None:
    with pytest.raises(BuildError) as caught, cache.scratch("build") as folder:
        raise OSError(number, "No", str(folder / "file"))

    assert caught.value.sentence.startswith(f"cannot write below {cache_folder} (No); ")


def test_an_error_of_another_folder_is_not_blamed_on_the_cache(cache_folder: Path) -> None:
    with pytest.raises(PermissionError), cache.scratch("build"):
        raise PermissionError(errno.EACCES, "No", "/somewhere/else")
    assert list((cache_folder / "work").iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told(cache_folder: Path, number: int) -> None:
    with pytest.raises(BuildError) as caught, cache.scratch("build"):
        raise OSError(number, "full")

    assert caught.value.sentence == (
        f"no space left on the disk of {cache_folder}; a build needs about 500 MB there; free "
        "some, or set GATEWAY_PROOF_CACHE to a folder on another disk"
    )
