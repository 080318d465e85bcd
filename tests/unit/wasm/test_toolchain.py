"""The Go toolchain: the exact version, an environment that nobody's shell changes, refusals."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wasm.foundation import subprocesses
from wasm.foundation.errors import BuildError
from wasm.golang import toolchain
from wasm.golang.goversion import GO_VERSION

if TYPE_CHECKING:
    from tests.unit.wasm.conftest import RunWasm

HOSTILE = {
    "CGO_ENABLED": "1",
    "GO111MODULE": "off",
    "GOAMD64": "v3",
    "GOARCH": "386",
    "GODEBUG": "madvdontneed=1",
    "GOEXPERIMENT": "arenas",
    "GOFIPS140": "latest",
    "GOFLAGS": "-tags=other -ldflags=-s",
    "GOOS": "plan9",
    "GOROOT": "/nowhere",
    "GOTMPDIR": "/nowhere",
    "GOTOOLCHAIN": "go1.20",
    "GOWORK": "/nowhere/go.work",
    "WASM_FILE_PATH": "/nowhere/main.wasm",
}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH, with git and a shell's own needs but no Go."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("git", "sh", "env"):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    # Go from PyPI would lie beside this.
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere" / "python"))
    return folder


def fake_go(folder: Path, script: str) -> Path:
    program = folder / "go"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def refusal() -> str:
    with pytest.raises(BuildError) as caught:
        toolchain.locate()
    return caught.value.sentence


def test_go_is_the_exact_version() -> None:
    go = toolchain.locate()

    assert go.version.startswith("go version go1.26.8 ")
    assert subprocesses.run([go.program, "version"], env=go.environment).stdout.decode() == (
        f"{go.version}\n"
    )


def test_nothing_of_a_shell_that_could_change_a_module_reaches_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = toolchain.locate().environment
    for key, value in HOSTILE.items():
        monkeypatch.setenv(key, value)
    toolchain.locate.cache_clear()

    assert toolchain.locate().environment == plain


def test_what_says_how_to_reach_the_network_and_how_much_to_take_stays_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = {
        "GOCACHE": str(tmp_path / "build"),
        "GOMAXPROCS": "1",
        "GOMODCACHE": str(tmp_path / "mod"),
        "GONOSUMDB": "x.example",
        "GOOGLE_APPLICATION_CREDENTIALS": "/some/file",
        "GOPROXY": "off",
        "HTTPS_PROXY": "http://proxy.example",
    }
    for key, value in kept.items():
        monkeypatch.setenv(key, value)

    assert toolchain.locate().environment.items() >= kept.items()


@pytest.mark.parametrize("line", ["GOFLAGS=-tags=other", "GOFIPS140=latest", "GOPROXY=off"])
def test_settings_in_go_s_own_folder_that_no_variable_undoes_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str
) -> None:
    """For Go an empty variable is none; where modules come from is the machine's to say."""
    go = toolchain.locate()
    asked = [go.program, "env", "GOROOT"]
    released = Path(subprocesses.run(asked, env=go.environment).stdout.decode().strip())
    root = tmp_path / "go"
    (root / "bin").mkdir(parents=True)
    for each in released.iterdir():
        if each.name not in ("bin", "go.env"):
            (root / each.name).symlink_to(each)
    shutil.copy2(released / "bin" / "go", root / "bin")
    (root / "go.env").write_text(f"{line}\n")
    monkeypatch.setenv("PATH", str(root / "bin"), prepend=os.pathsep)
    monkeypatch.delenv("GOPROXY", raising=False)
    toolchain.locate.cache_clear()

    if line == "GOPROXY=off":
        assert toolchain.locate().environment["GOPROXY"] == "off"
    else:
        assert refusal().startswith(f"{root}/go.env sets {line}, ")


def test_settings_that_a_user_wrote_with_go_env_are_kept_or_dropped_alike(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "env").write_text("GOPRIVATE=mine.example\nGOFLAGS=-tags=other\nGOOS=plan9\n")
    monkeypatch.setenv("GOENV", str(tmp_path / "env"))

    environment = toolchain.locate().environment

    assert environment["GOPRIVATE"] == "mine.example"
    assert (environment["GOENV"], environment["GOFLAGS"]) == ("off", "")
    assert "GOOS" not in environment


@pytest.mark.usefixtures("programs")
def test_no_go_is_told() -> None:
    assert refusal() == (
        "no Go on PATH; expected 1.21 or newer; install Go, or run through nox, which takes one "
        "from PyPI"
    )


