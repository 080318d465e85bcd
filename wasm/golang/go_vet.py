"""What Go's own checks find in a plugin's folder, told so that two trees can be compared."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from wasm.foundation import subprocesses
from wasm.foundation.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wasm.golang.toolchain import Toolchain

# Where something is moves with every change.
_POSITION = re.compile(r":\d+(:\d+)?:")


def vet(go: Toolchain, plugin: Path) -> frozenset[str]:
    """Return what ``go vet`` finds, tests included, without line numbers.

    The same again in the same file is told with a number: a second fault is not the first one.

    Raises:
        BuildError: It could not be run.
    """
    done = subprocesses.run([go.program, "vet", "./..."], cwd=plugin, env=go.environment)
    lines = (line.strip() for line in done.stderr.splitlines())
    found = _counted(_POSITION.sub(":", line) for line in lines if line and line[0] != "#")
    if not done.succeeded and not found:
        raise BuildError(f"go vet could not be run: {done.last_line}; expected it to read the tree")
    return found


def _counted(lines: Iterable[str]) -> frozenset[str]:
    times: Counter[str] = Counter()
    told = set()
    for line in lines:
        times[line] += 1
        told.add(line if times[line] == 1 else f"{line} ({times[line]})")
    return frozenset(told)


def unformatted(go: Toolchain, plugin: Path) -> frozenset[str]:
    """Return the files that ``gofmt -l`` names, of the same Go.

    Raises:
        BuildError: It could not be run.
    """
    root = subprocesses.run([go.program, "env", "GOROOT"], cwd=plugin, env=go.environment)
    gofmt = Path(root.stdout.decode().strip()) / "bin" / "gofmt"
    try:
        done = subprocesses.run([str(gofmt), "-l", "."], cwd=plugin, env=go.environment)
    except OSError as error:
        raise BuildError(
            f"{gofmt} cannot be started ({error.strerror}); expected gofmt beside Go; install Go "
            "anew"
        ) from error
    if not done.succeeded:
        raise BuildError(
            f"gofmt could not read the tree: {done.last_line}; expected Go that parses"
        )
    return frozenset(done.stdout.decode().splitlines())
