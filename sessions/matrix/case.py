"""Cases: what is sent, what the upstream answers, and what must hold; read from TOML.

A case file is data that a maintainer can read and change. It is checked whole when it is read:
an unknown field, a wrong type, a credential that is not a dummy, or a check that does not exist
is refused with file, key and reason.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from sessions.matrix.checks import CheckName, names_for
from wasm.errors import CaseError
from wasm.records import Variant

BUNDLED = Path(__file__).parent / "cases"
_DUMMY = re.compile(r"dummy-[a-z0-9-]+")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_CREDENTIAL_FIELD = re.compile(
    r"token|secret|password|credential|(api|access|private).?key", re.IGNORECASE
)


class Mode(StrEnum):
    """What the upstream's first answer is: a retryable failure, or success."""

    RETRY = "retry"
    DIRECT = "direct"


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request as the client sends it; ``json`` is the body."""

    method: str
    target: str
    json: Any


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A response: of the upstream, or as the client must get it."""

    status: int
    json: Any


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fixture, for both variants alike.

    Attributes:
        name: Kebab-case; part of every cell's id.
        title: What it shows, in a few words.
        modes: Which modes it is run in.
        keys: Every credential that may appear; dummies, one of them in use at a time.
        plugin: The plugin configuration, as the gateway gets it.
        request: What the client sends.
        upstream: What must reach the upstream, in each attempt.
        failure: The upstream's answer to the first attempt in mode ``retry``.
        success: Its answer to the attempt that is to succeed.
        client: What the client must get in the end.
        must_fail: Mode -> the checks that must fail on the baseline, exactly these.
    """

    name: str
    title: str
    keys: list[str]
    plugin: dict[str, Any]
    request: Message
    upstream: Message
    failure: Answer
    success: Answer
    client: Answer
    modes: list[Mode] = msgspec.field(default_factory=lambda: list(Mode))
    must_fail: dict[Mode, list[CheckName]] = {}

    def expected_failures(self, variant: Variant, mode: Mode) -> frozenset[CheckName]:
        """Return the checks that must fail on a variant; none on the fixed one."""
        if variant is Variant.FIXED:
            return frozenset()
        return frozenset(self.must_fail.get(mode, ()))


def load(folder: Path | None = None, glob: str = "*") -> tuple[Case, ...]:
    """Read every case of a folder whose name matches, in the order of the files' names.

    Raises:
        CaseError: A file does not say what a case must say, or nothing is left.
    """
    folder = folder or BUNDLED
    files = sorted(folder.glob("*.toml"))
    if not files:
        raise CaseError(
            f"no cases in {folder}; expected *.toml files as in sessions/matrix/cases; name "
            "their folder with --cases"
        )
    cases = [read(file) for file in files]
    names = [case.name for case in cases]
    for file, name in zip(files, names, strict=True):
        if names.count(name) > 1:
            raise CaseError(
                f"{file.name}: name = {name!r} is also another file's; expected one of its own; "
                "rename one"
            )
    chosen = tuple(case for case in cases if fnmatch.fnmatchcase(case.name, glob))
    if not chosen:
        raise CaseError(f"no case matches --case {glob!r}; expected one of {', '.join(names)}")
    return chosen


def read(file: Path) -> Case:
    """Read one case.

    Raises:
        CaseError: With the file, the key and the reason.
    """
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CaseError(
            f"{file.name} cannot be read as TOML: {error}; expected a case as in "
            "sessions/matrix/cases; mend the file"
        ) from error
    try:
        case = msgspec.convert(data, Case)
    except msgspec.ValidationError as error:
        what, _, key = str(error).partition(" - at ")
        where = key.strip("`").removeprefix("$.").removeprefix("$") or "the top level"
        raise CaseError(
            f"{file.name}: {where}: {what[0].lower()}{what[1:]}; see docs/cases.md for what a "
            "case holds"
        ) from error
    _check(case, file.name)
    return case


def _check(case: Case, file: str) -> None:
    if not _NAME.fullmatch(case.name):
        raise _wrong(file, "name", repr(case.name), "kebab-case such as kling-text-to-video")
    if not case.modes or len(set(case.modes)) != len(case.modes):
        raise _wrong(file, "modes", repr([*map(str, case.modes)]), "each of retry, direct once")
    _check_keys(case, file)
    for part in ("request", "upstream"):
        message: Message = getattr(case, part)
        if not re.fullmatch(r"/[\x21-\x7e]*", message.target):
            raise _wrong(file, f"{part}.target", repr(message.target), "a path such as /v1/videos")
        if not re.fullmatch(r"[A-Z]+", message.method):
            raise _wrong(file, f"{part}.method", repr(message.method), "a method such as POST")
    for part in ("failure", "success", "client"):
        answer: Answer = getattr(case, part)
        if not 200 <= answer.status <= 599:  # noqa: PLR2004 - the statuses that end an exchange
            raise _wrong(file, f"{part}.status", str(answer.status), "a status from 200 to 599")
    for mode, checks in case.must_fail.items():
        _check_must_fail(case, file, mode, checks)


def _check_keys(case: Case, file: str) -> None:
    """Refuse any credential that is not a dummy which the case declares."""
    for key in case.keys:
        if not _DUMMY.fullmatch(key):
            raise _not_a_dummy(file, "keys", key)
    if not case.keys or len(set(case.keys)) != len(case.keys):
        raise _wrong(file, "keys", repr(case.keys), "at least one dummy key, each once")
    for path, value in _credentials(case.plugin, "plugin"):
        if value not in case.keys:
            raise _not_a_dummy(file, path, value)


def _check_must_fail(case: Case, file: str, mode: Mode, checks: list[CheckName]) -> None:
    where = f"must_fail.{mode}"
    if mode not in case.modes:
        raise _wrong(file, where, mode, f"a mode that the case runs in: {', '.join(case.modes)}")
    if not checks or len(set(checks)) != len(checks):
        raise _wrong(file, where, repr([*map(str, checks)]), "at least one check, each once")
    known = names_for(retry=mode is Mode.RETRY)
    for check in checks:
        if check not in known:
            raise _wrong(file, where, check, f"one of {', '.join(known)}")


def _credentials(value: Any, path: str) -> list[tuple[str, str]]:  # noqa: ANN401 - TOML's values
    """Return every text below a field whose name says that it holds a credential."""
    found: list[tuple[str, str]] = []
    if isinstance(value, dict):
        for key, below in value.items():
            if _CREDENTIAL_FIELD.search(key):
                found += [(f"{path}.{key}", text) for text in _texts(below)]
            else:
                found += _credentials(below, f"{path}.{key}")
    elif isinstance(value, list):
        for below in value:
            found += _credentials(below, path)
    return found


def _texts(value: Any) -> list[str]:  # noqa: ANN401 - TOML's values
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, dict):
        return [text for below in value.values() for text in _texts(below)]
    if isinstance(value, list):
        return [text for below in value for text in _texts(below)]
    return []


def _wrong(file: str, key: str, found: str, expected: str) -> CaseError:
    return CaseError(f"{file}: {key}: found {found}, expected {expected}; mend the file")


def _not_a_dummy(file: str, key: str, value: str) -> CaseError:
    # What may be a real credential is not repeated in a log.
    shown = value if value.startswith("dummy") else f"{value[:2]}... ({len(value)} characters)"
    return CaseError(
        f"{file}: {key}: found {shown}, expected a dummy credential (dummy-...) that `keys` lists; "
        "no real credential is needed, and none may get into evidence"
    )
