"""From a tree to a module: one exact command, a cache keyed by all that goes in, a record."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wasm.foundation import cache, subprocesses
from wasm.foundation.errors import BuildError
from wasm.golang import toolchain
from wasm.module import binary
from wasm.records import Module, sha256_of
from wasm.source import variant_tree

if TYPE_CHECKING:
    from wasm.records import Variant
    from wasm.source.variant_tree import Request, Tree

_OUTPUT = "main.wasm"
_FLAGS = ("-trimpath", "-buildvcs=false", "-buildmode=c-shared")
_SHOWN_LINES = 30
_CHANGED = re.compile(r"^(\S+ \S+): (?:dir|zip) has been modified \((.+)\)$", re.MULTILINE)
_ARCHIVE = re.compile(r"[0-9a-f]{64}-d")
_NEWER_GO = re.compile(r"requires go >= (\S+) \(running go ([^;)\s]+)")


class _Built(msgspec.Struct, frozen=True, kw_only=True):
    """What lies beside a module in the cache: the entry that it is, its digest, its time."""

    key: str
    sha256: str
    seconds: float


def build(variant: Variant, request: Request) -> Module:
    """Return a variant's module, from the cache when nothing that goes into it has changed.

    Raises:
        SourceError: Its tree could not be taken out of the source.
        BuildError: Go could not compile it.
    """
    with variant_tree.taken_out(variant, request) as tree:
        return built_from(tree, variant)


def built_from(tree: Tree, variant: Variant) -> Module:
    """Return the module of a tree that was taken out; nothing of the build stays in the tree.

    Raises:
        BuildError: Go could not compile it.
    """
    go = toolchain.of(tree.source)
    # -trimpath and -buildvcs=false: the same source gives the same bytes in any folder and any
    # work tree (golang 33772, 58218, 64772).
    argv = ["build", *_FLAGS, "-o", _OUTPUT, "."]
    record = Module(
        variant=variant,
        path="",
        sha256="",
        size_bytes=0,
        source=tree.source,
        go_version=go.version,
        command=["go", *argv],
        environment=go.pinned | toolchain.TARGET,
        seconds=0.0,
    )

    key = _key(record)

    def fill(draft: Path) -> None:
        start = time.monotonic()
        with cache.scratch("go-build") as temporary:
            env = go.environment | toolchain.TARGET | {"GOTMPDIR": str(temporary)}
            _compile([go.program, *argv], tree, env)
            _refuse_changed_dependencies(go.program, tree, env)
            _refuse_changed_archives(go.program, tree, env)
        seconds = round(time.monotonic() - start, 3)
        (tree.plugin / _OUTPUT).rename(draft / _OUTPUT)
        data = (draft / _OUTPUT).read_bytes()
        _refuse_cut_short(data)
        facts = _Built(key=key, sha256=sha256_of(data), seconds=seconds)
        (draft / "built.json").write_bytes(msgspec.json.encode(facts))

    def whole(entry: Path) -> bool:
        return _from_cache(record, entry, key) is not None

    folder = cache.entry("modules", key, fill, whole)
    module = _from_cache(record, folder, key)
    if module is None:
        raise BuildError(
            f"the module in {folder} changed while it was read; expected nobody else to write "
            "there; run `nox -s clean` and try again"
        )
    return module


def _key(record: Module) -> str:
    return sha256_of(
        json.dumps(
            {
                "files": record.source.files_sha256,
                "plugin": record.source.plugin,
                "go": record.go_version,
                "command": record.command,
                "environment": record.environment,
            },
            sort_keys=True,
        ).encode()
    )


def _compile(argv: list[str], tree: Tree, env: dict[str, str]) -> None:
    done = subprocesses.run(argv, cwd=tree.plugin, env=env)
    if done.succeeded:
        return
    toolchain.refuse_full_disk(done, env)
    toolchain.refuse_unreached(done, env, tree.source.plugin)
    lines = done.stderr.strip().splitlines()
    newer = _NEWER_GO.search(done.stderr)
    if newer:
        raise BuildError(
            f"{tree.source.plugin} or a module that it needs asks for Go {newer[1]}; expected "
            f"{newer[2]} at most, with which both variants are built; name a newer one with --go",
            detail="\n".join(lines[:_SHOWN_LINES]),
        )
    raise BuildError(
        f"Go could not build {tree.source.plugin} of {tree.source.repository} (exit status "
        f"{done.status}); expected a plugin that compiles for wasip1; see the lines above",
        detail="\n".join(lines[:_SHOWN_LINES]),
    )


def _refuse_changed_dependencies(program: str, tree: Tree, env: dict[str, str]) -> None:
    """Refuse a module made with what somebody has changed in Go's module cache; no record says so.

    Go itself looks at go.sum only when it downloads.
    """
    done = subprocesses.run([program, "mod", "verify"], cwd=tree.plugin, env=env)
    changed = _CHANGED.search(done.stderr + done.stdout.decode("utf-8", "replace"))
    if changed:
        raise BuildError(
            f"{changed[1]} was changed in Go's module cache ({changed[2]}); expected it as go.sum "
            "has it, so that others get the same module; run `go clean -modcache`"
        )


def _refuse_changed_archives(program: str, tree: Tree, env: dict[str, str]) -> None:
    """Refuse a module made with what was changed in Go's build cache, where a name is a digest.

    Go itself looks at the size alone.
    """
    argv = [program, "list", "-deps", "-export", *_FLAGS, "-f={{.Export}}", "."]
    done = subprocesses.run(argv, cwd=tree.plugin, env=env)
    for path in (Path(os.fsdecode(line)) for line in done.stdout.splitlines() if line):
        if _ARCHIVE.fullmatch(path.name) and sha256_of(path.read_bytes()) != path.name[:-2]:
            raise BuildError(
                f"{path} in Go's build cache is not what Go has put there; expected what its name "
                "says, so that others get the same module; run `go clean -cache`"
            )


def _refuse_cut_short(data: bytes) -> None:
    """Go's linker ends with status 0 when the disk took only the beginning of a module (seen)."""
    try:
        binary.read_shape(data)
    except BuildError as error:
        raise cache.disk_full(cache.root()) from error


def _from_cache(record: Module, folder: Path, key: str) -> Module | None:
    """Complete the record from a cache entry; None when that is damaged, or another's."""
    try:
        data = (folder / _OUTPUT).read_bytes()
        facts = msgspec.json.decode((folder / "built.json").read_bytes(), type=_Built)
    except (OSError, ValueError):
        return None
    if (facts.key, facts.sha256) != (key, sha256_of(data)):
        return None
    return replace(
        record,
        path=str(folder / _OUTPUT),
        sha256=facts.sha256,
        size_bytes=len(data),
        seconds=facts.seconds,
    )
