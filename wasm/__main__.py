"""``python -m wasm build|unit|patch|mutants``: the wasm room from the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn

import msgspec

from wasm.fix_4396 import mutants, patch
from wasm.foundation import terminal
from wasm.foundation.errors import BuildError, ProofError
from wasm.gotest import unit
from wasm.module.build import build
from wasm.options import SOURCE_OPTIONS, UNIT_OPTIONS
from wasm.records import Variant
from wasm.source.variant_tree import Request


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ProofError(f"{message}; `{self.prog} --help` lists what there is")


def main(argv: list[str]) -> None:
    """Run one command of the wasm room."""
    parser = _Parser(prog="python -m wasm", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command, options, says in (
        ("build", _build, {}, "build one variant's module"),
        ("unit", _unit, UNIT_OPTIONS, "run go vet and go test on one variant"),
    ):
        one = commands.add_parser(name, help=f"{says} and write the record", allow_abbrev=False)
        one.add_argument("--variant", required=True, choices=[str(each) for each in Variant])
        one.add_argument("--output", required=True, type=Path, help="file for the record")
        one.set_defaults(command=command)
        for flag, settings in {**SOURCE_OPTIONS, **options}.items():
            one.add_argument(flag, **settings)
    for name, command, takes, says in (
        (
            "patch",
            _patch,
            "file for the patch; its record goes beside it",
            "write the fix as a patch",
        ),
        ("mutants", _mutants, "folder for mutants.json and patches", "test wrong fixes"),
    ):
        one = commands.add_parser(name, help=says, allow_abbrev=False)
        one.add_argument("--output", required=True, type=Path, help=takes)
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
    written: list[str] = []
    found = unit.run(
        Variant(arguments.variant),
        Request.of_options(arguments),
        lambda line: print(line, flush=True),
        written.append,
        plain=arguments.plain,
    )
    log = arguments.output.with_suffix(".log")
    _write_bytes(log, "".join(written).encode("utf-8", "replace"))
    _write(arguments.output, found)
    unit.refuse_failures(found, log.name)


def _patch(arguments: argparse.Namespace) -> None:
    content, record = patch.make(
        Request.of_options(arguments), lambda line: print(line, flush=True)
    )
    _write_bytes(arguments.output, content)
    _write(arguments.output.with_suffix(".json"), record)
    print(f"patch {arguments.output}\n      SHA-256 {record.sha256}")


def _mutants(arguments: argparse.Namespace) -> None:
    found, patches = mutants.run(
        Request.of_options(arguments), lambda line: print(line, flush=True)
    )
    for name, content in patches.items():
        _write_bytes(arguments.output / name, content)
    _write(arguments.output / "mutants.json", found)


def _write(path: Path, record: object) -> None:
    _write_bytes(path, msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


def _write_bytes(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise BuildError(
            f"the record cannot be written to --output {path} ({error.strerror}); expected a file "
            "in a folder that can be written; name another"
        ) from error


if __name__ == "__main__":
    terminal.finish(lambda: main(sys.argv[1:]))
