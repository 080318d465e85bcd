"""The checks: what can be said of a cell, each with an expected and an actual value."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


class CheckName(StrEnum):
    """One named assertion of a cell."""

    ATTEMPT_COUNT = "attempt_count"
    ARRIVAL = "arrival"
    DECLARED_KEYS = "declared_keys"
    FIRST_KEY = "first_key"
    FIRST_METHOD = "first_method"
    FIRST_PATH = "first_path"
    FIRST_BODY = "first_body"
    RETRY_KEY = "retry_key"
    RETRY_METHOD = "retry_method"
    RETRY_PATH = "retry_path"
    RETRY_BODY = "retry_body"
    RETRY_HEADERS = "retry_headers"
    CLIENT_STATUS = "client_status"
    CLIENT_BODY = "client_body"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A check with what it found."""

    name: CheckName
    expected: Any
    actual: Any
    holds: bool


# An attempt with a credential that the case does not declare fails every run (docs/evidence.md, 7).
NEVER_TO_FAIL = frozenset({CheckName.DECLARED_KEYS})


def names_for(*, retry: bool) -> tuple[CheckName, ...]:
    """Return the checks of a cell, in the order in which they are made."""
    return tuple(name for name in CheckName if retry or not name.startswith("retry_"))


def in_order(names: Iterable[CheckName]) -> tuple[CheckName, ...]:
    """Return some checks in the order in which they are made."""
    wanted = set(names)
    return tuple(name for name in CheckName if name in wanted)
