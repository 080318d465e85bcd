"""Sessions that are cut short: nothing is left, the status says so, and no record claims more."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from containers import envoy
from tests.integration.running import gone, refuses, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.integration.running import Session

    Start = Callable[..., Session]

pytestmark = pytest.mark.timeout(120)

ONE = ("--case=openai-chat", "--repeat=1")
MANY = ("--case=openai-chat", "--repeat=400")
INTERRUPTED = "interrupted before the matrix was done; expected it to run to its end; run it again"


def interrupted(session: Session, number: signal.Signals) -> None:
    """Send a signal: gateway and upstream are gone in time, and the session says why it ended."""
    children = [session.child("upstream"), *session.gateways()]
    session.process.send_signal(number)
    until(lambda: all(gone(child) for child in children), 3)
    assert session.wait() != 0
    assert session.last_words == f"error: {INTERRUPTED}"
    run, results = session.read()
    assert run.failure == INTERRUPTED
    assert run.counts.cells == len(results)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_t4_an_interrupt_before_the_gateway_is_ready_leaves_nothing(
    start: Start, modules: object, tmp_path: Path, number: signal.Signals
) -> None:
    assert modules
    session = start("fixed", tmp_path, *ONE)
    session.child("envoy")
    interrupted(session, number)
    assert session.read()[0].testbed is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_t4_an_interrupt_between_cells_leaves_nothing(
    start: Start, modules: object, tmp_path: Path, number: signal.Signals
) -> None:
    assert modules
    session = start("fixed", tmp_path, *MANY)
    session.runs_cells()
    interrupted(session, number)
    cleanup = json.loads((tmp_path / "cleanup.json").read_bytes())
    assert len(cleanup["processes"]) == 2
    assert all(each["ended"] for each in cleanup["processes"])
    assert all(refuses(name.split()[-1]) for name in cleanup["refused"])


@pytest.fixture
def slow_to_end(tmp_path: Path) -> str:
    """An Envoy that takes a second to end once it is asked to."""
    program = tmp_path / "slow" / "envoy"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\n{envoy.program(None)} "$@" & pid=$!\n'
        "trap 'sleep 1; kill $pid; wait $pid; exit 0' TERM\nwait $pid\n"
    )
    program.chmod(0o755)
    return str(program)


def test_t4_an_interrupt_while_the_testbed_is_closed_waits_until_it_is(
    start: Start, modules: object, tmp_path: Path, slow_to_end: str
) -> None:
    assert modules
    session = start("fixed", tmp_path / "run", *ONE, f"--envoy={slow_to_end}")
    stats = tmp_path / "run" / "logs" / "clusters.txt"
    until(lambda: stats.exists() or session.process.poll() is not None)
    interrupted(session, signal.SIGINT)
    cleanup = json.loads((tmp_path / "run" / "cleanup.json").read_bytes())
    assert [each["exit_status"] for each in cleanup["processes"]] == [0, 0]
    assert all(cleanup["refused"].values())
    assert len((tmp_path / "run" / "logs" / "access.log").read_text().splitlines()) == 2


@pytest.mark.parametrize("moment", ["before LIVE", "between cells"])
def test_a_session_that_is_killed_leaves_no_process_and_no_record(
    start: Start, modules: object, tmp_path: Path, moment: str
) -> None:
    assert modules
    session = start("fixed", tmp_path, *MANY)
    children = [session.child("upstream"), session.child("envoy")]
    if moment == "between cells":
        session.runs_cells()
    session.process.kill()
    until(lambda: all(gone(child) for child in children), 3)
    assert session.wait() == -signal.SIGKILL
    assert not (tmp_path / "run.json").exists()
    assert not (tmp_path / "SHA256SUMS").exists()


# --- What cannot be written, and what is left ---------------------------------------------------


def no_space(folder: Path) -> str:
    return (
        f"error: no space left on the disk of {folder}; expected room for a run's evidence, about "
        "1 MB; free some, or name a folder on another disk with --evidence"
    )


def test_no_room_before_the_gateway_starts_is_what_the_record_says(
    start: Start, modules: object, tmp_path: Path
) -> None:
    assert modules
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "envoy.json").symlink_to("/dev/full")
    session = start("fixed", tmp_path, *ONE)
    assert session.wait() != 0
    assert session.last_words == no_space(tmp_path)
    run, results = session.read()
    assert no_space(tmp_path) == f"error: {run.failure}"
    assert results == ()


@pytest.mark.parametrize("name", ["cells.jsonl", "junit.xml", "SHA256SUMS"])
def test_a_file_that_finds_no_room_fails_the_session_in_a_sentence(
    start: Start, modules: object, tmp_path: Path, name: str
) -> None:
    assert modules
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / name).symlink_to("/dev/full")
    session = start("fixed", folder, *ONE)
    assert session.wait() != 0
    assert session.last_words == no_space(folder)
    assert "Traceback" not in session.stderr
    assert not (folder / "run.json").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 32 kB; only root can have one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", folder],
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"{os.strerror(errno.EPERM)}: a disk of its own needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_fails_the_session_in_a_sentence(
    start: Start, modules: object, small_disk: Path
) -> None:
    assert modules
    session = start("baseline", small_disk / "run")
    assert session.wait() != 0
    assert session.last_words == no_space(small_disk / "run")
    assert not (small_disk / "run" / "run.json").exists()


def test_a_folder_that_cannot_be_written_fails_the_session_in_a_sentence(
    start: Start, modules: object, tmp_path: Path
) -> None:
    assert modules
    (tmp_path / "config").write_text("a file where a folder is to be")
    session = start("fixed", tmp_path, *ONE)
    assert session.wait() != 0
    assert session.last_words == (
        f"error: cannot write below {tmp_path} (File exists); expected a folder for evidence; name "
        "one that can be written with --evidence"
    )


def test_what_is_left_after_closing_fails_the_session_though_every_cell_held(
    start: Start, modules: object, tmp_path: Path
) -> None:
    assert modules
    (tmp_path / "still_open.py").write_text(
        "from containers import admin\nadmin.refuses = lambda address: False\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    folder = tmp_path / "run"
    session = start("fixed", folder, *ONE, "-p", "still_open", env={"PYTHONPATH": path})
    assert session.wait() != 0
    run, results = session.read()
    assert len(results) == 2
    assert all(result.as_declared for result in results)
    assert session.last_words == f"error: {run.failure}"
    assert run.failure.startswith(
        "the testbed was closed and is not gone: port of gateway openai-chat 127.0.0.1:"
    )
    assert run.failure.endswith("end these by hand, then run it again")
    assert set(json.loads((folder / "cleanup.json").read_bytes())["refused"].values()) == {False}
