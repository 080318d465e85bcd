"""What ``go list`` says of the packages in a plugin's folder, and the tests that they declare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from ast_grep_py import SgRoot

from wasm import command
from wasm.errors import BuildError

if TYPE_CHECKING:
    from ast_grep_py import Config

    from wasm.toolchain import Toolchain

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


_FIELDS = ",".join(field.encode_name for field in msgspec.structs.fields(Package))


def packages(go: Toolchain, plugin: Path, *flags: str) -> list[Package]:
    """List the packages below a plugin's folder; with ``-deps``, all that they import too.

    Raises:
        BuildError: Go cannot make sense of the folder.
    """
    argv = [go.program, "list", "-e", f"-json={_FIELDS}", *flags, "./..."]
    done = command.run(argv, cwd=plugin, env=go.environment)
    if not done.succeeded:
        raise BuildError(
            f"go list could not be run: {done.last_line}; expected it to read the plugin's "
            "packages; see what `go list ./...` says in its folder"
        )
    return _read(done.stdout.decode())


def _read(text: str) -> list[Package]:
    """Read JSON values that stand one after the other."""
    decoder, found, rest = json.JSONDecoder(), [], text.strip()
    position = 0
    while position < len(rest):
        value, position = decoder.raw_decode(rest, position)
        found.append(msgspec.convert(value, Package))
        while position < len(rest) and rest[position].isspace():
            position += 1
    return found


def declared_in(text: str) -> list[str]:
    """Return the tests that a Go file declares, in its order; not whether it is built."""
    found = SgRoot(text, "go").root().find_all(_IS_A_TEST)
    names = [declaration.field("name") for declaration in found]
    return [name.text() for name in names if name is not None]
