"""The archive: the same bundle, the same bytes; and a stranger's, read without harm."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import struct
import subprocess
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from sessions.evidence.pair import archive
from wasm.foundation.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with some files in it."""
    made = tmp_path / "made" / "bundle"
    for name, text in {"b.txt": "b" * 5000, "a/c.txt": "c", "a/B.txt": "B"}.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    return made


def test_the_same_files_give_the_same_archive_whatever_their_dates_modes_and_order(
    folder: Path, tmp_path: Path
) -> None:
    path, digest = archive.write(folder)
    assert path == folder.with_name("bundle.zip")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    other = tmp_path / "elsewhere" / "another name"
    for name in ("a/B.txt", "b.txt", "a/c.txt"):
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_bytes((folder / name).read_bytes())
        os.utime(other / name, (1, 1))
        (other / name).chmod(0o700)
    assert archive.write(other)[1] == digest
    assert archive.write(folder)[1] == digest
    (other / "b.txt").write_text("changed")
    assert archive.write(other)[1] != digest
    assert sorted(p.name for p in folder.parent.iterdir()) == ["bundle", "bundle.zip"]


def test_unzip_takes_it_and_finds_one_folder(folder: Path, tmp_path: Path) -> None:
    path, _ = archive.write(folder)
    subprocess.run(["python3", "-m", "zipfile", "--extract", path, tmp_path / "out"], check=True)
    assert [p.name for p in (tmp_path / "out").iterdir()] == [archive.TOP]
    assert (tmp_path / "out" / archive.TOP / "a" / "c.txt").read_text() == "c"


def test_it_is_opened_as_a_folder_that_is_gone_afterwards(folder: Path) -> None:
    path, _ = archive.write(folder)
    with archive.opened(path) as root:
        assert (root / "a" / "B.txt").read_text() == "B"
        assert root != folder
    assert not root.exists()
    with archive.opened(folder) as root:
        assert root == folder


def zipped(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in entries:
            made.writestr(name, content)
    return path


def refusal(path: Path) -> str:
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(EvidenceError) as caught, archive.opened(path):
        pass
    assert sorted(path.parent.rglob("*")) == before, "something was written"
    sentence = str(caught.value)
    assert sentence.startswith(f"{path.name} is no archive of a bundle: ")
    assert sentence.endswith("; expected the .zip that `nox -s report` wrote")
    return sentence.removeprefix(f"{path.name} is no archive of a bundle: ").split("; expected")[0]


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd", "../out", "a/../../out", "a/./b", "C:/out", "C:\\out", "a\\b", "a//b",
        "a\x00b", "a\nb", "~/out", "ä", "x" * 401,
    ],
)  # fmt: skip
def test_a_name_that_could_lead_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    entry = zipfile.ZipInfo("placeholder")
    entry.filename = entry.orig_filename = name
    shown = refusal(zipped(tmp_path / "x.zip", ("a.txt", b""), (entry, b"")))
    assert shown == f"it has an entry named {name[:80]!r}"


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, kind: int) -> None:
    entry = zipfile.ZipInfo("run.json")
    entry.external_attr = (kind | 0o777) << 16
    assert refusal(zipped(tmp_path / "x.zip", (entry, b"/etc/passwd"))) == (
        "run.json is no plain file"
    )


@pytest.mark.parametrize("second", ["run.json", "RUN.JSON"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_that_is_there_twice_is_refused(tmp_path: Path, second: str) -> None:
    path = zipped(tmp_path / "x.zip", ("run.json", b"1"), (second, b"2"))
    assert refusal(path) == f"{second} is there twice"


def test_a_file_that_is_a_folder_too_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", ("a", b"1"), ("a/b", b"2"))
    assert refusal(path) == "a/b is a file and a folder"


def test_a_bomb_is_refused_before_it_has_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 8 << 20)
    path = zipped(tmp_path / "x.zip", ("a", bytes(5 << 20)), ("b", bytes(5 << 20)))
    assert path.stat().st_size < 20_000
    assert refusal(path) == "it unpacks to more than 8 MiB"


def test_a_bomb_that_lies_about_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 1 << 20)
    path = zipped(tmp_path / "x.zip", ("a", bytes(5 << 20)))
    size = (5 << 20).to_bytes(4, "little")
    assert path.read_bytes().count(size) == 2
    path.write_bytes(path.read_bytes().replace(size, (10).to_bytes(4, "little")))
    assert refusal(path).startswith(("it unpacks to more than", "it cannot be read: "))


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", *((f"f{n}", b"") for n in range(archive.MAX_FILES + 1)))
    assert refusal(path) == "it has 2001 entries, more than 2000"


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    changed = bytearray(content)
    changed[60] ^= 0xFF
    return bytes(changed)


