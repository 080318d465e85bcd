"""The upstream as a program: one static Go binary, built once per source and toolchain."""

from __future__ import annotations

from pathlib import Path

from wasm.foundation import cache, subprocesses
from wasm.foundation.errors import BuildError
from wasm.golang import toolchain
from wasm.records import sha256_of
from wasm.source import files

_SOURCE = Path(__file__).parent / "upstream"
_BUILD = ("build", "-trimpath", "-buildvcs=false", "-ldflags=-s")


def program() -> Path:
    """Return the upstream's program, from the cache when its source has not changed.

    Raises:
        BuildError: Go could not build it.
    """
    go = toolchain.locate()
    key = sha256_of(f"{files.digest(_SOURCE)} {go.version} {_BUILD}".encode())

    def fill(draft: Path) -> None:
        with cache.scratch("go-build") as temporary:
            done = subprocesses.run(
                [go.program, *_BUILD, "-o", str(draft / "upstream"), "."],
                cwd=_SOURCE,
                env=go.environment | {"GOTMPDIR": str(temporary)},
            )
            if "no space left on device" in done.stderr:
                raise cache.disk_full(temporary)
        if not done.succeeded:
            raise BuildError(
                f"the upstream could not be built: {done.last_line}; expected {go.version} to "
                f"compile {_SOURCE.name}; see the lines above",
                detail=done.stderr,
            )

        digest = sha256_of((draft / "upstream").read_bytes())
        (draft / "sha256").write_bytes(digest.encode())

    def whole(entry: Path) -> bool:
        try:
            written = (entry / "sha256").read_bytes()
            return sha256_of((entry / "upstream").read_bytes()).encode() == written
        except OSError:
            return False

    return cache.entry("upstream", key, fill, whole) / "upstream"
