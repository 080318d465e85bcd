"""Steps in a real nox: how one ends, and that its clean-up is never cut short."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from sessions import steps

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

PROJECT = Path(__file__).parents[3]
PATIENCE_S = 30.0
CLEAN_UP_S = 5.0

NOXFILE = f"""\
import sys

sys.path.insert(0, {str(PROJECT)!r})

import nox

from sessions import steps
from wasm.foundation.errors import EvidenceError


@nox.session(venv_backend="none")
def one(session):
    session.env["UNSET_BY_THE_SESSION"] = None
    session.env["SET_BY_THE_SESSION"] = "a b"
    with steps.ending_in_a_sentence(session):
        steps.run(session, "step.py", *session.posargs)


@nox.session(venv_backend="none")
def refuses(session):
    with steps.ending_in_a_sentence(session):
        raise EvidenceError("the folder is full; expected room; make some")


@nox.session(venv_backend="none")
def misses_a_file(session):
    with steps.ending_in_a_sentence(session):
        open("gone")


@nox.session(venv_backend="none")
def waits_for_ctrl_c(session):
    with steps.ending_in_a_sentence(session):
        steps.run(session, "step.py", until_ctrl_c=True)
    session.log("went on")


@nox.session(venv_backend="none")
def attempts(session):
    steps.attempt(session, "step.py")
    session.log("went on")
"""

# Cleans up for five seconds after the first interrupt, as a gateway's testbed may. The clean-up
# does not protect itself: a second signal that got through would cut it short.
CLEANS_UP = f"""\
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def interrupt(number, frame):
    Path("signals").open("a").write(signal.Signals(number).name + "\\n")
    raise KeyboardInterrupt


for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, interrupt)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
Path("pids").write_text(f"{{os.getpid()}} {{child.pid}}")
Path("started").touch()
try:
    time.sleep(600)
finally:
    Path("cleaning").touch()
    end = time.monotonic() + {CLEAN_UP_S}
    while time.monotonic() < end:
        time.sleep(0.05)
    child.terminate()
    child.wait()
    Path("cleaned").touch()
