"""``python -m wasm build|unit``: the wasm room from the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn

import msgspec

from wasm import terminal, unit
from wasm.build import build
from wasm.errors import BuildError, ProofError
from wasm.options import SOURCE_OPTIONS
from wasm.records import Variant
from wasm.source import Request


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ProofError(f"{message}; `{self.prog} --help` lists what there is")


def main(argv: list[str]) -> None:
    """Run one command of the wasm room."""
    parser = _Parser(prog="python -m wasm", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command, says in (
        ("build", _build, "build one variant's module"),
        ("unit", _unit, "run go vet and go test on one variant"),
    ):
        one = commands.add_parser(name, help=f"{says} and write the record", allow_abbrev=False)
        one.add_argument("--variant", required=True, choices=[str(each) for each in Variant])
        one.add_argument("--output", required=True, type=Path, help="file for the record")
        one.set_defaults(command=command)
        for flag, settings in SOURCE_OPTIONS.items():
            one.add_argument(flag, **settings)
    arguments = parser.parse_args(argv)
    arguments.command(arguments)


def _build(arguments: argparse.Namespace) -> None:
    module = build(Variant(arguments.variant), Request.of_options(arguments))
    _write(arguments.output, module)
    print("\n".join(module.summary))


def _unit(arguments: argparse.Namespace) -> None:
    found = unit.run(
        Variant(arguments.variant),
        Request.of_options(arguments),
        lambda line: print(line, flush=True),
    )
    _write(arguments.output, found)
    unit.refuse_failures(found)


def _write(path: Path, record: object) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
    except OSError as error:
        raise BuildError(
            f"the record cannot be written to --output {path} ({error.strerror}); expected a file "
            "in a folder that can be written; name another"
        ) from error


if __name__ == "__main__":
    terminal.finish(lambda: main(sys.argv[1:]))
