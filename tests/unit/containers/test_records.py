"""What the proof of clean-up says of what Docker listed, before and after."""

from __future__ import annotations

from dataclasses import replace

import pytest

from containers.records import Cleanup, Listed

BEFORE = Listed(containers=["run-gateway 1a"], networks=["run-inside 2b"], volumes=["3c"])
CLEAN = Cleanup(before=BEFORE, after=Listed(), refused={"gateway one 127.0.0.1:1": True})


def test_what_docker_lists_no_more_is_gone() -> None:
    assert CLEAN.complete
    assert CLEAN.leftovers == ()


@pytest.mark.parametrize(
    ("after", "left"),
    [
        (Listed(containers=["run-gateway 1a"]), "container run-gateway 1a"),
        (Listed(networks=["run-inside 2b"]), "network run-inside 2b"),
        (Listed(volumes=["3c"]), "volume 3c"),
    ],
)
def test_what_docker_lists_still_is_left(after: Listed, left: str) -> None:
    cleanup = replace(CLEAN, after=after)
    assert cleanup.leftovers == (left,)
    assert not cleanup.complete


def test_a_published_port_that_still_answers_is_left() -> None:
    cleanup = replace(CLEAN, refused={"gateway admin 127.0.0.1:2": False})
    assert cleanup.leftovers == ("port of gateway admin 127.0.0.1:2",)
    assert not cleanup.complete


@pytest.mark.parametrize(
    "unseen",
    [
        replace(CLEAN, after=None),
        replace(CLEAN, before=None),
        replace(CLEAN, before=Listed(networks=["run-inside 2b"])),
        replace(CLEAN, refused={}),
    ],
    ids=["not after", "not before", "no container before", "no port"],
)
def test_what_nobody_has_looked_for_is_not_proved_to_be_gone(unseen: Cleanup) -> None:
    assert not unseen.complete
