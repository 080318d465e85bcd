"""The process engine without processes: where Envoy says that its admin interface is."""

from __future__ import annotations

import errno
import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from containers.process import engine as process_engine

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[Path, int]:
    """How many bytes are free, by folder: plenty in the one of the test."""
    bytes_of = {tmp_path: 1 << 30}
    monkeypatch.setattr(shutil, "disk_usage", lambda of: SimpleNamespace(free=bytes_of[of]))
    return bytes_of


def test_an_address_that_envoy_has_written_is_the_admin_url_even_if_the_disk_is_full_since(
    tmp_path: Path, free: dict[Path, int]
) -> None:
    file = tmp_path / "admin-address.txt"
    file.write_text("127.0.0.1:41234\n")
    assert process_engine._announced(file) == "http://127.0.0.1:41234"
    free[tmp_path] = 0
    assert process_engine._announced(file) == "http://127.0.0.1:41234"


def test_a_file_that_is_not_there_or_still_empty_is_waited_for(
    tmp_path: Path, free: dict[Path, int]
) -> None:
    file = tmp_path / "admin-address.txt"
    assert process_engine._announced(file) is None
    file.touch()
    assert free[tmp_path]
    assert process_engine._announced(file) is None


def test_a_file_that_stays_empty_on_a_full_disk_is_not_waited_for(
    tmp_path: Path, free: dict[Path, int]
) -> None:
    """Envoy does not look whether it could write, so nothing would ever come."""
    file = tmp_path / "admin-address.txt"
    file.touch()
    free[tmp_path] = 0
    with pytest.raises(OSError, match="No space left on device") as caught:
        process_engine._announced(file)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(file))
