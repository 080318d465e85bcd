"""Owners: a name that can be read again, and only what is known to be gone counts as gone."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.integration.running import until
from wasm.foundation import owners
from wasm.foundation.owners import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Tells its own name, and lives until its stdin is closed.
LIVES = "from wasm.foundation import owners; print(owners.here(), flush=True); input()"


@pytest.fixture
def other() -> Iterator[tuple[subprocess.Popen[str], Owner]]:
    """Another process of ours, and the owner it says it is."""
    with subprocess.Popen(
        [sys.executable, "-c", LIVES],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        owner = Owner.parse(process.stdout.readline().strip())
        assert owner
        yield process, owner
        process.kill()


def test_a_name_is_read_as_it_was_written_and_fits_a_label_and_a_folders_name() -> None:
    name = str(owners.here())
    found = Owner.parse(name)
    assert found
    assert str(found) == name
    assert (found.place, found.pid) == (owners.here().place, os.getpid())
    assert not {"-", "/", " "} & {*name}


@pytest.mark.parametrize(
    "text", ["", "somebody", "a.b.c_1", "a.b.c_x_1.0", "a.b.c_1_x", "a.b_1_1.0", "a.b.c_1_1.0_2"]
)
def test_what_is_no_name_of_ours_has_no_owner(text: str) -> None:
    assert Owner.parse(text) is None


def test_this_process_is_alive() -> None:
    assert not owners.here().known_to_be_gone


def test_an_owner_is_alive_until_its_process_ends_buried_by_its_parent_or_not(
    other: tuple[subprocess.Popen[str], Owner],
) -> None:
    process, owner = other
    assert owner.pid == process.pid
    assert not owner.known_to_be_gone
    process.kill()
    until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
    gone = [owner.known_to_be_gone]
    process.wait()
    assert [*gone, owner.known_to_be_gone] == [True, True]


def test_a_process_that_got_an_id_again_is_not_the_owner() -> None:
    ours = owners.here()
    assert replace(ours, started=ours.started - 1).known_to_be_gone
    assert replace(ours, started=ours.started + 1).known_to_be_gone


def test_a_clock_that_is_set_makes_no_owner_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The boot's date, from which psutil counts, moves with the clock."""
    before = psutil.Process().create_time()
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: 1_000_000.0)
    assert abs(psutil.Process().create_time() - before) > 3600
    owners.here.cache_clear()
    assert not Owner.parse(str(owners.here())).known_to_be_gone  # type: ignore[union-attr]
    monkeypatch.undo()
    assert not owners.here().known_to_be_gone
    owners.here.cache_clear()


@pytest.mark.parametrize(
    ("part", "gone"), [("machine", False), ("ids", False), ("boot", True), (None, True)]
)
def test_an_owner_of_another_place_counts_as_alive_unless_this_machine_was_started_anew(
    part: str | None,
    gone: bool,  # noqa: FBT001
) -> None:
    ours = owners.here()
    dead = replace(ours, started=ours.started - 9)
    place = replace(dead.place, **{part: "00000000"}) if part else dead.place
    assert replace(dead, place=place).known_to_be_gone is gone


def test_a_process_that_is_hidden_from_us_counts_as_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with hidepid: it cannot be looked at, but it can be seen that there is one."""

    def not_ours(_pid: int, _number: int) -> None:
        raise PermissionError

    monkeypatch.setattr("os.kill", not_ours)
    monkeypatch.setattr("wasm.foundation.owners._stat", lambda _pid: None)
    ours = owners.here()
    assert not replace(ours, started=ours.started - 9).known_to_be_gone


def test_a_process_whose_name_is_no_text_is_read_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is 15 bytes of anything: prctl(2) takes them, and cuts letters in two."""
    (tmp_path / "7").mkdir()
    fields = b" ".join(b"%d" % number for number in range(4, 53))
    (tmp_path / "7" / "stat").write_bytes(b"7 (a) \xe2\x82) S " + fields)
    monkeypatch.setattr("wasm.foundation.owners._PROC", tmp_path)
    assert owners._stat(7) == ("S", 22 / os.sysconf("SC_CLK_TCK"))


@pytest.fixture
def no_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without /proc, where psutil is asked."""
    monkeypatch.setattr("wasm.foundation.owners._PROC", tmp_path)
    monkeypatch.setattr("wasm.foundation.owners._BOOT_ID", tmp_path / "boot_id")
    caches: tuple[Any, ...] = (owners.here, owners._place)
    for each in caches:
        each.cache_clear()
    yield
    for each in caches:
        each.cache_clear()


@pytest.mark.usefixtures("no_proc")
def test_without_proc_the_same_holds_by_what_psutil_says(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = owners.here()
    assert (ours.place.boot, ours.place.ids) == ("", "")
    assert str(Owner.parse(str(ours))) == str(ours)
    assert not ours.known_to_be_gone
    assert not replace(ours, started=ours.started + 0.5).known_to_be_gone
    assert replace(ours, started=ours.started + 2).known_to_be_gone
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert replace(ours, pid=process.pid).known_to_be_gone

    def denied(_self: object) -> float:
        raise psutil.AccessDenied

    monkeypatch.setattr("psutil.Process.create_time", denied)
    assert not replace(ours, started=0.0).known_to_be_gone