"""


class Nox:
    """A nox of its own, in a process group of its own, on a noxfile with one step."""

    def __init__(
        self,
        folder: Path,
        session: str,
        *posargs: str,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        ignores: Collection[signal.Signals] = (),
    ) -> None:
        self.folder = folder

        def as_a_terminal_starts_it() -> None:
            # Not as we were: a shell without job control starts `pytest &` with SIGINT ignored.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN if number in ignores else signal.SIG_DFL)

        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}
        environment["UNSET_BY_THE_SESSION"] = "still here"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nox", "-s", session, *(["--", *posargs] if posargs else [])],
            cwd=folder,
            env=environment,
            stdout=stdout,
            stderr=stderr,
            text=True,
            process_group=0,
            preexec_fn=as_a_terminal_starts_it,  # noqa: PLW1509 - it takes no lock
        )

    def end(self) -> tuple[int, str, str]:
        """Wait for its end; return its status, stdout and stderr."""
        stdout, stderr = self.process.communicate(timeout=PATIENCE_S)
        # On a busy machine nox adds how long it took.
        return (
            self.process.returncode,
            stdout or "",
            re.sub(r" \(took [^)]*\)\.$", ".", stderr or "", flags=re.MULTILINE),
        )

    def wait_for(self, name: str) -> None:
        """Wait until the step has made a file."""
        wait_until((self.folder / name).exists)


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def started_in(folder: Path, step: str, *posargs: str, session: str = "one", **started: Any) -> Nox:
    folder.mkdir(exist_ok=True)
    (folder / "noxfile.py").write_text(NOXFILE)
    (folder / "step.py").write_text(textwrap.dedent(step))
    return Nox(folder, session, *posargs, **started)


def end_what_is_left(running: Nox) -> None:
    left: list[int] = []
    pids = running.folder / "pids"
    if pids.exists():
        left = [int(pid) for pid in pids.read_text().split() if psutil.pid_exists(int(pid))]
    if running.process.poll() is None:
        left.append(running.process.pid)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    running.process.communicate()


@pytest.fixture
def nox(tmp_path: Path) -> Iterator[Callable[..., Nox]]:
    """Give a way to start nox on a step; end what is left of them."""
    started: list[Nox] = []

    def start(step: str, *posargs: str, session: str = "one", **how: Any) -> Nox:
        started.append(started_in(tmp_path, step, *posargs, session=session, **how))
        return started[-1]

    yield start
    for one in started:
        end_what_is_left(one)


def nothing_is_left(folder: Path) -> bool:
    pids = [int(pid) for pid in (folder / "pids").read_text().split()]
    return len(pids) == 2 and not any(psutil.pid_exists(pid) for pid in pids)


def test_a_step_that_succeeds_is_a_success_and_its_output_is_shown(
    nox: Callable[..., Nox],
) -> None:
    status, stdout, stderr = nox(
        """
        import os, sys
        print("to stdout", sys.argv[1:])
        print(os.environ.get("UNSET_BY_THE_SESSION"), os.environ["SET_BY_THE_SESSION"])
        print("to stderr", file=sys.stderr)
        """,
        "a b",
        "",
    ).end()
    assert status == 0
    assert stdout == "to stdout ['a b', '']\nNone a b\n"
    assert "nox > python step.py 'a b' ''\nto stderr\n" in stderr


FAILS = """
import sys
print("error: an earlier one", file=sys.stderr)
print("a detail", file=sys.stderr)
print("error: the Go source does not compile; expected it to; mend it", file=sys.stderr)
print("another detail", file=sys.stderr)
sys.exit(2)
"""


def test_the_sentence_of_a_step_s_last_error_is_the_last_thing_shown_and_nothing_is_lost(
    nox: Callable[..., Nox],
) -> None:
    status, _, stderr = nox(FAILS).end()
    assert status == 1
    # An error is held back until it is known whether it is the last.
    assert stderr.splitlines()[-4:] == [
        "a detail",
        "error: an earlier one",
        "another detail",
        "nox > Session one aborted: the Go source does not compile; expected it to; mend it.",
    ]


def test_a_step_that_ends_without_a_sentence_is_named_with_its_status(
    nox: Callable[..., Nox],
) -> None:
    status, _, stderr = nox("raise SystemExit(7)").end()
    assert status == 1
    assert stderr.splitlines()[-1] == "nox > Session one aborted: step.py ended with status 7."


def test_a_step_that_is_killed_is_named_with_the_signal(nox: Callable[..., Nox]) -> None:
    status, _, stderr = nox("import os; os.kill(os.getpid(), 9)").end()
    assert status == 1
    assert stderr.splitlines()[-1] == "nox > Session one aborted: step.py was ended by SIGKILL."


def test_an_error_of_a_step_that_succeeds_is_shown_too(nox: Callable[..., Nox]) -> None:
    status, _, stderr = nox("import sys; print('error: odd', file=sys.stderr)").end()
    assert status == 0
    assert "\nerror: odd\n" in stderr


def test_what_a_user_can_put_right_in_a_session_itself_is_a_sentence_too(
    nox: Callable[..., Nox],
) -> None:
    status, _, stderr = nox("", session="refuses").end()
    assert status == 1
    assert "Traceback" not in stderr
    assert stderr.splitlines()[-1] == (
        "nox > Session refuses aborted: the folder is full; expected room; make some."
    )


def test_a_step_that_is_only_attempted_is_told_and_does_not_decide(
    nox: Callable[..., Nox],
) -> None:
    status, _, stderr = nox(FAILS, session="attempts").end()
    assert status == 0
    assert "nox > the Go source does not compile; expected it to; mend it\nnox > went on" in stderr


def test_what_the_system_says_of_a_file_in_a_session_is_a_sentence_too(
    nox: Callable[..., Nox],
) -> None:
    status, _, stderr = nox("", session="misses_a_file").end()
    assert status == 1
    assert "Traceback" not in stderr
    assert stderr.splitlines()[-1] == (
        "nox > Session misses_a_file aborted: gone cannot be used (No such file or directory); "
        "expected a path that is there and can be read and written; mend it, or see with --debug "
        "where it is needed."
    )


def test_a_step_goes_on_to_its_end_when_nobody_reads_its_output_any_more(
    nox: Callable[..., Nox],
) -> None:
    """As in ``nox ... | head -1``."""
    running = nox(
        """
        import time
        from pathlib import Path
        print("the first line", flush=True)
        while not Path("unread").exists():
            time.sleep(0.02)
        for number in range(10_000):
            print("line", number, flush=True)
        Path("finished").touch()
        """
    )
    assert running.process.stdout is not None
    assert running.process.stdout.readline() == "the first line\n"
    running.process.stdout.close()
    (running.folder / "unread").touch()
    assert running.process.stderr is not None
    stderr = running.process.stderr.read()
    assert running.process.wait(PATIENCE_S) == 0
    assert (running.folder / "finished").exists()
    assert "Error" not in stderr
    assert "nox > Session one was successful" in stderr


def test_a_step_goes_on_to_its_end_when_nobody_reads_anything_any_more(
    nox: Callable[..., Nox],
) -> None:
    """As in ``nox ... 2>&1 | head -1``: a failure is still seen from the status."""
    running = nox(
        """
        import sys, time
        from pathlib import Path
        Path("started").touch()
        while not Path("unread").exists():
            time.sleep(0.02)
        for number in range(1_000):
            print("line", number, flush=True)
            print("line", number, file=sys.stderr, flush=True)
        Path("finished").touch()
        sys.exit(7)
        """
    )
    running.wait_for("started")
    for stream in (running.process.stdout, running.process.stderr):
        assert stream is not None
        stream.close()
    (running.folder / "unread").touch()
    assert running.process.wait(PATIENCE_S) == 1
    assert (running.folder / "finished").exists()


@pytest.mark.parametrize("ends_with", [0, 7])
@pytest.mark.parametrize("full", ["stdout", "stderr"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_step_whose_output_a_full_disk_does_not_take_goes_on_and_its_session_fails(
    nox: Callable[..., Nox], full: str, ends_with: int
) -> None:
    with Path("/dev/full").open("wb") as disk:
        running = nox(
            f"""
            import sys
            from pathlib import Path
            for number in range(10_000):
                print("line", number)
                print("line", number, file=sys.stderr)
            print("error: what it has to say for itself", file=sys.stderr)
            Path("finished").touch()
            sys.exit({ends_with})
            """,
            **{full: disk.fileno()},
        )
        status, _, stderr = running.end()
    assert status == 1
    assert (running.folder / "finished").exists()
    if full == "stdout":
        assert stderr.count("\nerror: what it has to say for itself\n") == 1
        assert stderr.count("the output cannot be written") == 1
        assert stderr.splitlines()[-1] == (
            "nox > Session one aborted: the output cannot be written (No space left on device); "
            "expected it to be taken to its end; make room for it or send it elsewhere, and run it "
            "again."
        )


def test_an_interrupt_is_one_on_a_full_disk_too(nox: Callable[..., Nox]) -> None:
    with Path("/dev/full").open("wb") as disk:
        running = nox(
            CLEANS_UP.replace("try:", "print('x', flush=True)\ntry:"), stdout=disk.fileno()
        )
    running.wait_for("started")
    to_the_group(running, signal.SIGINT)
    status, _, stderr = running.end()
    assert (status, stderr.splitlines()[-1]) == (130, "nox > Session one interrupted.")
    assert stderr.count("\nerror: the output cannot be written (No space left on device); ") == 1
    assert (running.folder / "cleaned").exists()


def test_a_terminal_is_the_step_s_own_and_a_pipe_is_not(nox: Callable[..., Nox]) -> None:
    ours, its = pty.openpty()
    try:
        running = nox("print(__import__('sys').stdout.isatty())", stdout=its)
        assert running.end()[0] == 0
        assert os.read(ours, 100) == b"True\r\n"
    finally:
        os.close(ours)
        os.close(its)
    assert nox("print(__import__('sys').stdout.isatty())").end()[1] == "False\n"


def test_a_step_has_not_ended_before_all_of_its_output_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[bytes] = []

    class Slow(io.BytesIO):
        def write(self, some: Any, /) -> int:
            time.sleep(0.2)  # it is that slow
            shown.append(bytes(some))
            return len(some)

    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(Slow()))
    reads, writes = os.pipe()
    with os.fdopen(reads) as pipe, steps._handing_on(pipe, steps._Screen()):
        os.write(writes, b"the last words")
        os.close(writes)
    assert shown == [b"the last words"]


@pytest.mark.parametrize(
    "name",
    [
        "PYTEST_ADDOPTS",
        "PYTEST_PLUGINS",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONSAFEPATH",
        "PYTHONOPTIMIZE",
        "PYTHONWARNINGS",
        "PYTHONSTARTUP",
        "PYTHONINSPECT",
    ],
)
def test_a_step_does_not_see_what_would_change_how_python_or_pytest_run_it(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "x")
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    session: Any = SimpleNamespace(env={"OURS": "1", "HOME": None})
    seen = steps._environment(session)
    assert name not in seen
    assert (seen["PYTHONUNBUFFERED"], seen["OURS"]) == ("1", "1")
    assert "HOME" not in seen


def test_bytes_that_are_no_text_are_handed_on_as_they_are(nox: Callable[..., Nox]) -> None:
    running = nox("import os; os.write(1, bytes([0xe2, 0x82])); os.write(1, bytes([0xac, 10]))")
    assert running.end()[:2] == (0, "\N{EURO SIGN}\n")


def test_what_a_step_says_is_shown_while_it_runs(nox: Callable[..., Nox]) -> None:
    running = nox(
        """
        import sys, time
        from pathlib import Path
        print("under way", file=sys.stderr, flush=True)
        while not Path("seen").exists():
            time.sleep(0.02)
        """
    )
    assert running.process.stderr is not None
    # Each line is read as it comes: were they held back, the step would wait for ever.
    for line in running.process.stderr:
        if line == "under way\n":
            break
    else:
        pytest.fail("the line was never shown")
    assert running.process.poll() is None
    (running.folder / "seen").touch()
    assert running.end()[0] == 0


OURS = f"""
import sys
sys.path.insert(0, {str(PROJECT)!r})
from wasm.foundation import terminal
from wasm.foundation.errors import BuildError

