"""The SDK's test host with one compilation cache for all tests, prepared when Go's tests are run.

The test host (package proxytest) makes a runtime for each Wasm-mode test, and every one of them
compiles the same module anew: nearly all of the time that a plugin's tests take. wazero shares
what it has compiled between runtimes that are given one cache, and keeps it when one of them is
closed. So the SDK that the tests use is copied out of the module cache, a rule gives its runtimes
one cache, and a copy of go.mod puts the result in the SDK's place. The source stays as it is, and
so does the module under proof, which is built without any of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wasm.foundation import cache, subprocesses
from wasm.foundation.errors import SourceError
from wasm.golang import codemod, golist
from wasm.golang.codemod import GoFile, Rule, call
from wasm.golang.golist import GoModule
from wasm.records import sha256_of
from wasm.source import files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ast_grep_py import Config

    from wasm.golang.codemod import Rewrite
    from wasm.golang.golist import Package
    from wasm.golang.toolchain import Toolchain

TEST_HOST = "proxytest"
_WAZERO = "github.com/tetratelabs/wazero"
_CACHE = "sharedCompilationCache"
_MODFILE = "fast.mod"
_COPY = "sdk"
_DIGEST = "sha256"

_MAKES_A_RUNTIME: Config = {
    "rule": call("$WAZERO.$NEW($CTX)"),
    "constraints": {"WAZERO": {"regex": "^wazero$"}, "NEW": {"regex": "^NewRuntime$"}},
}
_USES_THE_CACHE: Config = {
    "rule": {
        "kind": "function_declaration",
        "all": [
            {"has": {"field": "body", "pattern": "$BODY"}},
            {"has": {"kind": "identifier", "regex": f"^{_CACHE}$", "stopBy": "end"}},
        ],
    },
}


def rules(file: str) -> tuple[Rule, ...]:
    """Make the rules for the file in which the test host makes its runtimes."""
    return (
        Rule(
            id="runtime-takes-shared-cache",
            says="The runtime of a test takes what another has compiled.",
            file=file,
            where=_MAKES_A_RUNTIME,
            rewrite={
                "NEW": "NewRuntimeWithConfig",
                "CTX": f"$CTX, $WAZERO.NewRuntimeConfig().WithCompilationCache({_CACHE})",
            },
            places=1,
        ),
        Rule(
            id="test-host-has-shared-cache",
            says="The test host has one compilation cache.",
            file=file,
            where=_USES_THE_CACHE,
            rewrite={"BODY": f"$BODY\n\nvar {_CACHE} = wazero.NewCompilationCache()"},
            places=1,
        ),
    )


@dataclass(frozen=True, kw_only=True)
class FastSdk:
    """What was done to the SDK for the sake of speed, as it is recorded.

    Attributes:
        module: The SDK's module path and version, as the tests' go.mod selects it.
        file: The file of it that was changed.
        places: In how many places each rule changed it.
        original_sha256: The file's digest before.
        changed_sha256: The file's digest after.
    """

    module: str
    file: str
    places: dict[str, int]
    original_sha256: str
    changed_sha256: str


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How ``go test`` is run: on the fast SDK, or plainly and why.

    Attributes:
        sdk: What was done to the SDK; None when it is used as it is.
        plain_because: Why, in a clause; empty when it is not.
        modfile: What ``go test`` has to be given by ``-modfile``; None when nothing.
    """

    sdk: FastSdk | None = None
    plain_because: str = ""
    modfile: Path | None = None


@dataclass(frozen=True)
class _TestHost:
    """The package that runs modules, and the module of the SDK that it is part of.

    Attributes:
        import_path: The package's.
        module: The SDK's module.
        sources: The package's Go files; paths in the SDK, with slashes.
    """

    import_path: str
    module: GoModule
    sources: dict[str, bytes]

    @property
    def folder(self) -> Path:
        """Where the SDK lies: in the module cache, or where go.mod says."""
        return Path(self.module.dir)


class _UnfitError(Exception):
    """The SDK is not one that the rules were written for; why, in a clause."""