def test_a_go_beside_python_is_found(programs: Path, tmp_path: Path) -> None:
    real = GO_VERSION
    (tmp_path / "nowhere").mkdir()
    program = fake_go(
        tmp_path / "nowhere", f'[ "$1" = env ] && echo "{{}}" || echo "go version {real} x/y"'
    )
    assert not (programs / "go").exists()

    assert toolchain.locate().program == str(program)


@pytest.mark.parametrize("shown", ["go version go1.20.14 linux/amd64", "gcc (a Go) 4.9"])
def test_a_go_too_old_to_fetch_another_is_told(programs: Path, shown: str) -> None:
    program = fake_go(programs, f"echo '{shown}'")

    assert refusal() == (
        f"{program} is {shown}; expected Go 1.21 or newer, which can fetch go1.26.8; update it, or "
        "take it off PATH so that one is installed from PyPI"
    )


OLDER = """
[ "$1" = env ] && { echo '{"GOMODCACHE": "/some/mod"}'; exit; }
[ "$GOTOOLCHAIN" = local ] && { echo 'go version go1.21.0 linux/amd64'; exit; }
"""


def test_a_version_that_cannot_be_fetched_is_told_with_gos_reason(programs: Path) -> None:
    says = "go: download go1.26.8 for linux/amd64: toolchain not available"
    fake_go(programs, f"{OLDER}\necho '{says}' >&2\nexit 1")

    assert refusal() == (
        "go1.26.8 could not be fetched: go: download go1.26.8 for linux/amd64: toolchain not "
        "available; expected Go's module proxy to answer; check the network and GOPROXY, or "
        "install that version"
    )


def test_a_go_that_answers_with_another_version_than_asked_is_refused(programs: Path) -> None:
    fake_go(programs, f"{OLDER}\necho 'go version go1.26.7 linux/amd64'")

    assert refusal().startswith("go1.26.8 could not be fetched: ")


def test_a_version_that_does_not_fit_on_the_disk_is_told_as_that(programs: Path) -> None:
    fake_go(
        programs,
        f"{OLDER}\necho 'go: write /some/mod/cache/x.zip: no space left on device' >&2\nexit 1",
    )

    assert refusal() == (
        "no space left on the disk of /some/mod; a build needs about 500 MB there; free some, or "
        "set GOMODCACHE to a folder on another disk"
    )


def test_a_file_named_go_that_is_no_program_is_told(programs: Path) -> None:
    program = programs / "go"
    program.write_bytes(b"\x7fnothing that runs")
    program.chmod(0o755)

    assert refusal() == (
        f"{program} cannot be started (Exec format error); expected Go 1.21 or newer; install it, "
        "or take that file off PATH"
    )


# What keeps Go from fetching anything, and from keeping it ---------------------------------------


@pytest.mark.parametrize(
    ("settings", "stderr", "named"),
    [
        (
            {"GOSUMDB": "off"},
            "verifying module: checksum database disabled by GOSUMDB=off",
            "GOSUMDB",
        ),
        ({"GOPROXY": "off"}, "toolchain not available", "GOPROXY"),
        ({"GOPROXY": "direct"}, "toolchain not available", "GOPROXY"),
        ({"GOPRIVATE": "*"}, "toolchain not available", "GOPRIVATE"),
        ({"GOVCS": "*:off", "GOINSECURE": "*"}, "toolchain not available", "GOINSECURE, GOVCS"),
        ({"HTTPS_PROXY": "http://127.0.0.1:9"}, "toolchain not available", "HTTPS_PROXY"),
        ({}, "toolchain not available", "GOPROXY"),
    ],
)
def test_a_version_that_cannot_be_fetched_names_the_settings_that_may_be_why(
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    stderr: str,
    named: str,
) -> None:
    answer = json.dumps({key: value for key, value in settings.items() if key.startswith("GO")})
    fake_go(
        programs,
        f"[ \"$1\" = env ] && {{ echo '{answer}'; exit; }}\n"
        "[ \"$GOTOOLCHAIN\" = local ] && { echo 'go version go1.21.0 linux/amd64'; exit; }\n"
        f"echo 'go: download go1.26.8: {stderr}' >&2\nexit 1",
    )
    for key in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(key, raising=False)
    for key, value in settings.items():
        monkeypatch.setenv(key, value)

    assert refusal().endswith(f"; check the network and {named}, or install that version")


