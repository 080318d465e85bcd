"""The options after ``--``: what is taken, refused in a sentence, and handed on to a step."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from containers.options import TESTBED_OPTIONS
from sessions import options
from sessions.evidence.options import EVIDENCE_OPTIONS
from sessions.matrix.options import MATRIX_OPTIONS
from sessions.options import (
    EVERYTHING_ELSE,
    PROJECT,
    UNIT_SESSION_OPTIONS,
    UsageError,
    forwarded,
    parse,
)
from wasm.options import SOURCE_OPTIONS, UNIT_OPTIONS

if TYPE_CHECKING:
    from pathlib import Path

STEP_OPTIONS = {**SOURCE_OPTIONS, **TESTBED_OPTIONS, **MATRIX_OPTIONS, **UNIT_OPTIONS}
FLAGS = [flag for flag, how in STEP_OPTIONS.items() if how.get("action") == "store_true"]
MEANS_A_PATH = {"DIR", "FILE", "PATH", "KEY", "WHERE"}
ALL = {**STEP_OPTIONS, **UNIT_SESSION_OPTIONS, **EVIDENCE_OPTIONS, **EVERYTHING_ELSE}


def refusal(*posargs: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse("unit", posargs)
    return str(caught.value)


def nox(*argv: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """A real nox on our own noxfile; quick, since it ends before anything is installed."""
    return subprocess.run(
        [sys.executable, "-m", "nox", "--no-venv", *argv],
        cwd=PROJECT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )


def test_without_options_everything_has_its_default() -> None:
    arguments = parse("unit", [])
    assert arguments.source == "reference"
    assert arguments.engine == arguments.gateway == "auto"
    assert arguments.case == "*"
    assert arguments.repeat == 3
    assert arguments.evidence == PROJECT / "evidence"
    assert arguments.cases is arguments.plugin is arguments.fixed_ref is None
    assert arguments.keep is arguments.debug is arguments.plain is False
    assert arguments.variant == "fixed"


def test_help_lists_every_option_and_is_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse("runtime-fixed", ["--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: nox -s runtime-fixed -- ")
    described = {line.split()[0] for line in shown.splitlines() if line.startswith("  --")}
    assert described == set(ALL)
    assert len(ALL) == 21


HELP = "; `nox -s unit -- --help` lists the options"


@pytest.mark.parametrize(
    ("posargs", "sentence"),
    [
        (["--nope"], "unrecognized arguments: --nope"),
        (["--nope=1", "--repeat=2"], "unrecognized arguments: --nope=1"),
        (["--repe=2"], "unrecognized arguments: --repe=2"),
        (["--deb"], "unrecognized arguments: --deb"),
        (["--fixed-re", "main"], "unrecognized arguments: --fixed-re main"),
        (["reference"], "unrecognized arguments: reference"),
        (["a b", ""], "unrecognized arguments: 'a b' ''"),
        (["--repeat"], "argument --repeat: expected one argument"),
        (["--case=a*", "--case", "b*"], "argument --case: found 2 of them, expected one"),
        (["--variant=both"] * 3, "argument --variant: found 3 of them, expected one"),
        (["--evidence=x", "--evidence=x"], "argument --evidence: found 2 of them, expected one"),
        (["--debug=yes"], "argument --debug: ignored explicit argument 'yes'"),
        (
            ["--engine=podman"],
            "argument --engine: invalid choice: 'podman' (choose from 'auto', 'docker', 'process')",
        ),
        (
            ["--gateway", "nginx"],
            "argument --gateway: invalid choice: 'nginx' (choose from 'auto', 'higress', 'envoy')",
        ),
        (["--evidence="], "argument --evidence: found '', expected a path"),
        (
            ["--evidence=~nobody-of-this-name/x"],
            (
                "argument --evidence: found '~nobody-of-this-name/x', expected "
                "~nobody-of-this-name to be a user's home on this machine; a file of that name is "
                "./~nobody-of-this-name/x"
            ),
        ),
        (
            [f"--cases={'a' * 300}"],
            (
                f"argument --cases: found '{'a' * 300}', which cannot be followed (File name too "
                "long); expected a path that can"
            ),
        ),
        *(
            (
                [f"--repeat={bad}"],
                f"argument --repeat: found {bad!r}, expected a whole number from 1 to 10000",
            )
            for bad in ("0", "-1", "1.5", "three", "", "1_000", "\u0663", "10001", "9" * 5000)
        ),
    ],
)
def test_what_cannot_be_understood_is_one_sentence_that_names_it(
    posargs: list[str], sentence: str
) -> None:
    assert refusal(*posargs) == sentence + HELP


def test_a_relative_evidence_folder_is_made_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse("unit", ["--evidence", "a b"]).evidence == tmp_path.resolve() / "a b"
    assert parse("unit", ["--evidence", "~/ev"]).evidence == tmp_path.resolve() / "ev"


PATHS = {
    "--source",
    "--fixed-patch",
    "--envoy",
    "--cases",
    "--sign",
    "--allowed-signers",
    "--evidence",
}


def test_every_path_is_seen_from_the_folder_that_it_was_given_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    assert {flag for flag, settings in ALL.items() if settings.get("metavar") in MEANS_A_PATH} == (
        PATHS | {"--plugin"}  # as seen from the repository's root
    )
    arguments = parse("verify", [*(f"{flag}=./x" for flag in PATHS), "a.zip"], there)
    for flag in PATHS:
        assert str(getattr(arguments, options._name(flag))) == str(there / "x")
    assert arguments.path == there / "a.zip"
    argv = forwarded(arguments, STEP_OPTIONS)
    assert set(argv) == {f"{flag}={there / 'x'}" for flag in PATHS & {*STEP_OPTIONS}}
    assert forwarded(parse("unit", argv, here), STEP_OPTIONS) == argv


def test_what_is_left_at_its_default_is_not_handed_on() -> None:
    assert forwarded(parse("unit", []), STEP_OPTIONS) == []
    same = ["--source=reference", "--engine=auto", "--case=*", "--repeat=3"]
    assert forwarded(parse("unit", same), STEP_OPTIONS) == []


def test_values_are_handed_on_unharmed_each_as_one_argument() -> None:
    given = {
        "--source": "/a path/with 'quotes'",
        "--plugin": "plugins/x y",
        "--baseline-ref": "-dashed",
        "--fixed-ref": "v1^{commit}",
        "--fixed-patch": "/my patch.diff",
        "--go": "go1.24.4",
        "--engine": "process",
        "--gateway": "envoy",
        "--gateway-image": "registry.example/a:b@sha256:1",
        "--envoy": "/opt/my envoy",
        "--cases": "/my cases",
        "--case": "kling-[it]*",
        "--repeat": "5",
    }
    assert {*FLAGS} == {"--keep", "--plain", "--fixed-worktree"}
    assert {*given, *FLAGS} == set(STEP_OPTIONS)
    argv = [f"{flag}={value}" for flag, value in given.items()]
    assert forwarded(parse("unit", [*FLAGS]), STEP_OPTIONS) == FLAGS
    assert forwarded(parse("unit", argv), STEP_OPTIONS) == argv
    again = forwarded(parse("unit", forwarded(parse("unit", argv), STEP_OPTIONS)), STEP_OPTIONS)
    assert again == argv


def test_only_a_step_s_own_options_are_handed_on() -> None:
    arguments = parse("unit", ["--source=/x", "--repeat=9", "--debug", "--keep", "--evidence=e"])
    assert forwarded(arguments, SOURCE_OPTIONS) == ["--source=/x"]
    assert forwarded(arguments, MATRIX_OPTIONS) == ["--repeat=9"]
    assert options._FORWARDED.keys() == STEP_OPTIONS.keys()


def test_nox_refuses_a_bad_option_with_the_sentence_last_and_arguments_as_given() -> None:
    """T5: posargs ``"a b" ""`` arrive as two."""
    done = nox("-s", "report", "--", "a b", "")
    assert done.returncode == 1
    assert done.stdout == ""
    # On a busy machine nox adds how long it took.
    assert re.sub(r" \(took [^)]*\)\.$", ".", done.stderr.splitlines()[-1]) == (
        "nox > Session report aborted: unrecognized arguments: 'a b' ''; `nox -s report -- --help` "
        "lists the options."
    )
    assert "Traceback" not in done.stderr


def test_nox_does_not_take_a_misspelt_session_for_another() -> None:
    """T5: an underscore for a dash."""
    done = nox("-s", "runtime_baseline")
    assert done.returncode == 3
    assert done.stdout == ""
    assert "Running session" not in done.stderr
    assert done.stderr.splitlines()[-1] == "nox > Sessions not found: runtime_baseline"


def test_help_that_nobody_reads_is_a_success() -> None:
    """As in ``nox ... | true``; Python itself would fail when it flushes at its end."""
    reads, writes = os.pipe()
    os.close(reads)
    done = nox("-s", "report", "--", "--help", stdout=writes)
    os.close(writes)
    assert (done.returncode, done.stderr) == (0, "nox > Running session report\n")


def test_nox_lists_the_options_of_a_session() -> None:
    done = nox("-s", "report", "--", "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: nox -s report -- ")
    assert all(flag in done.stdout for flag in ALL)


def test_verify_takes_a_path_and_no_other_session_does() -> None:
    assert parse("verify", []).path is None
    assert str(parse("verify", ["/a b.zip"]).path) == "/a b.zip"
    with pytest.raises(UsageError, match=r"unrecognized arguments: b.zip;"):
        parse("verify", ["a.zip", "b.zip"])
    with pytest.raises(UsageError, match=r"unrecognized arguments: a.zip;"):
        parse("report", ["a.zip"])


@pytest.mark.parametrize("option", ["--sign", "--allowed-signers"])
def test_a_key_and_a_file_of_signers_are_none_unless_named(option: str) -> None:
    name = option.lstrip("-").replace("-", "_")
    assert getattr(parse("report", []), name) is None
    assert str(getattr(parse("report", [f"{option}=~/x"]), name)).endswith("/x")
    assert "~" not in str(getattr(parse("report", [f"{option}=~/x"]), name))
    with pytest.raises(UsageError, match="found '', expected a path"):
        parse("report", [f"{option}="])


@pytest.mark.parametrize("flag", [f for f in STEP_OPTIONS if f not in {*FLAGS}])
def test_an_empty_value_never_means_the_default(flag: str) -> None:
    sentence = refusal(f"{flag}=")
    assert sentence.startswith(f"argument {flag}: ")
    assert "found ''" in sentence or "invalid choice: ''" in sentence
