"""The Go toolchain: one exact version for both modules of a pair, whatever Go the machine has.

Any Go from 1.21 on fetches that version through the module proxy (its GOTOOLCHAIN setting). The
settings that could change a module's bytes are set or emptied here; those that say how to reach
the network, or where Go keeps its caches, stay the user's.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wasm.foundation import cache, subprocesses
from wasm.foundation.errors import BuildError
from wasm.golang.goversion import GO_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wasm.records import Source

TARGET = {"GOOS": "wasip1", "GOARCH": "wasm"}
_OLDEST_THAT_FETCHES = (1, 21)
_DISK_FULL = "no space left on device"

# Settings of the user that a build keeps; they decide where things come from, not what is built.
_KEPT = [
    "GOPROXY",
    "GOSUMDB",
    "GONOSUMDB",
    "GONOPROXY",
    "GOPRIVATE",
    "GOINSECURE",
    "GOAUTH",
    "GOVCS",
    "GOCACHE",
    "GOMODCACHE",
    "GOPATH",
]
# Settings that decide what is built.
_PINNED = {
    "GOENV": "off",
    "GOFLAGS": "",
    "GOWORK": "off",
    "GOEXPERIMENT": "",
    "GODEBUG": "",
    "CGO_ENABLED": "0",
}
# Settings that a release of Go has not, for which Go takes an empty variable as none.
_UNSET = ("GOFLAGS", "GOEXPERIMENT", "GODEBUG", "GOWASM", "GO111MODULE", "GOFIPS140")
# Settings of the user that his own build takes, and ours does not.
_LEFT_OUT = ("GOFLAGS", "GOWORK", "GOEXPERIMENT", "GOWASM", "GO111MODULE")
# Settings, and what they are by default, that decide whether a module can be fetched.
_ROUTES = {
    "GOPROXY": "https://proxy.golang.org,direct",
    "GOSUMDB": "sum.golang.org",
    "GOPRIVATE": "",
    "GONOPROXY": "",
    "GONOSUMDB": "",
    "GOINSECURE": "",
    "GOVCS": "",
    "GOAUTH": "netrc",
    **dict.fromkeys(
        ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"), ""
    ),
}
# What Go writes, or a git that it has started, when it reaches nobody who has a module.
_UNREACHED = re.compile(
    r"disabled by GO|GOVCS disallows|dial tcp|proxyconnect|: Get \"https?:|git ls-remote|"
    r"unrecognized import path|reading (?:https?|file):|x509:|no secure protocol|GOPROXY list"
)
# What a shell may hold and a build must not see: every setting of Go (GOOS, GOROOT, GOFIPS140 ...)
# that is not kept, and WASM_FILE_PATH, which proxytest reads. GOOGLE_... is nobody of Go's.
_SCRUBBED = re.compile(r"GO[A-Z0-9]*|GO_EXTLINK_ENABLED|WASM_FILE_PATH")
# How much of the machine Go takes is the user's to say.
_UNTOUCHED = ("GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GOCACHEPROG")


@dataclass(frozen=True)
class Toolchain:
    """A Go program and the environment to run it in.

    Attributes:
        program: The path of ``go``.
        version: What it reports, such as ``go version go1.26.8 linux/amd64``.
        environment: The whole environment for a native run.
        pinned: The settings in it that decide what is built, as they are recorded.
    """

    program: str
    version: str
    environment: dict[str, str] = field(repr=False)

    pinned: dict[str, str] = field(repr=False)


@functools.cache
def locate(version: str = GO_VERSION) -> Toolchain:
    """Find Go, and an exact version through it.

    Raises:
        BuildError: There is no Go, it is too old to fetch another, the fetch failed, or its own
            go.env would change what is built.
    """
    program = _program()
    found = _started(program, ["version"], _machine() | {"GOTOOLCHAIN": "local"})
    number = re.search(r"go(\d+)\.(\d+)", found.stdout.decode())
    if number is None or tuple(map(int, number.groups())) < _OLDEST_THAT_FETCHES:
        shown = found.stdout.decode().strip() or found.last_line
        raise BuildError(
            f"{program} is {shown}; expected Go 1.21 or newer, which can fetch {version}; "
            "update it, or take it off PATH so that one is installed from PyPI"
        )
    settings = _started(program, ["env", "-json", *_KEPT], _machine() | {"GOTOOLCHAIN": "local"})
    kept = {key: value for key, value in json.loads(settings.stdout or b"{}").items() if value}
    _refuse_no_room(kept)
    pinned = _PINNED | {"GOTOOLCHAIN": version}
    environment = _machine() | kept | pinned
    exact = _started(program, ["version"], environment)
    if not exact.succeeded or f" {version} " not in exact.stdout.decode():
        refuse_full_disk(exact, environment)
        raise BuildError(
            f"{version} could not be fetched: {exact.last_line}; expected Go's module proxy to "
            f"answer; check the network and {_routes(environment, exact.stderr)}, or install that "
            "version"
        )
    _refuse_changed_release(program, environment)
    return Toolchain(program, exact.stdout.decode().strip(), environment, pinned)


def _refuse_changed_release(program: str, environment: Mapping[str, str]) -> None:
    """Refuse a Go that somebody has given settings of its own, in go.env: no variable undoes them.

    Raises:
        BuildError: With the file and the setting.
    """
    asked = _started(program, ["env", "-json", "GOROOT", *_UNSET], environment)
    told = json.loads(asked.stdout or b"{}")
    for key in _UNSET:
        value = told.get(key, "")
        if value not in ("", "off"):
            raise BuildError(
                f"{told['GOROOT']}/go.env sets {key}={value}, which would change what is built, "
                "and no record says so; expected Go as it is released; take that line out, or "
                "install another Go"
            )


def of(source: Source) -> Toolchain:
    """Find the Go that a source is built and tested with.

    Raises:
        BuildError: As :func:`locate` does.
    """
    return locate(source.go.version) if source.go else locate()


def users_own(folder: Path) -> dict[str, str]:
    """Return settings that the user's own build in a folder takes, and ours does not.

    Raises:
        BuildError: Go refuses one of them.
    """
    env = _machine() | {key: os.environ[key] for key in _LEFT_OUT if key in os.environ}
    asked = ["env", "-json", *_LEFT_OUT]
    done = _started(_program(), asked, env | {"GOTOOLCHAIN": "local"}, folder)
    if not done.succeeded:
        raise BuildError(
            f"`go env` fails in {folder}: {done.last_line}; expected settings that Go takes; see "
            "`go env` there"
        )
    return {key: value for key, value in json.loads(done.stdout).items() if value}


def refuse_unreached(
    done: subprocesses.Finished, environment: Mapping[str, str], plugin: str
) -> None:
    """Raise what Go says of modules that it could not fetch, with the settings that had a part.

    Raises:
        BuildError: A module was neither in the module cache nor to be had.
    """
    lines = [line.strip() for line in done.stderr.splitlines() if _UNREACHED.search(line)]
    if lines:
        raise BuildError(
            f"a module that {plugin} needs could not be fetched: {lines[0].rstrip(':')}; expected "
            "it in Go's module cache, or a module proxy that answers; check the network and "
            f"{_routes(environment, done.stderr)}",
            detail=done.stderr.strip(),
        )


def _routes(environment: Mapping[str, str], told: str) -> str:
    """Return the settings that may be why nothing was fetched: named by Go, else the user's own."""
    set_here = {
        name for name, default in _ROUTES.items() if environment.get(name, "") not in ("", default)
    }
    # Go fills these from GOPRIVATE.
    private = environment.get("GOPRIVATE", "")
    derived = {name for name in ("GONOPROXY", "GONOSUMDB") if environment.get(name) == private}
    named = {name for name in _ROUTES if f"{name}=" in told or f"{name} disallows" in told}
    found = named or set_here - derived or {"GOPROXY"}
    return ", ".join(name for name in _ROUTES if name in found)


