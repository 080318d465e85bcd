"""Imports follow the data backwards only: source, module, testbed, cell, evidence."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]

WASM = (
    *("wasm/records", "wasm/foundation", "wasm/golang", "wasm/fix_4396", "wasm/source"),
    *("wasm/module", "wasm/gotest"),
)
EVIDENCE = ("record", "report", "pair", "verify")
BEFORE_EVIDENCE = {"sessions/matrix", "containers", "containers/docker", "wasm/gotest"}
# Each room, and the rooms that it may import from.
MAY_IMPORT = {
    "wasm/foundation": {"wasm/records"},
    "wasm/golang": {"wasm/records", "wasm/foundation"},
    "wasm/records": {"wasm/foundation", "wasm/golang"},
    # The rules of the built-in fix are what a source may be changed by; see below.
    "wasm/source": {"wasm/records", "wasm/foundation", "wasm/golang", "wasm/fix_4396"},
    "wasm/module": {"wasm/records", "wasm/foundation", "wasm/golang", "wasm/source"},
    "wasm/gotest": {*WASM} - {"wasm/fix_4396"},
    "wasm/fix_4396": {*WASM},
    "wasm": {*WASM},
    "containers/docker": {"containers", "wasm/records", "wasm/foundation"},
    "containers/process": {"containers", "wasm/records", "wasm/foundation"},
    # Which starts one of the two engines, and nothing else knows them.
    "containers": {"containers/docker", "containers/process", *WASM} - {"wasm/fix_4396"},
    "sessions/matrix": {"containers", "wasm/records", "wasm/foundation"},
    **{
        f"sessions/evidence/{room}": {
            *BEFORE_EVIDENCE,
            *("wasm", "wasm/records", "wasm/foundation", "wasm/fix_4396"),
            *(f"sessions/evidence/{before}" for before in EVIDENCE[:number]),
        }
        for number, room in enumerate(EVIDENCE)
    },
    "sessions/evidence": {
        *(f"sessions/evidence/{room}" for room in EVIDENCE),
        *("wasm/records", "wasm/foundation"),
    },
    "tests/runtime": {
        *("sessions/evidence/record", "sessions/matrix", "containers", "wasm", "wasm/source"),
        *("wasm/records", "wasm/foundation", "wasm/module"),
    },
    # Which name only what Nox's own environment can import; see below.
    "sessions": {
        *("sessions/evidence", "sessions/evidence/record", "sessions/matrix", "containers"),
        *("wasm", "wasm/foundation"),
    },
    "noxfile": {"sessions"},
}
# Who may import what is not in Python.
PACKAGES = {
    "nox": {"noxfile", "sessions"},
    "pytest": {"tests/runtime"},
    "docker": {"containers", "containers/docker"},
    "testcontainers": {"containers/docker"},
    "httpx": {"containers"},
    "psutil": {"containers", "containers/process", "wasm/foundation"},
    "ast_grep_py": {"wasm/golang", "wasm/gotest", "wasm/fix_4396"},
    "rich": {"sessions/evidence/report", "sessions/matrix"},
    "jinja2": {"sessions/evidence/report"},
}
FILES = sorted(
    path.relative_to(PROJECT)
    for room in ("wasm", "containers", "sessions", "tests/runtime", "noxfile.py")
    for path in ([PROJECT / room] if room.endswith(".py") else (PROJECT / room).rglob("*.py"))
)


def room_of(path: str) -> str:
    """Return the room of a file or a module, given with slashes."""
    name = path.removesuffix(".py")
    return max((room for room in MAY_IMPORT if f"{name}/".startswith(f"{room}/")), key=len)


def imported(file: Path) -> set[str]:
    """Return what a file imports, each as a path: ``wasm/records/Variant``."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((PROJECT / file).read_bytes())):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports by a relative name"
            names |= {f"{node.module}.{each.name}" for each in node.names}
    return {name.replace(".", "/") for name in names}


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_file_imports_from_the_rooms_before_its_own_and_no_package_of_anothers(
    file: Path,
) -> None:
    room = room_of(file.as_posix())
    for name in imported(file):
        package = name.split("/")[0]
        if package in {"wasm", "containers", "sessions", "tests"}:
            assert room_of(name) in {room} | MAY_IMPORT[room], f"{file} imports {name}"
        assert room in PACKAGES.get(package, {room}), f"{file} imports {name}"


def test_a_source_knows_of_the_built_in_fix_its_rules_alone() -> None:
    """So the fix can be removed as one folder, and that one import."""
    known = {
        name.split("/")[2]
        for file in FILES
        if room_of(file.as_posix()) == "wasm/source"
        for name in imported(file)
        if name.startswith("wasm/fix_4396/")
    }
    assert known == {"retry_identity"}
    rules = imported(Path("wasm/fix_4396/retry_identity.py"))
    assert {room_of(name) for name in rules if name.startswith("wasm/")} <= {
        *("wasm/foundation", "wasm/golang"),
    }


def test_every_room_has_files() -> None:
    assert {room_of(file.as_posix()) for file in FILES} == set(MAY_IMPORT)


def test_the_door_needs_nothing_but_nox() -> None:
    """Nox's own environment has only nox; what else is needed, steps have in theirs."""
    foreign = {*PACKAGES, "msgspec"} - {"nox"}
    code = f"import sys, noxfile; print(*sorted({foreign!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_what_a_machine_or_a_test_leaves_is_not_in_the_repository() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--stage"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    links = [row for row in listed if row.startswith("120000")]
    places = {row.partition("\t")[2].split("/")[0] for row in listed if "/" in row}

    assert links == []  # one to a machine's own .venv was committed once
    assert places == {".ci", ".github", "containers", "docs", "sessions", "tests", "wasm"}
