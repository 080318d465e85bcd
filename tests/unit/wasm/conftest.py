"""What the tests of sources, builds and units share: a tiny plugin, repositories, the command."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from wasm.golang import toolchain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PROJECT = Path(__file__).resolve().parents[3]
PLUGIN = "extensions/tiny"
GO_MOD = "module tiny.example/plugin\n\ngo 1.24\n"
MAIN_GO = """package main

//go:wasmexport answer
func answer() int32 { return 41 }

func main() {}
"""


@dataclass(frozen=True)
class Checkout:
    """A git repository of a test."""

    path: Path
    plugin: str = PLUGIN

    def git(self, *arguments: str) -> str:
        """Run git there as a user would; its output without the last line end."""
        done = subprocess.run(
            ["git", *arguments], cwd=self.path, check=True, capture_output=True, text=True
        )
        return done.stdout.rstrip("\n")

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file, named from the repository's root."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def commit(self) -> str:
        """Commit everything; the commit's full name."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=change")
        return self.git("rev-parse", "HEAD")

    def snapshot(self) -> dict[str, tuple[int, int, int, str]]:
        """Everything below the checkout, .git included: mode, size, modification time, digest."""
        found = {}
        for path in [self.path, *self.path.rglob("*")]:
            about = path.lstat()
            data = b""
            if path.is_symlink():
                data = os.fsencode(path.readlink())
            elif path.is_file():
                data = path.read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            found[str(path)] = (about.st_mode, about.st_size, about.st_mtime_ns, digest)
        return found


class MakeCheckout(Protocol):
    """Makes a repository with the tiny plugin, committed."""

    def __call__(self, path: Path, plugin: str = ...) -> Checkout:
        """Make it at a path, with the plugin in a folder."""


@dataclass(frozen=True)
class Ended:
    """How ``python -m wasm`` ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def last_line(self) -> str:
        """What the user reads last."""
        return self.stderr.splitlines()[-1] if self.stderr else ""


class RunWasm(Protocol):
    """Runs ``python -m wasm`` in a folder of the test's own."""

    def __call__(
        self, *arguments: str, env: Mapping[str, str] | None = ..., python: str = ...
    ) -> Ended:
        """Run it to its end."""


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Git as on a machine where nobody has set anything; Go looked up anew by each test."""
    settings = tmp_path / "gitconfig"
    settings.write_text(
        "[user]\nname = A Tester\nemail = tester@test.example\n[init]\ndefaultBranch = main\n"
        '[protocol "file"]\nallow = always\n[advice]\ndetachedHead = false\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("WASM_FILE_PATH", raising=False)
    toolchain.locate.cache_clear()
    yield
    toolchain.locate.cache_clear()


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("GATEWAY_PROOF_CACHE", str(folder))
    return folder


@pytest.fixture
def make_checkout() -> MakeCheckout:
    def make(path: Path, plugin: str = PLUGIN) -> Checkout:
        path.mkdir(parents=True)
        checkout = Checkout(path, plugin)
        checkout.git("init", "--quiet")
        checkout.write(f"{plugin}/go.mod", GO_MOD)
        checkout.write(f"{plugin}/main.go", MAIN_GO)
        checkout.write("elsewhere/notes.txt", "not a plugin's\n")
        checkout.commit()
        return checkout

    return make


@pytest.fixture
def checkout(tmp_path: Path, make_checkout: MakeCheckout) -> Checkout:
    return make_checkout(tmp_path / "checkout")


@pytest.fixture
def run_wasm(tmp_path: Path, cache_folder: Path) -> RunWasm:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def run(
        *arguments: str, env: Mapping[str, str] | None = None, python: str = sys.executable
    ) -> Ended:
        done = subprocess.run(
            [python, "-m", "wasm", *arguments],
            cwd=elsewhere,
            env={
                **os.environ,
                "GATEWAY_PROOF_CACHE": str(cache_folder),
                "PYTHONPATH": os.pathsep.join([str(PROJECT), *sys.path]),
                **(env or {}),
            },
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return run