def _refuse_no_room(settings: Mapping[str, str]) -> None:
    """Refuse caches that Go could not make; their places follow from HOME unless they are set."""
    home = os.environ.get("HOME", "")
    homeless = not Path(home).is_absolute()
    for variable in ("GOCACHE", "GOMODCACHE"):
        named = settings.get(variable, "" if homeless else "/")
        if not Path(named).is_absolute() and homeless and not os.environ.get(variable):
            raise BuildError(
                f"HOME is {home!r}, so that Go has no place for its caches; expected a folder that "
                "can be written; set HOME, or GOCACHE and GOMODCACHE"
            )
        if not Path(named).is_absolute():
            raise BuildError(
                f"{variable} is off, or no absolute path; expected the folder without which Go "
                "builds nothing; unset it, or name one"
            )
        there = next(each for each in (Path(named), *Path(named).parents) if os.path.lexists(each))
        if not there.is_dir() or (there != Path(named) and not os.access(there, os.W_OK | os.X_OK)):
            raise BuildError(
                f"Go cannot make {variable} at {named}, since {there} is no folder that can be "
                f"written; expected one; set HOME, or name another with {variable}"
            )


def refuse_full_disk(done: subprocesses.Finished, environment: Mapping[str, str]) -> None:
    """Raise what Go says of a full disk, with the folder that lies on it.

    Raises:
        BuildError: Go could not write to its module cache, its build cache, or our folder.
    """
    full = "\n".join(line for line in done.stderr.splitlines() if _DISK_FULL in line)
    if not full:
        return
    for variable in ("GOMODCACHE", "GOCACHE"):
        if environment.get(variable) and environment[variable] in full:
            raise cache.disk_full(Path(environment[variable]), variable)
    raise cache.disk_full(cache.root())


def _machine() -> dict[str, str]:
    """Return the environment without Go's settings; GOENV and the caches' places apart."""
    passed = {*_KEPT, *_UNTOUCHED, "GOENV"}
    return {k: v for k, v in os.environ.items() if k in passed or not _SCRUBBED.fullmatch(k)}


def _started(
    program: str, arguments: list[str], env: Mapping[str, str], folder: Path | None = None
) -> subprocesses.Finished:
    try:
        return subprocesses.run([program, *arguments], cwd=folder, env=env)
    except OSError as error:
        raise BuildError(
            f"{program} cannot be started ({error.strerror}); expected Go 1.21 or newer; install "
            "it, or take that file off PATH"
        ) from error


def _program() -> str:
    # A Go that the session installed from PyPI lies beside its Python.
    found = shutil.which("go") or shutil.which("go", path=str(Path(sys.executable).parent))
    if found is None:
        raise BuildError(
            "no Go on PATH; expected 1.21 or newer; install Go, or run through nox, which takes "
            "one from PyPI"
        )
    return found
