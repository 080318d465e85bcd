"""The cache folder: where it is, taking an entry by its key, and room for work in progress.

Entries are named by all that goes into them and appear by one rename, so that two runs at once
see either nothing or the whole. Who has taken an entry holds a lock until its process ends, however
it ends: the cache is emptied only while nobody does.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from wasm.foundation import owners, signals
from wasm.foundation.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROJECT = Path(__file__).resolve().parents[2]
VARIABLE = "GATEWAY_PROOF_CACHE"
_WORK = "work"
_IN_USE = "in-use.lock"
_ENTRY = re.compile(r"[0-9a-f]{64}")
_LOCK = re.compile(r"[0-9a-f]{64}\.lock")
_held_here: dict[Path, int] = {}


def root() -> Path:
    """Return the cache folder: ``.cache`` in the project, or what GATEWAY_PROOF_CACHE names.

    Always absolute: Go and git are started in other folders than ours.
    """
    named = os.environ.get(VARIABLE)
    return Path(os.path.expanduser(named)).absolute() if named else PROJECT / ".cache"  # noqa: PTH111 - Path.expanduser raises for an unknown user


def _never_damaged(_folder: Path) -> bool:
    return True


def entry(
    kind: str,
    key: str,
    fill: Callable[[Path], None],
    whole: Callable[[Path], bool] = _never_damaged,
) -> Path:
    """Return the folder of an entry; the first to ask for it fills it.

    Args:
        kind: The shelf, such as ``modules``.
        key: A digest of all that goes into the entry.
        fill: Writes the entry's files into the empty folder it is given.
        whole: Whether an entry holds what was put there; one that does not is filled again.

    Raises:
        BuildError: The disk is full, or the folder cannot be written.
    """
    shelf = root() / kind
    found = shelf / key
    with disk_errors(shelf):
        _stays_in_use()
        if found.is_dir() and whole(found):
            return found
        shelf.mkdir(parents=True, exist_ok=True)
        with _locked(shelf / f"{key}.lock"):
            if not (found.is_dir() and whole(found)):
                with scratch(kind) as draft:
                    shutil.rmtree(found, ignore_errors=True)
                    fill(draft)
                    draft.rename(found)
    return found


@contextlib.contextmanager
def scratch(purpose: str) -> Iterator[Path]:
    """Give a folder for work in progress, on the cache's own disk; it is gone afterwards."""
    with disk_errors(root()), signals.ClosedInPeace() as stack:
        base = root() / _WORK
        base.mkdir(parents=True, exist_ok=True)
        with signals.held():
            folder = Path(tempfile.mkdtemp(prefix=f"{purpose}-{owners.here()}-", dir=base))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder


def abandoned() -> list[Path]:
    """Return the folders of work whose process is gone without having removed them."""
    found = []
    for folder in sorted((root() / _WORK).glob("*-*-*")):
        owner = owners.Owner.parse(folder.name.rsplit("-", 2)[1])
        if owner is not None and owner.known_to_be_gone:
            found.append(folder)
    return found


def remove(folder: Path) -> None:
    """Remove a folder as far as that can be done, read-only folders in it (Go's own) too."""
    for path, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            os.chmod(path, 0o700)  # noqa: PTH101 - os.walk gives strings
    shutil.rmtree(folder, ignore_errors=True)


def empty() -> dict[str, tuple[int, int]] | None:
    """Remove every entry; return how many of each kind are gone, and how many could not go.

    None, and nothing is removed, when a live process has taken one. Who asks for its first entry
    meanwhile waits. Only what is named as an entry goes: the folder may be shared with others.

    Raises:
        BuildError: The folder cannot be written.
    """
    if not root().is_dir():
        return {}
    with disk_errors(root()):
        handle = os.open(root() / _IN_USE, os.O_RDONLY | os.O_CREAT)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        else:
            # Not where live processes work: they do so without the lock.
            shelves = [each for each in root().iterdir() if each.is_dir() and each.name != _WORK]
            counted = {shelf.name: _emptied(shelf) for shelf in sorted(shelves)}
            return {kind: counts for kind, counts in counted.items() if any(counts)}
        finally:
            os.close(handle)


def _emptied(shelf: Path) -> tuple[int, int]:
    counts = [0, 0]
    for each in list(shelf.iterdir()):
        if _LOCK.fullmatch(each.name):
            each.unlink()
        elif _ENTRY.fullmatch(each.name):
            remove(each)
            counts[each.exists()] += 1
    with contextlib.suppress(OSError):  # not empty
        shelf.rmdir()
    return counts[0], counts[1]


def _stays_in_use() -> None:
    """Keep the cache from being emptied until this process ends; waits while it is being emptied.

    Where no lock can be had (a disk that cannot be written) nobody can empty the cache either.
    """
    folder = root()
    if folder in _held_here:
        return
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / _IN_USE, os.O_RDONLY | os.O_CREAT)
        _held_here[folder] = handle  # never closed: the kernel lets go of it with the process
        fcntl.flock(handle, fcntl.LOCK_SH)


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn a disk that is full or cannot be written into the sentence that says so."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise disk_full(folder) from error
        if _is_ours(error.filename):
            raise BuildError(
                f"cannot write below {folder} ({error.strerror}); expected a folder of ours to "
                f"build in; set {VARIABLE} to one that can be written"
            ) from error
        raise


def disk_full(folder: Path, variable: str = VARIABLE) -> BuildError:
    """Say that there is no room left where we build, and which variable names another place."""
    return BuildError(
        f"no space left on the disk of {folder}; a build needs about 500 MB there; free some, "
        f"or set {variable} to a folder on another disk"
    )


def _is_ours(name: object) -> bool:
    """Whether a path lies in the cache folder or on the way to it: the work done there has more."""
    if not isinstance(name, str):
        return False
    path = Path(name)
    return path.is_relative_to(root()) or root().is_relative_to(path)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file's lock; the kernel lets go of it when the holder ends, however it ends."""
    with path.open("wb") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
