"""A process that ends with whoever started it, with the signal that it was given for that."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.integration.running import until

if TYPE_CHECKING:
    from pathlib import Path

STARTS = """
import os, signal, subprocess, sys
from wasm.foundation import parent_death
parent = os.getpid()
child = subprocess.Popen(
    [sys.executable, "-c", sys.argv[1]],
    preexec_fn=lambda: parent_death.ends_with(parent, signal.SIGTERM),
)
child.wait()
"""
NOTES = """
import signal, sys, time
from pathlib import Path
def note(number, frame):
    Path("noted").write_text(signal.Signals(number).name)
    sys.exit()
signal.signal(signal.SIGTERM, note)
Path("ready").touch()
time.sleep(60)
"""


def test_the_end_of_a_parent_that_is_killed_reaches_its_child(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS, NOTES],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as parent:
        until((tmp_path / "ready").exists)
        parent.kill()
    until(lambda: (tmp_path / "noted").exists() and bool((tmp_path / "noted").read_text()))
    assert (tmp_path / "noted").read_text() == "SIGTERM"
