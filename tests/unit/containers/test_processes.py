"""Processes of a testbed: how they start, what is said of their end, and that none is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from containers.process import processes
from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Callable

    from containers.records import ProcessSeen

PROJECT = Path(__file__).resolve().parents[3]


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def until(holds: Callable[[], bool], within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


# --- Starting -----------------------------------------------------------------------------------


def test_what_it_writes_is_in_its_log_whole_and_in_order(tmp_path: Path) -> None:
    code = """
        import sys
        for n in range(20_000):
            print("out", n, flush=True)
            print("err", n, file=sys.stderr)
    """
    log = tmp_path / "logs" / "gateway.log"
    with processes.running("gateway", python(code), log, 5, []) as child:
        until(lambda: child.end is not None, 60)
    lines = log.read_text().splitlines()
    assert lines == [f"{stream} {n}" for n in range(20_000) for stream in ("out", "err")]


def test_it_leads_a_group_of_its_own_which_a_ctrl_c_does_not_reach(tmp_path: Path) -> None:
    with processes.running("gateway", ["sleep", "60"], tmp_path / "log", 5, []) as child:
        assert os.getpgid(child.pid) == child.pid != os.getpgid(0)


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (None, 0, "No such file or directory"),
        (b"\x7fELF\x02\x01\x01 of another machine", 0o755, "Exec format error"),
        (b"#!/bin/sh\n", 0o644, "Permission denied"),
        (b"#!/no/such/interpreter\n", 0o755, "No such file or directory"),
    ],
)
def test_what_cannot_be_started_is_named_with_the_reason(
    tmp_path: Path, content: bytes | None, mode: int, said: str
) -> None:
    program = tmp_path / "program"
    if content is not None:
        program.write_bytes(content)
        program.chmod(mode)
    seen: list[ProcessSeen] = []
    with (
        pytest.raises(GatewayError) as caught,
        processes.running("gateway", [str(program)], tmp_path / "log", 5, seen),
    ):
        pytest.fail("it runs")
    assert caught.value.sentence == (
        f"the gateway could not be started: {program}: {said}; expected a program for this "
        "machine; see `nox -s runtime-baseline -- --help`"
    )
    assert seen == []


# --- What it announces --------------------------------------------------------------------------


def announced(tmp_path: Path, code: str, within_s: float = 10) -> dict[str, str]:
    with processes.running(
        "upstream", python(code), tmp_path / "log", 5, [], announces=True
    ) as child:
        return child.announcement(within_s)


def test_the_first_line_is_read_though_it_comes_in_parts(tmp_path: Path) -> None:
    code = """
        import sys, time
        for part in ('{"model": ', '"127.0.0.1:1"}', '\\n'):
            sys.stdout.write(part); sys.stdout.flush(); time.sleep(0.1)
        time.sleep(60)
    """
    assert announced(tmp_path, code) == {"model": "127.0.0.1:1"}


def test_an_end_without_a_line_is_told_in_the_programs_own_words(tmp_path: Path) -> None:
    with pytest.raises(GatewayError) as caught:
        announced(tmp_path, "import sys; sys.exit('upstream: the port is taken; choose another')")
    assert caught.value.sentence == (
        "the upstream did not start: upstream: the port is taken; choose another"
    )


@pytest.mark.parametrize("line", ["hello", "[1]", "{"])
def test_a_line_that_is_no_json_object_is_shown(tmp_path: Path, line: str) -> None:
    with pytest.raises(GatewayError) as caught:
        announced(tmp_path, f"print('{line}')")
    assert caught.value.sentence == f"the upstream did not start: its first line is '{line}\\n'"


def test_silence_is_waited_for_no_longer_than_the_limit(tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(GatewayError) as caught:
        announced(tmp_path, "import time; print('{', end='', flush=True); time.sleep(60)", 0.5)
    assert time.monotonic() - start < 8
    assert caught.value.sentence.startswith(
        "the upstream did not say where it listens within 0.5 s; expected a line of JSON from it"
    )


# --- Ending -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; sys.exit(3)", "exited with status 3"),
        ("pass", "exited with status 0"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by SIGKILL"),
        ("import os; os.abort()", "was ended by SIGABRT"),
        ("import os; os.kill(os.getpid(), 40)", "was ended by signal 40"),
    ],
)
def test_how_it_ended_is_said_in_words_before_and_after_it_is_stopped(
    tmp_path: Path, code: str, said: str
) -> None:
    seen: list[ProcessSeen] = []
    with processes.running("gateway", python(code), tmp_path / "log", 5, seen) as child:
        until(lambda: child.end is not None)
        assert child.end == said
    assert child.end == said
    (end,) = seen
    assert (end.name, end.pid, end.ended) == ("gateway", child.pid, True)


def test_its_id_stays_its_own_until_it_is_stopped(tmp_path: Path) -> None:
    with processes.running("gateway", ["true"], tmp_path / "log", 5, []) as child:
        until(lambda: child.end is not None)
        assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
    assert not psutil.pid_exists(child.pid)


def test_sigterm_is_enough_for_one_that_listens_to_it(tmp_path: Path) -> None:
    code = """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("last words"))
        print("ready", flush=True)
        time.sleep(60)
    """
    seen: list[ProcessSeen] = []
    start = time.monotonic()
    log = tmp_path / "log"
    with processes.running("gateway", python(code), log, 30, seen):
        until(lambda: "ready" in log.read_text())
    assert time.monotonic() - start < 10
    assert seen[0].exit_status == 1
    assert seen[0].ended
    assert log.read_text().endswith("last words\n")


def test_one_that_ignores_sigterm_is_killed_when_patience_is_over(tmp_path: Path) -> None:
    code = """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("ready", flush=True)
        time.sleep(60)
    """
    seen: list[ProcessSeen] = []
    log = tmp_path / "log"
    with processes.running("gateway", python(code), log, 0.5, seen) as child:
        until(lambda: "ready" in log.read_text())
        start = time.monotonic()
    assert 0.5 <= time.monotonic() - start < 5
    assert seen[0].exit_status == -signal.SIGKILL
    assert seen[0].ended
    assert gone(child.pid)


def test_a_stopped_one_is_killed_too(tmp_path: Path) -> None:
    seen: list[ProcessSeen] = []
    with processes.running("gateway", ["sleep", "60"], tmp_path / "log", 0.3, seen) as child:
        os.kill(child.pid, signal.SIGSTOP)
    # Which of the two reaches a process that is stopped depends on the kernel.
    assert seen[0].exit_status in {-signal.SIGKILL, -signal.SIGTERM}
    assert seen[0].ended


@pytest.mark.parametrize("leader_ends_first", [True, False])
def test_what_it_has_started_ends_with_it(tmp_path: Path, *, leader_ends_first: bool) -> None:
    code = f"""
        import subprocess, sys, time
        stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
        print(subprocess.Popen([sys.executable, "-c", stubborn]).pid, flush=True)
        time.sleep({0 if leader_ends_first else 60})
    """
    seen: list[ProcessSeen] = []
    log = tmp_path / "log"
    with processes.running("gateway", python(code), log, 5, seen) as child:
        until(lambda: log.read_text().endswith("\n"))
        grandchild = int(log.read_text())
        until(lambda: not leader_ends_first or child.end is not None)
        assert not gone(grandchild)
    assert gone(grandchild)
    assert seen[0].ended


def test_an_error_inside_ends_it_and_is_what_is_reported(tmp_path: Path) -> None:
    seen: list[ProcessSeen] = []
    with (
        pytest.raises(ZeroDivisionError),
        processes.running("gateway", ["sleep", "60"], tmp_path / "log", 5, seen) as child,
    ):
        raise ZeroDivisionError
    assert seen[0].exit_status == -signal.SIGTERM
    assert gone(child.pid)


def test_it_is_killed_by_the_kernel_when_its_parent_is(tmp_path: Path) -> None:
    code = f"""
        import sys, time
        from pathlib import Path
        sys.path.insert(0, {str(PROJECT)!r})
        from containers import interrupts
        from containers.process import processes
        stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True)"
        argv = [sys.executable, "-c", stubborn + "; time.sleep(60)"]
        with processes.running("gateway", argv, Path({str(tmp_path)!r}, "log"), 5, []) as child:
            print(child.pid, flush=True)
            time.sleep(60)
    """
    with subprocess.Popen(python(code), stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        until(lambda: "on" in (tmp_path / "log").read_text())
        assert not gone(pid)
        parent.kill()
    until(lambda: gone(pid), 3)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_t4_an_interrupt_during_clean_up_waits_until_it_is_done(
    tmp_path: Path, number: signal.Signals
) -> None:
    code = f"""
        import os, sys, time
        from pathlib import Path
        sys.path.insert(0, {str(PROJECT)!r})
        from containers import interrupts
        from containers.process import processes
        from wasm.foundation import terminal

        def run():
            with interrupts.ClosedInPeace() as stack:
                stack.callback(lambda: print("all closed", flush=True))
                argv = [sys.executable, "-c", "import signal, time; signal.signal(15, lambda *_: "
                        "(time.sleep(1), exit(7))); print('on', flush=True); time.sleep(60)"]
                log = Path({str(tmp_path)!r}, "log")
                stack.enter_context(processes.running("gateway", argv, log, 20, seen))
                while log.read_text() != "on\\n":
                    time.sleep(0.01)
                stack.callback(lambda: os.kill(os.getpid(), {number.value}))
            print("not interrupted", flush=True)

        seen = []
        terminal.interrupts_clean_up()
        try:
            run()
        except KeyboardInterrupt:
            print("interrupted", seen[0].exit_status, seen[0].ended, flush=True)
    """
    done = subprocess.run(python(code), capture_output=True, text=True, timeout=30, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["all closed", "interrupted 7 True"]
