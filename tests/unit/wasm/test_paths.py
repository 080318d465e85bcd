"""Paths that a user names: what they mean, and what is said of those that mean nothing."""

from __future__ import annotations

import argparse
import errno
import os
from pathlib import Path

import pytest

from wasm.foundation import paths
from wasm.foundation.errors import ProofError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def refusal(text: str) -> str:
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        paths.named(text)
    return str(caught.value)


def test_a_path_is_absolute_as_seen_from_here_or_from_home_and_need_not_exist(
    tmp_path: Path,
) -> None:
    assert paths.named("a b/c") == tmp_path / "a b/c"
    assert paths.named("./~x") == tmp_path / "~x"
    assert paths.named("$HOME") == tmp_path / "$HOME"
    assert paths.named("~") == tmp_path / "home"
    assert paths.named("~/x") == tmp_path / "home/x"
    assert paths.named("/x/../y") == Path("/x/../y")
    assert paths.named("~root/x") == Path(os.path.expanduser("~root/x"))  # noqa: PTH111 - the system's word for it


def test_an_empty_path_is_none() -> None:
    assert refusal("") == "found '', expected a path"


def test_a_path_that_is_no_utf_8_is_refused() -> None:
    assert refusal("/lat\udce9in") == (
        "found '/lat\\udce9in', which is no UTF-8 to this machine's locale; expected a path that "
        "can be written down"
    )


def test_the_home_of_a_user_who_is_not_here_is_no_folder_named_after_him() -> None:
    assert refusal("~nobody-of-this-name/x") == (
        "found '~nobody-of-this-name/x', expected ~nobody-of-this-name to be a user's home on this "
        "machine; a file of that name is ./~nobody-of-this-name/x"
    )


def test_a_path_that_cannot_be_followed_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    long = "a" * 300
    for text, reason in (
        (long, "File name too long"),
        ("loop/x", "Too many levels of symbolic links"),
        ("a\0b", "embedded null byte"),
    ):
        assert refusal(text) == (
            f"found {text!r}, which cannot be followed ({reason}); expected a path that can"
        )


def test_a_path_below_a_folder_that_may_not_be_entered_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def denied(path: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", denied)
        told = refusal("/secret/x")
    assert told == (
        "found '/secret/x', which cannot be followed (Permission denied); expected a path that can"
    )


def test_a_program_without_a_folder_is_left_to_path(tmp_path: Path) -> None:
    assert paths.program("envoy") == "envoy"
    assert paths.program("./envoy") == str(tmp_path / "envoy")
    assert paths.program("~/envoy") == str(tmp_path / "home/envoy")
    with pytest.raises(argparse.ArgumentTypeError, match="found '', expected a path"):
        paths.program("")


@pytest.mark.parametrize(
    "text", ["reference", "https://git.example/x.git", "file:///x", "git@git.example:group/x.git"]
)
def test_the_reference_and_a_url_are_no_paths(text: str) -> None:
    assert paths.source(text) == text


@pytest.mark.parametrize("text", ["./reference", "higress", "a/b:c", "~/higress"])
def test_any_other_source_is_a_path(text: str) -> None:
    assert paths.source(text) == str(paths.named(text))
    assert not paths.is_url(paths.source(text))


def test_a_file_is_read_whole_and_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\0\r\n")
    (tmp_path / "link").symlink_to("file")
    assert paths.content(tmp_path / "link") == b"\0\r\n"


def test_a_pipe_a_device_a_folder_and_nothing_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file, reason in (
        (tmp_path / "pipe", "Not a regular file"),
        (Path("/dev/zero"), "Not a regular file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "nothing", "No such file or directory"),
    ):
        with pytest.raises(OSError) as caught:  # noqa: PT011 - compared below
            paths.content(file)
        assert (caught.value.strerror, caught.value.filename) == (reason, str(file))


def test_what_the_system_says_of_a_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ProofError) as caught, paths.errors_in_a_sentence():
        (tmp_path / "gone").read_bytes()
    assert caught.value.sentence == (
        f"{tmp_path}/gone cannot be used (No such file or directory); expected a path that is "
        "there and can be read and written; mend it, or see with --debug where it is needed"
    )


def test_what_it_says_of_no_file_is_not_explained_away() -> None:
    with pytest.raises(BrokenPipeError), paths.errors_in_a_sentence():
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
