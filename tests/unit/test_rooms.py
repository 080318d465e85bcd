"""Imports follow the data backwards only: source, module, testbed, cell, evidence."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]

# Each room, and the rooms that it may import from.
MAY_IMPORT = {
    "wasm": set[str](),
    "containers": {"wasm"},
    "sessions/matrix": {"containers", "wasm"},
    "sessions/evidence": {"sessions/matrix", "containers", "wasm"},
    "tests/runtime": {"sessions/evidence", "sessions/matrix", "containers", "wasm"},
    # Which name only what Nox's own environment can import; see below.
    "sessions": {"sessions/evidence", "sessions/matrix", "containers", "wasm"},
    "noxfile.py": {"sessions"},
}
# Who may import what is not in Python.
PACKAGES = {
    "nox": {"noxfile.py", "sessions"},
    "pytest": {"tests/runtime"},
    "docker": {"containers"},
    "testcontainers": {"containers"},
    "httpx": {"containers"},
    "psutil": {"containers", "wasm"},
    "ast_grep_py": {"wasm"},
    "rich": {"sessions/evidence", "sessions/matrix"},
    "jinja2": {"sessions/evidence"},
}
FILES = sorted(
    path.relative_to(PROJECT)
    for room in ("wasm", "containers", "sessions", "tests/runtime", "noxfile.py")
    for path in ([PROJECT / room] if room.endswith(".py") else (PROJECT / room).rglob("*.py"))
)


def room_of(path: str) -> str:
    """Return the room of a file or a module, given with slashes."""
    return max((room for room in MAY_IMPORT if f"{path}/".startswith(f"{room}/")), key=len)


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
