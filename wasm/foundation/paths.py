"""Paths that a user names: read where he stands, and what is wrong with one told in a sentence.

Standard library only: options of these types are read in Nox's own environment, too.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from wasm.foundation.errors import ProofError

if TYPE_CHECKING:
    from collections.abc import Iterator

REFERENCE = "reference"
# Each option has a sentence of its own for what is not there.
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR)


def named(text: str) -> Path:
    """Return a path as its user means it, absolute; the type of every option that takes one.

    ``~`` is a home folder; a relative path is seen from the folder that the options are read in.
    It need not be there.

    Raises:
        argparse.ArgumentTypeError: It is empty, of nobody's home, or none that can be followed or
            written down.
    """
    if not text:
        raise argparse.ArgumentTypeError("found '', expected a path")
    # Not Path.expanduser: that raises for a user who does not exist.
    at_home = os.path.expanduser(text)  # noqa: PTH111
    if at_home.startswith("~"):
        user = at_home.split("/", 1)[0]
        raise argparse.ArgumentTypeError(
            f"found {text!r}, expected {user} to be a user's home on this machine; a file of that "
            f"name is ./{text}"
        )
    path = Path(at_home).absolute()
    try:
        str(path).encode()  # as it is recorded
    except UnicodeEncodeError as error:
        raise argparse.ArgumentTypeError(
            f"found {text!r}, which is no UTF-8 to this machine's locale; expected a path that can "
            "be written down"
        ) from error
    try:
        path.stat()
    except (OSError, ValueError) as error:  # ValueError: a NUL byte
        if isinstance(error, ValueError) or error.errno not in _NOT_THERE:
            reason = error.strerror if isinstance(error, OSError) else error
            raise argparse.ArgumentTypeError(
                f"found {text!r}, which cannot be followed ({reason}); expected a path that can"
            ) from error
    return path


def program(text: str) -> str:
    """Return a program as a shell takes it: a bare name is looked up on PATH, later."""
    return str(named(text)) if not text or "/" in text or text.startswith("~") else text


def source(text: str) -> str:
    """Return where a source is: the bundled reference and a URL as they are, else a path."""
    return text if text == REFERENCE or is_url(text) else str(named(text))


def is_url(text: str) -> bool:
    """Whether git takes this for a URL: scheme://, or host:path with no slash before the colon."""
    return "://" in text or re.match(r"[^/]+:(?!//)", text) is not None


def content(file: Path) -> bytes:
    """Read a file whole. Not a pipe, which would keep us waiting, nor a device without end.

    Raises:
        OSError: It cannot be read, or is no regular file.
    """
    mode = file.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(file))
    return file.read_bytes()


@contextlib.contextmanager
def errors_in_a_sentence() -> Iterator[None]:
    """Turn what the system says of a file, and nobody nearer has explained, into a sentence.

    Raises:
        ProofError: With the path, the reason, and how to see where it happened.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        raise ProofError(
            f"{os.fsdecode(error.filename)} cannot be used ({error.strerror}); expected a path "
            "that is there and can be read and written; mend it, or see with --debug where it is "
            "needed"
        ) from error