@pytest.mark.parametrize("change", [cut, flipped, lambda _: b"", lambda _: b"no zip at all"])
def test_what_is_no_zip_is_refused(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    path = zipped(tmp_path / "x.zip", ("run.json", os.urandom(500)))
    path.write_bytes(change(path.read_bytes()))
    assert refusal(path).startswith("it cannot be read: ")


def test_an_encrypted_file_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", ("run.json", b"1"))
    content = bytearray(path.read_bytes())
    for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(magic) + at] |= 1
    path.write_bytes(bytes(content))
    assert refusal(path) == "run.json is encrypted"


def test_another_compression_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as made:
        made.writestr("run.json", b"1")
    assert refusal(path) == "run.json is compressed in another way than deflate"


def with_a_comment(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as made:
        made.comment = b"approved"


def before(path: Path) -> None:
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())


def before_with_offsets_made_to_match(path: Path) -> None:
    """As zipfile itself adds an archive to a file that is there."""
    content = path.with_name("z.bin")
    content.write_bytes(b"#!/bin/sh\n")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(content, "a") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    content.replace(path)


def after(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"and more")


def between(path: Path, *, where: bytes = b"PK\3\4") -> None:
    """Put bytes before the last of some parts, and let every offset match."""
    content = bytearray(path.read_bytes())
    at = content.rindex(where) if where == b"PK\3\4" else content.index(where)
    listed = content.rindex(b"PK\1\2") + 42
    if where == b"PK\3\4":
        content[listed : listed + 4] = (at + 4).to_bytes(4, "little")
    start = content.rindex(b"PK\5\6") + 16
    shifted = int.from_bytes(content[start : start + 4], "little") + 4
    content[start : start + 4] = shifted.to_bytes(4, "little")
    content[at:at] = b"more"
    path.write_bytes(bytes(content))


def before_the_list(path: Path) -> None:
    between(path, where=b"PK\1\2")


def before_the_end(path: Path) -> None:
    """Put there what a .zip of more than 4 GiB has, which no bundle needs and few look into."""
    content = path.read_bytes()
    at = content.rindex(b"PK\5\6")
    number, length, start = struct.unpack("<10xH2L2x", content[at:])
    sizes = (44, 45, 45, 0, 0, number, number, length, start)
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", *sizes)
    record += struct.pack("<4sLQL", b"PK\6\7", 0, at, 1)
    path.write_bytes(content[:at] + record + content[at:])


def comment_of_an_entry(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as made:
        made.infolist()[0].comment = b"approved"
        made.writestr("c.txt", b"")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (with_a_comment, "it has a comment, 8 bytes"),
        (comment_of_an_entry, "an entry of it has a comment"),
        (before, "it has bytes that are of no file, at 0"),
        (before_with_offsets_made_to_match, "it has bytes that are of no file, at 0"),
        (between, "it has bytes that are of no file, at 36"),
        (before_the_list, "it has bytes that are of no file, at 72"),
        (before_the_end, "it has bytes that are of no file, after its entries"),
        (after, "it has bytes that are of no file, after its entries"),
    ],
)
def test_bytes_that_are_of_no_file_are_refused(
    tmp_path: Path, change: Callable[[Path], None], why: str
) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as made:
        for name in ("a.txt", "b.txt"):
            made.writestr(name, b"1")
    with archive.opened(path) as root:
        assert sorted(each.name for each in root.iterdir()) == ["a.txt", "b.txt"]
    change(path)
    with zipfile.ZipFile(path) as changed:
        assert changed.testzip() is None, "any other program takes it"
    assert refusal(path) == why


def test_an_archive_that_was_written_to_a_pipe_is_taken(tmp_path: Path) -> None:
    class Pipe(io.RawIOBase):
        """Cannot go back to write a size into a header, so each follows its content."""

        written = b""

        def writable(self) -> bool:
            return True

        def write(self, part: Any) -> int:
            self.written += bytes(part)
            return len(part)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as made:
        for name in ("a.txt", "b.txt"):
            made.writestr(name, b"1")
    path = tmp_path / "x.zip"
    path.write_bytes(pipe.written)
    assert b"PK\7\x08" in pipe.written
    with archive.opened(path) as root:
        assert (root / "b.txt").read_text() == "1"


def test_an_archive_that_someone_packed_anew_is_taken(folder: Path, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.mkdir("mine")
        made.mkdir("mine/a")
        made.write(folder / "a" / "c.txt", "mine/a/c.txt")
    path = tmp_path / "x.zip"
    path.write_bytes(buffer.getvalue())
    with archive.opened(path) as root:
        assert (root / "a" / "c.txt").read_text() == "c"
