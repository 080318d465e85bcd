"""The upstream's program: built once, found again, and told apart when its source changes."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from containers import upstream_program
from wasm.foundation import cache
from wasm.foundation.errors import BuildError
from wasm.golang import toolchain

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own; Go's own cache, which makes a build quick, stays the user's."""
    toolchain.locate()
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "upstream"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source that can be changed: the smallest program there is."""
    folder = tmp_path / "upstream"
    folder.mkdir()
    (folder / "go.mod").write_text("module smallest\n\ngo 1.26\n")
    (folder / "main.go").write_text("package main\n\nfunc main() {}\n")
    monkeypatch.setattr(upstream_program, "_SOURCE", folder)
    return folder


def entries(shelf: Path) -> list[str]:
    return sorted(path.name for path in shelf.iterdir() if path.is_dir())


def test_it_is_a_program_that_says_its_version() -> None:
    done = subprocess.run(
        [upstream_program.program(), "version"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["version"] == "1.0.0"


def test_it_is_built_once_and_then_taken_from_the_cache(shelf: Path, source: Path) -> None:
    first = upstream_program.program()
    stamp = first.stat()
    assert source.is_dir()
    assert upstream_program.program() == first
    assert first.stat().st_ino == stamp.st_ino
    assert first.stat().st_mtime_ns == stamp.st_mtime_ns
    assert len(entries(shelf)) == 1


def test_another_source_is_another_entry(shelf: Path, source: Path) -> None:
    first = upstream_program.program()
    (source / "main.go").write_text('package main\n\nfunc main() { println("other") }\n')
    second = upstream_program.program()
    assert second != first
    assert len(entries(shelf)) == 2


def test_the_same_source_in_another_folder_is_the_same_program(
    shelf: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = upstream_program.program().read_bytes()
    other = tmp_path / "elsewhere" / "upstream"
    shutil.copytree(source, other)
    monkeypatch.setattr(upstream_program, "_SOURCE", other)
    assert upstream_program.program().read_bytes() == first
    assert len(entries(shelf)) == 1


def test_go_that_does_not_compile_is_told_with_the_compilers_lines(
    shelf: Path, source: Path
) -> None:
    (source / "main.go").write_text("package main\n\nfunc main() { nonsense() }\n")
    with pytest.raises(BuildError) as caught:
        upstream_program.program()
    assert "undefined: nonsense" in caught.value.detail
    assert caught.value.sentence.startswith("the upstream could not be built: ")
    assert entries(shelf) == []
