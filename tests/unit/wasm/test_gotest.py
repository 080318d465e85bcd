"""What ``go test`` is asked for: one command for all that run it, and how it is recorded."""

from __future__ import annotations

import re
from pathlib import Path

from wasm.gotest import exec_wrapper, go_test
from wasm.gotest.go_test import GoTest

ASKED = GoTest(
    packages=(".", "./provider"),
    timeout="1m",
    module="/m.wasm",
    flags=("-run=^TestX",),
    modfile=Path("/scratch/fast.mod"),
)


def test_a_test_program_is_always_run_so_that_nothing_it_writes_is_lost() -> None:
    assert ASKED.argv("/go") == [
        *("/go", "test", "-json", "-count=1", "-timeout=1m", "-run=^TestX"),
        *(exec_wrapper.as_exec(), "-modfile=/scratch/fast.mod", ".", "./provider"),
    ]


def test_what_is_recorded_names_no_folder_of_ours() -> None:
    assert ASKED.recorded() == [
        *("go", "test", "-json", "-count=1", "-timeout=1m", "-run=^TestX"),
        *("-exec=python exec_wrapper.py", "-modfile=fast.mod", ".", "./provider"),
    ]


def test_go_test_is_started_in_one_place() -> None:
    starting = [
        path.name
        for path in Path(go_test.__file__).parent.glob("*.py")
        if re.search(r'"test", "-json"|command\.streaming\(', path.read_text())
    ]
    assert starting == ["go_test.py"]