def step():
    raise BuildError("it does not compile; expected Go; mend it", detail="a.go:1: what")

terminal.finish(step)
"""


@pytest.mark.parametrize("debug", [False, True])
def test_the_traceback_of_an_error_is_shown_only_if_asked_for_and_never_last(
    nox: Callable[..., Nox],
    monkeypatch: pytest.MonkeyPatch,
    debug: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setenv("GATEWAY_PROOF_DEBUG", "1" if debug else "")
    status, _, stderr = nox(OURS).end()
    assert status == 1
    assert ("Traceback" in stderr) is debug
    assert stderr.splitlines()[-2:] == [
        "a.go:1: what",
        "nox > Session one aborted: it does not compile; expected Go; mend it.",
    ]


def to_the_group(running: Nox, number: int) -> None:
    os.killpg(running.process.pid, number)


def to_nox_alone(running: Nox, number: int) -> None:
    os.kill(running.process.pid, number)


SIGNALS: dict[str, tuple[Callable[[Nox, int], None], list[signal.Signals]]] = {
    "Ctrl-C": (to_the_group, [signal.SIGINT]),
    "Ctrl-C again and again": (
        to_the_group,
        [signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGINT],
    ),
    "SIGTERM": (to_nox_alone, [signal.SIGTERM]),
    "SIGHUP and others": (to_nox_alone, [signal.SIGHUP, signal.SIGTERM, signal.SIGINT]),
}


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Nox]]:
    """Start a nox for each way to interrupt one, and interrupt it; they clean up side by side."""
    folder = tmp_path_factory.mktemp("interrupted")
    running = {name: started_in(folder / name, CLEANS_UP) for name in SIGNALS}
    try:
        for name, (send, numbers) in SIGNALS.items():
            running[name].wait_for("started")
            send(running[name], numbers[0])
            running[name].wait_for("cleaning")
            for number in numbers[1:]:
                send(running[name], number)
        yield running
    finally:
        for one in running.values():
            end_what_is_left(one)


@pytest.mark.parametrize("name", SIGNALS)
def test_clean_up_after_a_signal_finishes_and_nothing_is_left(
    interrupted: dict[str, Nox], name: str
) -> None:
    """T4: nox's own way would end the step after 0.6 s."""
    running = interrupted[name]
    status, _, stderr = running.end()
    assert (running.folder / "cleaned").exists()
    assert nothing_is_left(running.folder)
    assert (running.folder / "signals").read_text() == "SIGTERM\n"
    assert status == 130
    assert stderr.splitlines()[-1] == "nox > Session one interrupted."


