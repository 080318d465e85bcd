"""``python -m wasm``: its commands, and what it says of options that it does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wasm.options import SOURCE_OPTIONS

if TYPE_CHECKING:
    from tests.unit.wasm.conftest import RunWasm


@pytest.mark.parametrize("command", ["build", "unit"])
def test_help_names_every_option_of_a_command(run_wasm: RunWasm, command: str) -> None:
    ended = run_wasm(command, "--help")

    assert (ended.status, ended.stderr) == (0, "")
    for option in [*SOURCE_OPTIONS, "--variant", "--output"]:
        assert f"{option} " in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "told", "command"),
    [
        ([], "the following arguments are required: COMMAND", ""),
        (["nope"], "argument COMMAND: invalid choice: 'nope' (choose from ", ""),
        (["build"], "the following arguments are required: --variant, --output", " build"),
        (
            ["build", "--variant=other", "--output=x"],
            "argument --variant: invalid choice: 'other' (choose from ",
            " build",
        ),
        # Half an option's name is no option: --fixed could be either of two.
        (
            ["build", "--variant=fixed", "--output=x", "--fixed=x", "--base=y"],
            "unrecognized arguments: --fixed=x --base=y",
            "",
        ),
    ],
)
def test_options_that_cannot_be_understood_are_one_sentence_with_status_2(
    run_wasm: RunWasm, arguments: list[str], told: str, command: str
) -> None:
    ended = run_wasm(*arguments)

    assert (ended.status, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"error: {told}")
    assert ended.stderr.endswith(f"; `python -m wasm{command} --help` lists what there is\n")
    assert ended.stderr.count("\n") == 1
