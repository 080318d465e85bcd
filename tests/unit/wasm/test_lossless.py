"""A test program's output is kept whole, whoever reads it however late."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from wasm.gotest import exec_wrapper

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# As a Go module does to the test program it runs in: what finds the pipe full is dropped.
FLOOD = """
import os, sys
os.set_blocking(1, False)
for number in range(20_000):
    try:
        os.write(1, b"%06d %s\\n" % (number, b"x" * 100))
    except BlockingIOError:
        pass
open(sys.argv[1], "w").close()
"""


THROUGH = [sys.executable, exec_wrapper.__file__]


def started(*arguments: str, through: list[str] = THROUGH) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*through, sys.executable, *arguments], stdout=subprocess.PIPE)


def wait_for(seen: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("through", [THROUGH, []])
def test_a_program_that_would_drop_what_is_not_read_in_time_loses_nothing(
    tmp_path: Path, through: list[str]
) -> None:
    ended = tmp_path / "ended"
    with started("-c", FLOOD, str(ended), through=through) as program:
        wait_for(ended.exists)  # and nobody has read a byte
        assert program.stdout is not None
        lines = program.stdout.read().splitlines()

    assert program.returncode == 0
    whole = [int(line.split()[0]) for line in lines] == list(range(20_000))
    assert whole is (through == THROUGH)


def test_what_a_program_writes_is_shown_while_it_runs(tmp_path: Path) -> None:
    goes_on = tmp_path / "goes-on"
    waits = (
        "import pathlib, sys, time\nprint('first', flush=True)\n"
        "while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)\nprint('last')"
    )
    with started("-c", waits, str(goes_on)) as program:
        assert program.stdout is not None
        first = program.stdout.readline()
        goes_on.touch()
        rest = program.stdout.read()

    assert (first, rest) == (b"first\n", b"last\n")


@pytest.mark.parametrize(
    ("ends", "status"),
    [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", 128 + signal.SIGKILL)],
)
def test_the_status_is_the_programs_as_a_shell_tells_it(ends: str, status: int) -> None:
    with started("-c", f"import os, sys\n{ends}") as program:
        pass

    assert program.returncode == status


def test_a_request_for_a_stack_dump_reaches_the_program() -> None:
    waits = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGQUIT, lambda *_: sys.exit('the stack'))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    with started("-c", waits) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        program.send_signal(signal.SIGQUIT)
        rest = program.stdout.read()

    assert (rest, program.returncode) == (b"the stack\n", 1)


def test_nothing_is_left_where_the_output_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("GOTMPDIR", str(folder))
    shows = "import os\nprint(os.listdir(os.environ['GOTMPDIR']))"

    with started("-c", shows) as program:
        assert program.stdout is not None
        during = program.stdout.read()

    assert during.startswith(b"['tmp")
    assert list(folder.iterdir()) == []


def test_a_path_stays_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/it's here/python")

    assert exec_wrapper.as_exec() == f"-exec=\"/it's here/python\" '{exec_wrapper.__file__}'"