def test_a_signal_that_was_ignored_from_the_start_stays_so(nox: Callable[..., Nox]) -> None:
    """As with ``nohup nox ...``, whose terminal is then closed."""
    running = nox(
        """
        import time
        from pathlib import Path
        Path("started").touch()
        while not Path("seen").exists():
            time.sleep(0.02)
        """,
        ignores=[signal.SIGHUP],
    )
    running.wait_for("started")
    to_nox_alone(running, signal.SIGHUP)
    (running.folder / "seen").touch()
    assert running.end()[0] == 0


def test_these_tests_hold_where_they_were_started_with_ctrl_c_ignored(
    nox: Callable[..., Nox],
) -> None:
    """As a script starts ``pytest &``."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        running = nox(CLEANS_UP)
    finally:
        signal.signal(signal.SIGINT, before)
    running.wait_for("started")
    to_the_group(running, signal.SIGINT)
    assert running.end()[0] == 130


@pytest.mark.parametrize("session", ["one", "waits_for_ctrl_c"])
@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.1])
def test_ctrl_c_while_a_step_is_being_started_shows_nothing_of_what_python_was_doing(
    nox: Callable[..., Nox], after_s: float, session: str
) -> None:
    running = nox("import time; time.sleep(600)", session=session)
    assert running.process.stderr is not None
    for line in running.process.stderr:
        if line == "nox > python step.py\n":
            break
    time.sleep(after_s)  # these moments are what is tried
    to_the_group(running, signal.SIGINT)
    status, _, stderr = running.end()
    assert (status, stderr) == (130, f"nox > Session {session} interrupted.\n")


# Ends as `--keep` does: with the matrix's own verdict, once somebody has looked at the testbed.
KEEPS = f"""\
import sys
from pathlib import Path

