"""Our own Go: formatted, vetted, and its tests pass; with the toolchain that modules get."""

from __future__ import annotations

from pathlib import Path

import pytest

from wasm.foundation import cache, subprocesses
from wasm.golang import toolchain
from wasm.gotest.test_events import Reading

TREES = ("containers/upstream", "wasm/go/reference", "tests/integration/meddler")


@pytest.mark.parametrize("tree", TREES)
def test_go_is_formatted(tree: str) -> None:
    go = toolchain.locate()
    root = (
        subprocesses.run([go.program, "env", "GOROOT"], env=go.environment).stdout.decode().strip()
    )
    found = subprocesses.run([str(Path(root, "bin", "gofmt")), "-l", "."], cwd=cache.PROJECT / tree)
    assert found.succeeded
    assert found.stdout == b""


@pytest.mark.parametrize("tree", TREES)
def test_go_is_vetted(tree: str) -> None:
    go = toolchain.locate()
    found = subprocesses.run(
        [go.program, "vet", "./..."], cwd=cache.PROJECT / tree, env=go.environment
    )
    assert (found.status, found.stderr) == (0, "")


@pytest.mark.parametrize(("tree", "at_least"), [(TREES[0], 40), (TREES[1], 60)])
def test_go_tests_pass(tree: str, at_least: int) -> None:
    go = toolchain.locate()
    argv = [go.program, "test", "-json", "-count=1", "./..."]
    done = subprocesses.run(argv, cwd=cache.PROJECT / tree, env=go.environment)
    reading = Reading()
    for line in done.stdout.splitlines():
        reading.take(line)
    suite = reading.suite(argv, done.status, 0.0, {})
    assert suite.problem == ""
    assert suite.passed >= at_least
    assert suite.skipped == []
