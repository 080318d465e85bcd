"""What ``go list`` says of the packages in a plugin's folder, and the tests that they declare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from ast_grep_py import SgRoot

from wasm.foundation import subprocesses
from wasm.foundation.errors import BuildError
from wasm.golang import toolchain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ast_grep_py import Config

    from wasm.golang.toolchain import Toolchain

_T = TypeVar("_T", bound=msgspec.Struct)
# What Go takes for a test (`go help testfunc`). TestMain is none; an example is one only if a
# comment says what it prints.
_IS_A_TEST: Config = {
    "rule": {
        "kind": "function_declaration",
        "all": [
            {"has": {"field": "name", "regex": r"^(Test|Fuzz)(\P{Ll}.*)?$"}},
            {"not": {"has": {"field": "name", "regex": "^TestMain$"}}},
        ],
    },
}


class GoModule(msgspec.Struct, frozen=True, rename="pascal"):
    """A module; all but the main one have a version, and all but a vendored one a folder."""

    path: str
    version: str = ""
    dir: str = ""
    main: bool = False
    replace: GoModule | None = None

    @property
    def downloaded(self) -> bool:
        """Whether it lies in Go's module cache: not the main one, a vendored one or a folder."""
        return self.dir != "" and (self.replace or self).version != ""


class Package(msgspec.Struct, frozen=True, rename="pascal"):
    """A package; one of the standard library has no module. Files are names in its folder."""

    import_path: str
    name: str = ""
    dir: str = ""
    go_files: tuple[str, ...] = ()
    test_go_files: tuple[str, ...] = ()
    x_test_go_files: tuple[str, ...] = msgspec.field(default=(), name="XTestGoFiles")
    imports: tuple[str, ...] = ()
    module: GoModule | None = None

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests that its files declare, of those that are built here."""
        folder = Path(self.dir)
        return tuple(
            name
            for file in (*self.test_go_files, *self.x_test_go_files)
            for name in declared_in((folder / file).read_text("utf-8", "replace"))
        )


class Sources(msgspec.Struct, frozen=True, rename="pascal"):
    """What Go reads of a package: files by the names that they have in its folder."""

    dir: str = ""
    standard: bool = False
    module: GoModule | None = None
    go_files: tuple[str, ...] = ()
    cgo_files: tuple[str, ...] = ()
    ignored_go_files: tuple[str, ...] = ()
    ignored_other_files: tuple[str, ...] = ()
    c_files: tuple[str, ...] = msgspec.field(default=(), name="CFiles")
    h_files: tuple[str, ...] = msgspec.field(default=(), name="HFiles")
    s_files: tuple[str, ...] = msgspec.field(default=(), name="SFiles")
    syso_files: tuple[str, ...] = ()
    embed_files: tuple[str, ...] = ()
    test_go_files: tuple[str, ...] = ()
    x_test_go_files: tuple[str, ...] = msgspec.field(default=(), name="XTestGoFiles")
    test_embed_files: tuple[str, ...] = ()
    x_test_embed_files: tuple[str, ...] = msgspec.field(default=(), name="XTestEmbedFiles")

    @property
    def files(self) -> Iterator[str]:
        """All of them; Go and its users take a leading _ or . for `not mine`."""
        for field in msgspec.structs.fields(self):
            if field.name.endswith("_files"):
                for name in getattr(self, field.name):
                    if field.name != "ignored_go_files" or not name.startswith(("_", ".")):
                        yield name


def packages(go: Toolchain, plugin: Path, *flags: str) -> list[Package]:
    """List the packages below a plugin's folder; with ``-deps``, all that they import too.

    Raises:
        BuildError: Go cannot make sense of the folder.
    """
    return _listed(go, plugin, go.environment, Package, flags)


def read_by_go(go: Toolchain, plugin: Path) -> set[Path]:
    """Return the files that a build of a plugin reads, and its tests; Go's own and caches' apart.

    go.mod and what else is no package's is not among them.

    Raises:
        BuildError: Go cannot make sense of the folder.
    """
    found = set()
    for package in _listed(go, plugin, go.environment | toolchain.TARGET, Sources, ("-deps",)):
        own = package.module is None or not package.module.downloaded
        if own and package.dir and not package.standard:
            found |= {Path(package.dir) / name for name in package.files}
    return found


def _listed(
    go: Toolchain, plugin: Path, env: dict[str, str], of: type[_T], flags: Sequence[str]
) -> list[_T]:
    fields = ",".join(field.encode_name for field in msgspec.structs.fields(of))
    argv = [go.program, "list", "-e", f"-json={fields}", *flags, "./..."]
    # Go names folders as PWD does, through a link too.
    done = subprocesses.run(argv, cwd=plugin, env={**env, "PWD": str(plugin)})
    if not done.succeeded:
        toolchain.refuse_unreached(done, env, plugin.name)
        raise BuildError(
            f"go list could not be run: {done.last_line}; expected it to read the plugin's "
            "packages; see what `go list ./...` says in its folder",
            detail=done.stderr,
        )
    return _read(done.stdout.decode(), of)


def _read(text: str, of: type[_T]) -> list[_T]:
    """Read JSON values that stand one after the other."""
    decoder, found, rest = json.JSONDecoder(), [], text.strip()
    position = 0
    while position < len(rest):
        value, position = decoder.raw_decode(rest, position)
        found.append(msgspec.convert(value, of))
        while position < len(rest) and rest[position].isspace():
            position += 1
    return found


def declared_in(text: str) -> list[str]:
    """Return the tests that a Go file declares, in its order; not whether it is built."""
    found = SgRoot(text, "go").root().find_all(_IS_A_TEST)
    names = [declaration.field("name") for declaration in found]
    return [name.text() for name in names if name is not None]