sys.path.insert(0, {str(PROJECT)!r})
from wasm.foundation import terminal

terminal.interrupts_clean_up()
try:
    Path("started").touch()
    import time
    time.sleep(600)
except KeyboardInterrupt:
    Path("interrupted").touch()
    while not Path("seen").exists():
        time.sleep(0.02)
    print("error: one of two cells is not as declared", file=sys.stderr)
    sys.exit(int(Path("verdict").read_text()))
"""


@pytest.mark.parametrize(
    ("numbers", "verdict", "ended"),
    [
        ([signal.SIGINT], 0, (0, "was successful.")),
        ([signal.SIGINT, signal.SIGINT], 0, (0, "was successful.")),
        ([signal.SIGINT], 1, (1, "aborted: one of two cells is not as declared.")),
        ([signal.SIGINT], 130, (130, "interrupted.")),
        ([signal.SIGTERM], 0, (130, "interrupted.")),
        ([signal.SIGINT, signal.SIGTERM], 0, (130, "interrupted.")),
    ],
    ids=[
        "held",
        "held, impatiently",
        "did not hold",
        "before its work was done",
        "not by Ctrl-C",
        "not by Ctrl-C alone",
    ],
)
def test_the_ctrl_c_that_a_step_waits_for_is_its_end_and_its_verdict_counts(
    nox: Callable[..., Nox],
    tmp_path: Path,
    numbers: list[signal.Signals],
    verdict: int,
    ended: tuple[int, str],
) -> None:
    (tmp_path / "verdict").write_text(str(verdict))
    running = nox(KEEPS, session="waits_for_ctrl_c")
    running.wait_for("started")
    for number in numbers:
        to_the_group(running, number)
        running.wait_for("interrupted")
    (tmp_path / "seen").touch()
    status, _, stderr = running.end()
    last = re.sub(r" in .*", ".", stderr.splitlines()[-1])  # how long it took
    assert (status, last.removeprefix("nox > Session waits_for_ctrl_c ")) == ended
    assert ("nox > went on" in stderr) is (status == 0)
