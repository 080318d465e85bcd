"""A bundle as one .zip: the same bundle, the same bytes; and a stranger's .zip, read safely."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import struct
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING

from wasm.foundation.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The one folder in it, so that unpacking it does not strew files.
TOP = "gateway-proof"
_DATE = (1980, 1, 1, 0, 0, 0)  # the first that a .zip can hold
_UNIX = 3
_LEVEL = 6
_CHUNK = 1 << 20

_UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError)

# A bundle of 6,000 cells has 60 MB in some 40 files.
MAX_FILES = 2_000
MAX_BYTES = 1 << 30
MAX_NAME = 400
# Of a .zip's own parts (APPNOTE 4.3.7, 4.3.9, 4.3.16), in bytes; names and more come on top.
_LOCAL, _LOCAL_LENGTHS = 30, slice(26, 30)
_END = 22
_DESCRIBED = 1 << 3
_NAME = re.compile(r"[A-Za-z0-9._+-]+(/[A-Za-z0-9._+-]+)*")


def write(folder: Path) -> tuple[Path, str]:
    """Write a folder's files to a .zip beside it; return that and its SHA-256.

    Names, order, dates, modes and compression are fixed, so that the same files give the same
    archive wherever and whenever it is made.
    """
    path = folder.with_name(f"{folder.name}.zip")
    draft = path.with_name(f".{path.name}.draft")
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    try:
        with zipfile.ZipFile(draft, "w") as archive:
            for name in names:
                entry = zipfile.ZipInfo(f"{TOP}/{name}", _DATE)
                entry.create_system = _UNIX
                entry.external_attr = (stat.S_IFREG | 0o644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                content = (folder / name).read_bytes()
                archive.writestr(entry, content, compresslevel=_LEVEL)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    with path.open("rb") as file:
        return path, hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Path]:
    """Give the folder of a bundle: itself, or a .zip's files in a temporary folder.

    Nothing is written outside that folder, and no more than a bundle can have.

    Raises:
        EvidenceError: There is nothing, or a .zip that is none of ours.
    """
    if path.is_dir():
        yield path
        return
    if not path.is_file():
        raise EvidenceError(
            f"no evidence at {path}; expected a bundle's folder or its .zip; run `nox -s report`, "
            "or name another"
        )
    with tempfile.TemporaryDirectory(prefix="gateway-proof-") as temporary:
        root = Path(temporary)
        try:
            with zipfile.ZipFile(path) as archive:
                _refuse_foreign_bytes(archive, path)
                _unpack(archive, root, path.name)
        except _UNREADABLE as error:
            raise _not_ours(path.name, f"it cannot be read: {error}") from error
        yield _top_of(root)


def _refuse_foreign_bytes(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse bytes that are of no file: its entries, their list and its end are all of a .zip.

    Else one could put anything before, between or after them, and it would be verified.
    """
    if archive.comment:
        raise _not_ours(path.name, f"it has a comment, {len(archive.comment)} bytes")
    with path.open("rb") as file:
        at = 0
        for entry in sorted(archive.infolist(), key=lambda each: each.header_offset):
            if entry.comment:
                raise _not_ours(path.name, "an entry of it has a comment")
            if entry.header_offset != at:
                raise _not_ours(path.name, f"it has bytes that are of no file, at {at:,}")
            at = _end_of(entry, file)
        if at != archive.start_dir:
            raise _not_ours(path.name, f"it has bytes that are of no file, at {at:,}")
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _END))
        end = file.read(_END)
    # Where that list ends is not in zipfile: it is where the end begins, and there its length is.
    listed = int.from_bytes(end[12:16], "little")
    if end[:4] != b"PK\5\6" or archive.start_dir + listed + _END != size:
        raise _not_ours(path.name, "it has bytes that are of no file, after its entries")


def _end_of(entry: zipfile.ZipInfo, file: IO[bytes]) -> int:
    """Return where an entry ends: behind its header, its content, and what describes that."""
    file.seek(entry.header_offset)
    lengths = file.read(_LOCAL)[_LOCAL_LENGTHS]
    name_and_more: int = sum(struct.unpack("<2H", lengths))
    end = entry.header_offset + _LOCAL + name_and_more + entry.compress_size
    if entry.flag_bits & _DESCRIBED:
        file.seek(end)
        found = file.read(24)
        for sizes in ("<3L", "<L2Q"):
            described = struct.pack(sizes, entry.CRC, entry.compress_size, entry.file_size)
            for form in (b"PK\7\x08" + described, described):
                if found.startswith(form):
                    return end + len(form)
    return end


def _unpack(archive: zipfile.ZipFile, root: Path, shown: str) -> None:
    entries = archive.infolist()
    if len(entries) > MAX_FILES:
        raise _not_ours(shown, f"it has {len(entries)} entries, more than {MAX_FILES}")
    seen: set[str] = set()
    for entry in entries:
        _refuse(entry, seen, shown)
    left = MAX_BYTES
    for entry in entries:
        if entry.is_dir():
            continue
        target = root / entry.filename
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as source, target.open("xb") as file:
                # What an entry says of its size is not taken on trust.
                while part := source.read(_CHUNK):
                    left -= len(part)
                    if left < 0:
                        raise _not_ours(shown, f"it unpacks to more than {MAX_BYTES >> 20} MiB")
                    file.write(part)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise _not_ours(shown, f"{entry.filename} is a file and a folder") from error


def _refuse(entry: zipfile.ZipInfo, seen: set[str], shown: str) -> None:
    """Refuse an entry that could be written elsewhere, or that is no plain file."""
    # What stands in the archive: zipfile cuts a name at a NUL, and turns a backslash on Windows.
    name = entry.orig_filename
    plain = name.removesuffix("/") if entry.is_dir() else name
    parts = plain.split("/")
    if not _NAME.fullmatch(plain) or len(name) > MAX_NAME or {".", ".."} & {*parts}:
        raise _not_ours(shown, f"it has an entry named {name[:80]!r}")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFDIR if entry.is_dir() else stat.S_IFREG):
        raise _not_ours(shown, f"{name} is no plain file")
    if entry.flag_bits & 0x1:
        raise _not_ours(shown, f"{name} is encrypted")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _not_ours(shown, f"{name} is compressed in another way than deflate")
    # Some file systems take names that differ in case alone for one.
    if plain.lower() in seen:
        raise _not_ours(shown, f"{name} is there twice")
    seen.add(plain.lower())


def _top_of(root: Path) -> Path:
    """Return the folder that the files are in: the one folder at the top, or the top itself."""
    found = list(root.iterdir())
    return found[0] if len(found) == 1 and found[0].is_dir() else root


def _not_ours(shown: str, why: str) -> EvidenceError:
    return EvidenceError(
        f"{shown} is no archive of a bundle: {why}; expected the .zip that `nox -s report` wrote"
    )
