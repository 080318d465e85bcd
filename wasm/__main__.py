"""``python -m wasm build|unit``: the wasm room from the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from wasm import terminal, unit
from wasm.build import build
from wasm.options import SOURCE_OPTIONS
from wasm.records import Variant
from wasm.source import Request


def main(argv: list[str]) -> None:
    """Run one command of the wasm room."""
    parser = argparse.ArgumentParser(prog="python -m wasm", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for name, command, says in (
        ("build", _build, "build one variant's module"),
        ("unit", _unit, "run go vet and go test on one variant"),
    ):
        one = commands.add_parser(name, help=f"{says} and write the record")
        one.add_argument("--variant", required=True, choices=list(Variant), type=Variant)
        one.add_argument("--output", required=True, type=Path, help="file for the record")
        one.set_defaults(command=command)
        for flag, settings in SOURCE_OPTIONS.items():
            one.add_argument(flag, **settings)
    arguments = parser.parse_args(argv)
    arguments.command(arguments)


def _build(arguments: argparse.Namespace) -> None:
    module = build(arguments.variant, Request.of_options(arguments))
    _write(arguments.output, module)
    print("\n".join(module.summary))


def _unit(arguments: argparse.Namespace) -> None:
    found = unit.run(
        arguments.variant, Request.of_options(arguments), lambda line: print(line, flush=True)
    )
    _write(arguments.output, found)
    unit.refuse_failures(found)


def _write(path: Path, record: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


if __name__ == "__main__":
    terminal.finish(lambda: main(sys.argv[1:]))
