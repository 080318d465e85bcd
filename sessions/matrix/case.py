"""Cases: what is sent, what the upstream answers, and what must hold; read from TOML.

A case file is data that a maintainer can read and change. It is checked whole when it is read:
an unknown field, a wrong type, a credential that is not a dummy, or a check that does not exist
is refused with file, key and reason.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from datetime import date, time
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from sessions.matrix import credentials
from sessions.matrix.checks import NEVER_TO_FAIL, CheckName, names_for
from wasm.foundation import paths
from wasm.foundation.errors import CaseError
from wasm.records import Variant

BUNDLED = Path(__file__).parent / "cases"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_WITHOUT_A_BODY = (204, 205, 304)
_TOP = "the top level"
_TYPES = {
    "array": "a list",
    "bool": "true or false",
    "date": "a date",
    "datetime": "a date and time",
    "float": "a number with a fraction",
    "int": "a whole number",
    "object": "a table",
    "str": "a text",
    "time": "a time",
}
_MEANING = {
    "name": "it names the case, such as kling-text-to-video",
    "title": "it says what the case shows, in a few words",
    "keys": "it lists the dummy credentials that may appear",
    "plugin": "it is the plugin's configuration",
    "request": "it is what the client sends",
    "upstream": "it is what must reach the upstream",
    "failure": "it is the upstream's first answer in mode retry",
    "success": "it is the upstream's answer to the attempt that is to succeed",
    "client": "it is what the client must get",
    "method": "it is a method such as POST",
    "target": "it is a path such as /v1/videos",
    "status": "it is a status such as 200",
    "json": "it is the body",
}


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
    files = _files(folder or BUNDLED)
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


def _files(folder: Path) -> list[Path]:
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix.lower() == ".toml")
        reason = ""
    except OSError as error:
        files, reason = [], f" ({error.strerror})"
    if not files:
        raise CaseError(
            f"no cases in {folder}{reason}; expected *.toml files as in sessions/matrix/cases; "
            "name their folder with --cases"
        )
    return files


def read(file: Path) -> Case:
    """Read one case.

    Raises:
        CaseError: With the file, the key and the reason.
    """
    try:
        # utf-8-sig: Windows' editors put a mark before the text, which TOML does not know.
        data = tomllib.loads(paths.content(file).decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CaseError(
            f"{file.name} cannot be read as TOML: {reason}; expected a case as in "
            "sessions/matrix/cases; mend the file"
        ) from error
    # Before anything else, so that no other message can repeat a credential.
    _refuse_shapes(data, file.name)
    try:
        case = msgspec.convert(data, Case)
    except msgspec.ValidationError as error:
        raise _not_a_case(file.name, data, str(error)) from error
    for part in ("plugin", "request", "upstream", "failure", "success", "client"):
        _refuse_what_json_lacks(data[part], part, file.name)
    _check(case, file.name)
    return case


def _refuse_shapes(data: dict[str, Any], file: str) -> None:
    """Refuse what looks like a real credential, wherever it stands."""
    keys = data.get("keys")
    declared = keys if isinstance(keys, list) else []
    for path, text in (*credentials.field_names(data, ""), *credentials.texts(data, "")):
        for credential in credentials.by_shape(text):
            if not (credentials.is_dummy(credential) and credential in declared):
                raise _not_a_dummy(file, path.removeprefix(".") or _TOP, credential)


def _refuse_what_json_lacks(value: Any, path: str, file: str) -> None:  # noqa: ANN401 - TOML's
    if isinstance(value, dict):
        for key, below in value.items():
            _refuse_what_json_lacks(below, f"{path}.{key}", file)
    elif isinstance(value, list):
        for number, below in enumerate(value):
            _refuse_what_json_lacks(below, f"{path}[{number}]", file)
    elif isinstance(value, date | time) or (isinstance(value, float) and not isfinite(value)):
        # A date-time is a date too.
        what = "the number" if isinstance(value, float) else "the date or time"
        raise _wrong(file, path, f"{what} {value}", "a value that JSON has, such as a text")


def _not_a_case(file: str, data: dict[str, Any], reason: str) -> CaseError:
    """Say in our words what msgspec found."""
    what, _, where = reason.partition(" - at ")
    path = where.replace("`", "").removeprefix("$").removeprefix(".")
    if path.startswith("must_fail[...]"):
        # msgspec does not say in which mode.
        for mode, checks in data["must_fail"].items():
            try:
                msgspec.convert(checks, list[CheckName])
            except msgspec.ValidationError as error:
                what, _, where = str(error).partition(" - at ")
                path = f"must_fail.{mode}{where.strip('`').removeprefix('$')}"
                break
    elif path == "key in $.must_fail":
        path = "must_fail"
    quoted = [part for number, part in enumerate(re.split("[`']", what)) if number % 2]
    if what.startswith("Expected") and len(quoted) > 1:
        return _wrong(file, path or _TOP, _TYPES.get(quoted[1], quoted[1]), _TYPES[quoted[0]])
    if what.startswith("Invalid enum"):
        known: tuple[StrEnum, ...] = tuple(Mode)
        if path.startswith("must_fail."):
            known = _declarable(retry=True)
        return _wrong(file, path, quoted[0], f"one of {', '.join(known)}")
    held = Case if not path else Message if path in ("request", "upstream") else Answer
    fields = held.__struct_fields__
    if "unknown field" in what:
        found = f"the unknown field {quoted[0]}"
        return _wrong(file, path or _TOP, found, f"no other than {', '.join(fields)}")
    return _wrong(file, path or _TOP, f"no field {quoted[0]}", f"one; {_MEANING[quoted[0]]}")


def _check(case: Case, file: str) -> None:
    if not _NAME.fullmatch(case.name):
        raise _wrong(file, "name", repr(case.name), "kebab-case such as kling-text-to-video")
    if not case.modes or len(set(case.modes)) != len(case.modes):
        raise _wrong(file, "modes", _listed(case.modes), "retry, direct or both, each once")
    _check_keys(case, file)
    for part in ("request", "upstream"):
        message: Message = getattr(case, part)
        if not re.fullmatch(r"/[\x21-\x7e]*", message.target) or "#" in message.target:
            raise _wrong(file, f"{part}.target", repr(message.target), "a path such as /v1/videos")
        if not re.fullmatch(r"[A-Z]+", message.method):
            raise _wrong(file, f"{part}.method", repr(message.method), "a method such as POST")
    for part in ("failure", "success", "client"):
        answer: Answer = getattr(case, part)
        if not 200 <= answer.status <= 599 or answer.status in _WITHOUT_A_BODY:  # noqa: PLR2004 - the statuses that end an exchange
            raise _wrong(
                file, f"{part}.status", str(answer.status), "200 to 599, and one that has a body"
            )
    for mode, checks in case.must_fail.items():
        _check_must_fail(case, file, mode, checks)


def _check_keys(case: Case, file: str) -> None:
    """Refuse any credential that is not a dummy which the case declares."""
    for number, key in enumerate(case.keys):
        if not credentials.is_dummy(key):
            raise _not_a_dummy(file, f"keys[{number}]", key)
    if not case.keys or len(set(case.keys)) != len(case.keys):
        raise _wrong(file, "keys", _listed(case.keys), "at least one dummy key, each once")
    for path, value in credentials.by_name(case.plugin, "plugin"):
        if value not in case.keys:
            raise _not_a_dummy(file, path, value)


def _check_must_fail(case: Case, file: str, mode: Mode, checks: list[CheckName]) -> None:
    where = f"must_fail.{mode}"
    if mode not in case.modes:
        raise _wrong(
            file, "must_fail", mode, f"a mode that the case runs in: {', '.join(case.modes)}"
        )
    if not checks or len(set(checks)) != len(checks):
        raise _wrong(file, where, _listed(checks), "at least one check, each once")
    known = _declarable(retry=mode is Mode.RETRY)
    for number, check in enumerate(checks):
        if check not in known:
            raise _wrong(file, f"{where}[{number}]", check, f"one of {', '.join(known)}")


def _declarable(*, retry: bool) -> tuple[CheckName, ...]:
    return tuple(name for name in names_for(retry=retry) if name not in NEVER_TO_FAIL)


def _listed(values: list[Any]) -> str:
    return ", ".join(map(str, values)) or "none"


def _wrong(file: str, key: str, found: str, expected: str) -> CaseError:
    return CaseError(f"{file}: {key}: found {found}, expected {expected}; mend the file")


def _not_a_dummy(file: str, key: str, value: str) -> CaseError:
    # What may be a real credential is not repeated in a log.
    shown = value if credentials.is_dummy(value) else f"a text of {len(value)} characters"
    return CaseError(
        f"{file}: {key}: found {shown}, expected a dummy credential (dummy-...) that `keys` lists; "
        "no real credential is needed, and none may get into evidence"
    )
