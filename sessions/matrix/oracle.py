"""The oracle: from what was observed in a cell to its checks. Pure: anyone can run it again.

It does not ask what the upstream decided: from the journal and the client's response alone it
names every check that failed. Bodies are compared as JSON values, since a plugin may write the
same object in another order.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from containers.exchange import Attempt
from sessions.matrix import credentials, exact_json, masking
from sessions.matrix.case import Mode
from sessions.matrix.checks import Check, CheckName

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from containers.exchange import Response
    from sessions.matrix.case import Case

_SHOWN_BYTES = 60
NO_ATTEMPT = "no such attempt"
# What a retry has otherwise than the first attempt, as a callout of the gateway's: how its body is
# framed, and what client and gateway say of themselves. Credentials have checks of their own.
_NOT_THE_PROVIDERS = re.compile(
    r"content-length|transfer-encoding|accept|user-agent|x-request-id"
    r"|x-forwarded-.*|x-envoy-.*"
)


def judge(
    case: Case,
    mode: Mode,
    attempts: Sequence[Attempt],
    response: Response,
    upstream_address: str,
) -> tuple[Check, ...]:
    """Return every check of a cell, those that hold included.

    Args:
        case: What must hold.
        mode: Whether there must be a retry.
        attempts: Everything that reached the upstream in this cell, in order of arrival.
        response: What the client got.
        upstream_address: The mock's address, where each attempt must have arrived.
    """
    wanted = 2 if mode is Mode.RETRY else 1
    checks = [
        _equal(CheckName.ATTEMPT_COUNT, wanted, len(attempts)),
        _equal(
            CheckName.ARRIVAL,
            [upstream_address] * len(attempts),
            [attempt.arrived_on for attempt in attempts],
        ),
        _only_declared(case, attempts, response),
    ]
    first = attempts[0] if attempts else None
    checks += _attempt("first", case, first, case.keys)
    if mode is Mode.RETRY:
        retry = attempts[1] if len(attempts) > 1 else None
        others = [key for key in case.keys if first is None or key != first.key]
        checks += _attempt("retry", case, retry, others)
        checks.append(_same_headers(first, retry))
    checks += [
        _equal(CheckName.CLIENT_STATUS, case.client.status, response.status),
        _same_json(CheckName.CLIENT_BODY, case.client.json, response),
    ]
    return tuple(checks)


def _attempt(which: str, case: Case, attempt: Attempt | None, keys: Sequence[str]) -> list[Check]:
    """Check one attempt against what must reach the upstream; a missing one fails each check."""
    key, method, path, body = (
        CheckName(f"{which}_{part}") for part in ("key", "method", "path", "body")
    )
    wanted = case.upstream
    if attempt is None:
        expected: dict[CheckName, Any] = {
            key: list(keys),
            method: wanted.method,
            path: wanted.target,
            body: wanted.json,
        }
        return [
            Check(name=name, expected=value, actual=NO_ATTEMPT, holds=False)
            for name, value in expected.items()
        ]
    return [
        Check(name=key, expected=list(keys), actual=attempt.key, holds=attempt.key in keys),
        _equal(method, wanted.method, attempt.method),
        _equal(path, wanted.target, attempt.target),
        _same_json(body, wanted.json, attempt),
    ]


def _same_headers(first: Attempt | None, retry: Attempt | None) -> Check:
    """Check that a retry has every header that the provider set as the first attempt had it."""
    expected, actual = (of_provider(each) if each else NO_ATTEMPT for each in (first, retry))
    holds = first is not None and expected == actual
    return Check(name=CheckName.RETRY_HEADERS, expected=expected, actual=actual, holds=holds)


def of_provider(seen: Attempt | Response) -> list[list[str]]:
    """Return the headers that a provider may have set, in the order of their names.

    An attempt's host is one of them.
    """
    host = [("host", seen.host)] if isinstance(seen, Attempt) else []
    return sorted(
        [name, value]
        for name, value in (*host, *seen.headers)
        if not _NOT_THE_PROVIDERS.fullmatch(name) and not credentials.in_headers([(name, value)])
    )


def _equal(name: CheckName, expected: Any, actual: Any) -> Check:  # noqa: ANN401 - a check's values
    return Check(name=name, expected=expected, actual=actual, holds=expected == actual)


def _same_json(name: CheckName, expected: Any, message: Attempt | Response) -> Check:  # noqa: ANN401 - likewise
    """Check a body, and that it ends where its content-length says."""
    try:
        holds = exact_json.same(exact_json.exactly(expected), exact_json.read(message.body))
    except ValueError:
        holds = False
    actual, more = exact_json.shown(message.body), message.trailing
    if more:
        first = more[:_SHOWN_BYTES].decode("utf-8", "replace")
        actual = {"body": actual, "beyond its end": f"{len(more)} bytes, the first: {first}"}
    return Check(name=name, expected=expected, actual=actual, holds=holds and not more)


def _only_declared(case: Case, attempts: Sequence[Attempt], response: Response) -> Check:
    """Check every credential of every attempt, also of those that must not be there at all.

    One that stood in another place than a header's, or came back to the client, is known by the
    mask that was put in its place (see masking); a declared key there has leaked.
    """
    carried = [key for attempt in attempts for key in credentials.in_headers(attempt.headers)]
    texts = [*masking.texts_of_attempts(attempts), *masking.texts_of_response(response)]
    found = dict.fromkeys(mask for text in texts for mask in credentials.masks(text))
    carried += [mask for mask in found if mask not in carried]
    carried += _leaked(case.keys, attempts, response)
    return Check(
        name=CheckName.DECLARED_KEYS,
        expected=list(case.keys),
        actual=carried,
        holds=all(key in case.keys for key in carried),
    )


def _leaked(keys: Sequence[str], attempts: Sequence[Attempt], response: Response) -> Iterator[str]:
    """Name each declared key that is where it must not be.

    Its place is in the headers for credentials, of the attempts that were made with it.
    """
    places = {"the response": [*masking.texts_of_response(response)]}
    for attempt in attempts:
        its_own = {attempt.key} if attempt.key else set(keys)
        others = tuple(
            header
            for header in attempt.headers
            if not its_own.issuperset(credentials.in_headers([header]) or {""})
        )
        bare = msgspec.structs.replace(attempt, headers=others)
        places[f"attempt {attempt.order}"] = [*masking.texts_of_attempts([bare])]
    for place, texts in places.items():
        yield from (f"{key} in {place}" for key in keys if any(key in text for text in texts))
