"""Interrupts that wait: none is lost, none gets in between, and nothing is started deaf to them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from wasm.foundation import signals, subprocesses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NUMBERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def _taken_as_ctrl_c() -> Iterator[None]:
    before = {number: signal.signal(number, signal.default_int_handler) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@contextlib.contextmanager
def raised_here() -> Iterator[None]:
    with pytest.raises(KeyboardInterrupt):
        yield


@pytest.mark.parametrize("number", NUMBERS)
def test_an_interrupt_waits_until_the_end_and_is_raised_there(number: signal.Signals) -> None:
    done = []
    with raised_here(), signals.held():
        signal.raise_signal(number)
        done.append("the rest")
    assert done == ["the rest"]
    assert signal.getsignal(number) is signal.default_int_handler


def test_what_is_ignored_stays_so() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with signals.held():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_holding_within_holding_lets_go_at_the_outer_end() -> None:
    done = []
    with raised_here(), signals.held():
        with signals.held():
            signal.raise_signal(signal.SIGTERM)
        done.append("still held")
    assert done == ["still held"]


def test_what_is_started_meanwhile_can_be_interrupted() -> None:
    shows = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    with signals.held():
        shown = subprocess.check_output([sys.executable, "-c", shows], text=True)
    assert shown == "set()\n"


def test_a_stack_is_closed_whole_and_the_interrupt_follows() -> None:
    done: list[str] = []
    with raised_here(), signals.ClosedInPeace() as stack:
        stack.callback(done.append, "first in")
        stack.callback(signal.raise_signal, signal.SIGINT)
        stack.callback(done.append, "last in")
    assert done == ["last in", "first in"]


def test_another_thread_holds_nothing_for_the_main_one() -> None:
    done = []

    def elsewhere() -> None:
        with signals.held():
            done.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert done == [signal.default_int_handler]


def test_an_interrupt_while_a_command_is_being_started_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: object, **settings: object) -> None:
            super().__init__(*arguments, **settings)  # type: ignore[call-overload]
            started.append(self)
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("wasm.foundation.subprocesses.subprocess.Popen", Interrupted)
    with contextlib.suppress(KeyboardInterrupt):
        subprocesses.run(["sleep", "300"])
        pytest.fail("it was not interrupted")
    assert [each.returncode for each in started] == [-signal.SIGKILL]


# --- Errors while things are closed -------------------------------------------------------------


def failing() -> None:
    raise OSError("the network is still in use")


def closed(*closing: Callable[[], object], inside: Exception | None = None) -> None:
    """Close a stack, the last given first, with an error from inside on its way or none."""
    with signals.ClosedInPeace() as stack:
        for each in closing:
            stack.callback(each)
        if inside is not None:
            raise inside


def test_an_error_in_closing_is_a_note_to_the_first_one_and_the_rest_is_closed() -> None:
    done: list[str] = []
    first = ValueError()
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - it is compared below
        closed(lambda: done.append("closed"), failing, inside=first)
    assert caught.value is first
    assert first.__notes__ == ["closing failed, too: the network is still in use"]
    assert done == ["closed"]


def test_an_error_in_closing_alone_is_the_one_that_is_reported() -> None:
    done: list[str] = []
    with pytest.raises(OSError, match="still in use"):
        closed(lambda: done.append("closed"), failing)
    assert done == ["closed"]


def test_a_stack_that_closes_well_adds_nothing_to_an_error() -> None:
    first = ValueError()
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - likewise
        closed(list, inside=first)
    assert caught.value is first
    assert not hasattr(first, "__notes__")