@pytest.mark.parametrize(
    ("settings", "stderr", "named"),
    [
        ({"GOPROXY": "off"}, "main.go:3:8: module lookup disabled by GOPROXY=off", "GOPROXY"),
        (
            {"GOPROXY": "https://a", "HTTPS_PROXY": "http://b"},
            'x@v1: Get "https://a/x": proxyconnect tcp: dial tcp b:9: connect: connection refused',
            "GOPROXY, HTTPS_PROXY",
        ),
        (
            {"GOPRIVATE": "*", "GONOPROXY": "*", "GONOSUMDB": "*"},
            "x@v1: invalid version: git ls-remote -q https://x: exit status 128:",
            "GOPRIVATE",
        ),
        ({"GOVCS": "*:off"}, "GOVCS disallows using git for public x", "GOVCS"),
        ({"GONOPROXY": "x"}, "unrecognized import path: reading https://x: 404", "GONOPROXY"),
        (
            {"GOPROXY": "https://proxy.golang.org,direct", "GOSUMDB": "sum.golang.org"},
            "x@v1: dial tcp: lookup proxy.golang.org: no such host",
            "GOPROXY",
        ),
    ],
)
def test_a_module_that_cannot_be_fetched_names_the_settings_that_may_be_why(
    settings: dict[str, str], stderr: str, named: str
) -> None:
    with pytest.raises(BuildError) as caught:
        toolchain.refuse_unreached(subprocesses.Finished(1, b"", stderr), settings, "plugins/x")

    assert caught.value.sentence.endswith(f"; check the network and {named}")
    assert caught.value.detail == stderr


def test_a_compilers_words_are_no_fetch_that_failed() -> None:
    stderr = "./main.go:3:2: undefined: x\nmissing go.sum entry for module providing package y"

    toolchain.refuse_unreached(
        subprocesses.Finished(1, b"", stderr), {"GOPROXY": "off"}, "plugins/x"
    )


@pytest.mark.parametrize("home", [None, "", "a/folder"])
def test_a_machine_without_a_home_is_told_to_set_it(
    monkeypatch: pytest.MonkeyPatch, home: str | None, tmp_path: Path
) -> None:
    for key in ("HOME", "XDG_CACHE_HOME", "GOCACHE", "GOMODCACHE", "GOPATH"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("GOENV", "off")
    monkeypatch.chdir(tmp_path)  # Go writes below such a home, too
    if home is not None:
        monkeypatch.setenv("HOME", home)

    assert "set HOME" in refusal()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # room for one of two
    assert "set HOME" in refusal()
    monkeypatch.setenv("GOCACHE", str(tmp_path / "build"))
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "mod"))
    assert toolchain.locate().environment["GOMODCACHE"] == str(tmp_path / "mod")


@pytest.mark.parametrize("variable", ["GOCACHE", "GOMODCACHE"])
def test_a_home_that_is_a_file_is_told_with_what_go_wants_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    (tmp_path / "home").write_text("a file")
    for key in ("GOCACHE", "GOMODCACHE"):
        monkeypatch.setenv(key, str(tmp_path / ("home" if key == variable else "there") / "x"))

    told = refusal()

    assert told.startswith(f"Go cannot make {variable} at {tmp_path / 'home' / 'x'}")
    assert "HOME" in told


# Through the command ----------------------------------------------------------------------------


def python_alone(folder: Path) -> str:
    """Python as by a link in a folder where no Go lies."""
    link = folder / "python"
    link.symlink_to(os.path.realpath(sys.executable))
    return str(link)


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        (
            "go",
            (
                "no Go on PATH; expected 1.21 or newer; install Go, or run through nox, which "
                "takes one from PyPI"
            ),
        ),
        (
            "git",
            (
                "git was not found on PATH; expected git 2.30 or newer, which reads a source; "
                "install it"
            ),
        ),
    ],
)
def test_a_machine_without_go_or_git_gets_a_sentence(
    tmp_path: Path, run_wasm: RunWasm, cache_folder: Path, missing: str, sentence: str
) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in {"git", "go"} - {missing}:
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)

    ended = run_wasm(
        "build",
        "--variant=baseline",
        f"--output={tmp_path / 'record.json'}",
        env={"PATH": str(folder)},
        python=python_alone(folder),
    )

    assert (ended.status, ended.stdout, ended.stderr) == (2, "", f"error: {sentence}\n")
    assert list(cache_folder.glob("work/*")) == []


@pytest.mark.parametrize("value", ["off", "a/folder"])
def test_a_build_cache_that_go_would_refuse_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("GOCACHE", value)
    assert refusal() == (
        "GOCACHE is off, or no absolute path; expected the folder without which Go builds nothing; "
        "unset it, or name one"
    )
