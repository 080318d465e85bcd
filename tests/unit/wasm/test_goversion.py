"""Which version of Go a source is built with, and why that one."""

from __future__ import annotations

import argparse

import pytest

from wasm.golang import goversion
from wasm.golang.goversion import GO_VERSION, choose


@pytest.mark.parametrize(
    ("go_mod", "recipe", "asked", "version", "because"),
    [
        ("go 1.24", None, None, GO_VERSION, "ours"),
        ("go 1.24\ntoolchain go1.24.4", None, None, "go1.24.4", "toolchain line"),
        ("go 1.24\ntoolchain go1.24.4", "ARG GO_VERSION=1.25.1", None, "go1.24.4", "toolchain"),
        ("go 1.24\ntoolchain go1.24.4", None, "go1.25.0", "go1.25.0", "--go"),
        ("go 1.24\n// toolchain go1.24.4", None, None, GO_VERSION, "ours"),
        ("go 1.24\ntoolchain default", None, None, GO_VERSION, "ours"),
        # These cannot build for wasip1.
        ("go 1.20\ntoolchain go1.22.5", None, None, GO_VERSION, "ours"),
        ("go 1.20\ntoolchain go1.22.5", "ARG GO_VERSION=1.24.4", None, "go1.24.4", "builder"),
        ("go 1.20", "ARG GO_VERSION=1.20.14", None, GO_VERSION, "ours"),
        ("go 1.24", 'FROM x\nARG GO_VERSION="1.24.4"\n', None, "go1.24.4", "builder"),
        ("go 1.24", "ARG GO_VERSION=1.25", None, "go1.25.0", "builder"),
        ("go 1.24", "RUN true", None, GO_VERSION, "ours"),
        # Go refuses what is older than the go line.
        ("go 1.25.3", "ARG GO_VERSION=1.24.4", None, "go1.25.3", "go line"),
        ("go 1.25.3\ntoolchain go1.24.4", None, None, "go1.25.3", "go line"),
        ("go 1.99", None, None, "go1.99.0", "go line"),
        ("go 1.99rc1", None, None, "go1.99rc1", "go line"),
        ("go 1.99.0\ntoolchain go1.99rc1", None, None, "go1.99.0", "go line"),
        ("", None, None, GO_VERSION, "ours"),
    ],
)
def test_the_source_decides_unless_the_user_does(
    go_mod: str, recipe: str | None, asked: str | None, version: str, because: str
) -> None:
    chosen = choose(go_mod, lambda: ("a/DockerfileBuilder", recipe) if recipe else None, asked)

    assert chosen.version == version
    assert because in chosen.because


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.24.4", "go1.24.4"),
        ("go1.24.4", "go1.24.4"),
        ("1.26", "go1.26.0"),
        ("go1.27rc1", "go1.27rc1"),
    ],
)
def test_a_version_is_named_with_go_or_without(text: str, version: str) -> None:
    assert goversion.named(text) == version


@pytest.mark.parametrize("text", ["", "latest", "1.23.9", "go1", "1.24.4-x", "../go", "1.24.4 "])
def test_what_is_no_version_that_builds_for_wasip1_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"1\.24 or newer"):
        goversion.named(text)
