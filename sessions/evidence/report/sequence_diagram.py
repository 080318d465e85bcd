"""The picture of a cell: who sent what to whom, in time, and what was wrong with it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from sessions.matrix import credentials, text_diff
from sessions.matrix.case import Mode
from sessions.matrix.checks import CheckName
from sessions.matrix.oracle import NO_ATTEMPT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from containers.exchange import Attempt
    from sessions.matrix.case import Case
    from sessions.matrix.checks import Check
    from sessions.matrix.records import Result
    from sessions.matrix.text_diff import Difference

_ATTEMPTS_DRAWN = 6
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
NOT_DECLARED = "not declared"
NO_KEY = "no key"


class Finding(NamedTuple):
    """A check that failed: what was wanted, what came, and where the two differ."""

    check: CheckName
    declared: bool
    what: str
    expected: str
    actual: str
    difference: Difference | None


class Message(NamedTuple):
    """One arrow of a picture.

    Attributes:
        way: ``request`` and ``response`` between client and gateway, ``attempt`` and ``answer``
            between gateway and upstream.
        key: The letter of the key it carried; empty where none is to be carried.
        at: When, in words; empty when that was not recorded.
        missing: It had to come, and did not.
    """

    way: str
    name: str
    text: str
    key: str = ""
    at: str = ""
    wrong: bool = False
    missing: bool = False
    findings: tuple[Finding, ...] = ()
    body: bytes = b""
    body_bytes: int = 0
    body_sha256: str = ""


class Picture(NamedTuple):
    """All arrows of a cell, and the findings that belong to no single one."""

    messages: tuple[Message, ...]
    findings: tuple[Finding, ...]
    fault: str
    not_drawn: int


def of(case: Case, result: Result) -> Picture:
    """Draw a cell."""
    failed = {check.name: check for check in result.checks if not check.holds}
    wanted = 2 if result.cell.mode is Mode.RETRY else 1
    messages = [_request(result)]
    for number, attempt in enumerate(result.attempts[:_ATTEMPTS_DRAWN]):
        which = ("first", "retry")[number] if number < wanted else ""
        messages += _attempt(case, result, attempt, which, _findings(case, result, failed, which))
    for number in range(len(result.attempts), wanted):
        if result.checks:
            messages.append(_missing(case, ("first", "retry")[number]))
    messages.append(_response(result, _findings(case, result, failed, "client")))
    of_the_cell = (CheckName.ATTEMPT_COUNT, CheckName.ARRIVAL, CheckName.DECLARED_KEYS)
    return Picture(
        messages=tuple(messages),
        findings=tuple(
            _finding(case, result, failed[name]) for name in of_the_cell if name in failed
        ),
        fault="" if result.checks else result.reason,
        not_drawn=max(0, len(result.attempts) - _ATTEMPTS_DRAWN),
    )


def letter(case: Case, key: str | None) -> str:
    """Name a key by its place among those that a case declares; none other is ever shown."""
    if key is None:
        return NO_KEY
    if key not in case.keys:
        return NOT_DECLARED
    place = case.keys.index(key)
    return _LETTERS[place] if place < len(_LETTERS) else f"key {place + 1}"


def _request(result: Result) -> Message:
    sent = result.request
    return Message(
        "request", "client's request", text=f"{sent.method} {sent.target}", body=sent.body
    )


def _attempt(
    case: Case,
    result: Result,
    attempt: Attempt,
    which: str,
    findings: tuple[Finding, ...],
) -> list[Message]:
    start = result.attempts[0].received_mono_ns
    beyond = not which and bool(result.checks)
    name = {"first": "first attempt", "retry": "retry"}.get(which, f"attempt {attempt.order}")
    sent = Message(
        "attempt",
        f"{name}, one too many" if beyond else name,
        text=f"{attempt.method} {attempt.target}",
        key=letter(case, attempt.key),
        at=f"+{(attempt.received_mono_ns - start) / 1e6:.1f} ms",
        wrong=beyond or bool(findings),
        findings=findings,
        body=attempt.body,
        body_bytes=attempt.body_bytes,
        body_sha256=attempt.body_sha256,
    )
    if attempt.answered is None:
        return [sent, Message("answer", "upstream's answer", text=attempt.error or "none")]
    at = f"+{(attempt.answered_mono_ns - start) / 1e6:.1f} ms"
    answer = attempt.answered
    text = f"{answer.status}" if answer.status else answer.action or "none"
    return [sent, Message("answer", "upstream's answer", text=text, at=at, body=answer.body)]


def _missing(case: Case, which: str) -> Message:
    wanted = case.upstream
    name = "retry" if which == "retry" else "first attempt"
    text = f"it never came; expected {wanted.method} {wanted.target}"
    return Message("attempt", name, text=text, wrong=True, missing=True)


def _response(result: Result, findings: tuple[Finding, ...]) -> Message:
    response = result.response
    name = "client's response"
    if response is None:
        return Message("response", name, text="none", wrong=True, missing=True)
    return Message(
        "response",
        name,
        text=str(response.status),
        at=f"{response.seconds * 1e3:.1f} ms in all",
        wrong=bool(findings),
        findings=findings,
        body=response.body,
        body_sha256=response.body_sha256,
    )


def _findings(
    case: Case, result: Result, failed: dict[CheckName, Check], which: str
) -> tuple[Finding, ...]:
    """Give what failed of ``first``, ``retry`` or ``client``."""
    mine = [check for name, check in failed.items() if which and name.startswith(f"{which}_")]
    return tuple(_finding(case, result, check) for check in mine if check.actual != NO_ATTEMPT)


def _finding(case: Case, result: Result, check: Check) -> Finding:
    which, _, what = check.name.partition("_")
    expected, actual = words(case, check)
    differs: Difference | None = None
    if what == "body":
        differs = text_diff.of_bodies(check.expected, _body(result, which))
    elif isinstance(check.expected, str) and isinstance(check.actual, str):
        differs = text_diff.of_texts(check.expected, check.actual)
    return Finding(
        check=check.name,
        declared=check.name in result.must_fail,
        what=what.replace("_", " "),
        expected=expected,
        actual=actual,
        difference=differs,
    )


def _body(result: Result, which: str) -> bytes:
    if which == "client":
        return result.response.body if result.response else b""
    place = 0 if which == "first" else 1
    return result.attempts[place].body if place < len(result.attempts) else b""


def words(case: Case, check: Check) -> tuple[str, str]:
    """Return what a check expected and found, as texts; keys by their letters."""
    if check.name is CheckName.DECLARED_KEYS:
        return f"only {_keys(case, check.expected)}", _keys(case, check.actual)
    if check.name.endswith("_key"):
        found = NO_ATTEMPT if check.actual == NO_ATTEMPT else _keys(case, [check.actual])
        return " or ".join(letter(case, key) for key in check.expected) or "none is left", found
    return _text(check.expected), _text(check.actual)


def _keys(case: Case, keys: Iterable[Any]) -> str:
    return ", ".join(letter(case, key) for key in keys) or NO_KEY


def _text(value: Any) -> str:  # noqa: ANN401 - a check's values
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode("utf-8", "replace")


def headers(case: Case, attempt: Attempt) -> Sequence[tuple[str, str]]:
    """Return an attempt's headers; a credential that the case does not declare is not repeated."""
    shown = []
    for name, value in attempt.headers:
        found = credentials.in_headers([(name, value)])
        hidden = any(credential not in case.keys for credential in found)
        shown.append((name, f"({NOT_DECLARED}, {len(value)} characters)" if hidden else value))
    return shown
