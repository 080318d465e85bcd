"""``python -m wasm build``: the wasm room from the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from wasm import terminal
from wasm.build import build
from wasm.options import SOURCE_OPTIONS
from wasm.records import Variant
from wasm.source import Request


def main(argv: list[str]) -> None:
    """Run one command of the wasm room."""
    parser = argparse.ArgumentParser(prog="python -m wasm", description=__doc__)
    commands = parser.add_subparsers(required=True)
    build_parser = commands.add_parser("build", help="build one variant and write its record")
    build_parser.add_argument("--variant", required=True, choices=list(Variant), type=Variant)
    build_parser.add_argument("--output", required=True, type=Path, help="file for the record")
    build_parser.set_defaults(command=_build)
    for flag, settings in SOURCE_OPTIONS.items():
        build_parser.add_argument(flag, **settings)
    arguments = parser.parse_args(argv)
    arguments.command(arguments)


def request_of(arguments: argparse.Namespace) -> Request:
    """Return what the source options ask for."""
    patch = arguments.fixed_patch
    return Request(
        source=arguments.source,
        plugin=arguments.plugin,
        baseline_ref=arguments.baseline_ref,
        fixed_ref=arguments.fixed_ref,
        fixed_patch=Path(patch).expanduser() if patch else None,
    )


def _build(arguments: argparse.Namespace) -> None:
    module = build(arguments.variant, request_of(arguments))
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_bytes(msgspec.json.format(msgspec.json.encode(module), indent=2))
    source = module.source
    dirty = " with uncommitted changes" if source.dirty else ""
    fix = f", fix {source.fix.origin}" if source.fix else ""
    print(
        f"{module.variant}: {source.plugin} of {source.repository} at {source.commit[:12]}{dirty}{fix}\n"
        f"{module.variant}: module {module.sha256} ({module.size_bytes / 1e6:.1f} MB)"
    )


if __name__ == "__main__":
    terminal.finish(lambda: main(sys.argv[1:]))
