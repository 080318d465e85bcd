"""Runs a test program so that nothing it writes is lost; what ``go test -exec`` is given.

A Go module makes its standard output non-blocking when it starts. wazero passes that on to the
test program's own, which is the pipe that ``go test`` reads: from then on whatever finds the pipe
full is dropped, ``--- PASS`` lines included, and each run reports another set of tests (seen: 1654
and 1671 of 1679). A file takes everything at any time; so the program writes into one, and it is
shown as it grows. Standard library only: it is started by its path.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType
    from typing import BinaryIO

_LOOK_EVERY_S = 0.05
_ENDED_BY_SIGNAL = 128


def as_exec() -> str:
    """Return the flag that makes ``go test`` run its test programs through this file."""
    return f"-exec={_quoted(sys.executable)} {_quoted(__file__)}"


def _quoted(path: str) -> str:
    """Keep a path in one piece: Go splits the flag at blanks, and takes either quote for that."""
    return f'"{path}"' if "'" in path else f"'{path}'"


def main(argv: list[str]) -> int:
    """Run a program to its end; return its status, as a shell would."""
    folder = os.environ.get("GOTMPDIR")
    with tempfile.NamedTemporaryFile(dir=folder) as file, Path(file.name).open("rb") as written:
        with subprocess.Popen(argv, stdout=file, stderr=subprocess.STDOUT) as program:

            def pass_on(number: int, _frame: FrameType | None) -> None:
                program.send_signal(number)

            # go test asks for a stack dump of what has hung, and passes an interrupt on.
            for number in (signal.SIGQUIT, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, pass_on)
            while not _has_ended(program):
                _show(written)
        _show(written)
    status = program.returncode
    return status if status >= 0 else _ENDED_BY_SIGNAL - status


def _has_ended(program: subprocess.Popen[bytes]) -> bool:
    try:
        program.wait(_LOOK_EVERY_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _show(written: BinaryIO) -> None:
    while part := written.read(1 << 16):
        sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