def prepare(go: Toolchain, plugin: Path, scratch: Path) -> Speed:
    """Prepare the SDK that the tests of a plugin use; what speaks against it is no error.

    Args:
        go: What runs the tests.
        plugin: The plugin's folder, which stays as it is.
        scratch: A folder for the copy of its go.mod; needed as long as tests are run.

    Raises:
        BuildError: Go cannot list the packages, or the cache folder cannot be written.
    """
    try:
        host = _test_host(golist.packages(go, plugin, "-deps", "-test"))
        file, rewrite = _rewritten(host.sources)
        changed = rewrite.files[file]
        modfile = _in_place(go, plugin, scratch, host, _copied(host, file, changed))
    except _UnfitError as reason:
        return Speed(plain_because=str(reason))
    sdk = FastSdk(
        module=f"{host.module.path}@{host.module.version}",
        file=file,
        places=rewrite.places,
        original_sha256=sha256_of(host.sources[file]),
        changed_sha256=sha256_of(changed),
    )
    return Speed(sdk=sdk, modfile=modfile)


def _test_host(packages: Iterable[Package]) -> _TestHost:
    """Find the package of the SDK that runs modules, among all that the tests import."""
    # A package that is compiled anew for one test is there again, under another name.
    hosts = {
        package.dir: package
        for package in packages
        if package.name == TEST_HOST and _WAZERO in package.imports
    }
    if not hosts:
        raise _UnfitError(f"its tests use no package {TEST_HOST} that runs modules in wazero")
    if len(hosts) > 1:
        names = " and ".join(sorted(package.import_path for package in hosts.values()))
        raise _UnfitError(f"its tests use more than one test host, {names}")
    [host] = hosts.values()
    module = host.module
    if module is None or module.main:
        raise _UnfitError(f"{host.import_path} is the plugin's own")
    if not module.dir:
        raise _UnfitError(f"{module.path} is vendored")
    if not Path(module.dir, "go.mod").is_file():
        raise _UnfitError(f"{module.path}@{module.version} has no go.mod")
    within = Path(host.dir).relative_to(module.dir)
    sources = {
        (within / name).as_posix(): Path(host.dir, name).read_bytes() for name in host.go_files
    }
    return _TestHost(host.import_path, module, sources)


def _rewritten(sources: Mapping[str, bytes]) -> tuple[str, Rewrite]:
    """Apply the rules to the one file of the test host that makes runtimes."""
    try:
        making = [
            path for path in sources if GoFile.parse(path, sources).root.find(_MAKES_A_RUNTIME)
        ]
        if len(making) != 1:
            found = " and ".join(making) or "no file"
            raise _UnfitError(f"{found} of {TEST_HOST} makes a runtime as the rules expect")
        return making[0], codemod.apply(rules(making[0]), sources)
    except SourceError as error:
        # What the user is to do about a source of his own is of no use here.
        raise _UnfitError(error.found) from error


def _copied(host: _TestHost, file: str, changed: bytes) -> Path:
    """Return a copy of the SDK in which one file is another; from the cache if it is there."""

    def fill(draft: Path) -> None:
        # The module cache is read-only, and a copy has to be changed and removed again.
        for path in sorted(host.folder.rglob("*")):
            if path.is_file():
                target = draft / _COPY / path.relative_to(host.folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())
        (draft / _COPY / file).write_bytes(changed)
        (draft / _DIGEST).write_text(files.digest(draft / _COPY), "ascii")

    def whole(entry: Path) -> bool:
        try:
            return (entry / _DIGEST).read_bytes() == files.digest(entry / _COPY).encode()
        except OSError:
            return False

    key = sha256_of(f"{files.digest(host.folder)} {file} {sha256_of(changed)}".encode())
    return cache.entry("sdks", key, fill, whole) / _COPY


def _in_place(go: Toolchain, plugin: Path, scratch: Path, host: _TestHost, copy: Path) -> Path:
    """Put the changed SDK in place of the original, in a copy of go.mod; return that."""
    modfile = scratch / _MODFILE
    modfile.write_bytes((plugin / "go.mod").read_bytes())
    if (plugin / "go.sum").is_file():
        modfile.with_suffix(".sum").write_bytes((plugin / "go.sum").read_bytes())
    # With its version, so that it goes before a replacement that go.mod may have without one.
    replaced = f"-replace={host.module.path}@{host.module.version}={copy}"
    edit = [go.program, "mod", "edit", replaced, str(modfile)]
    # -export builds it: the tests need that anyway, and what does not compile shows now.
    look = [go.program, "list", "-export", "-f={{.Dir}}", f"-modfile={modfile}", host.import_path]
    for argv in (edit, look):
        done = subprocesses.run(argv, cwd=plugin, env=go.environment)
        if not done.succeeded:
            raise _UnfitError(f"the changed {host.module.path} cannot be used: {done.last_line}")
    if not Path(done.stdout.decode().strip()).is_relative_to(copy):
        raise _UnfitError(f"go does not take the changed {host.module.path}")
    return modfile
