"""Masking: no credential but a dummy is ever judged, shown or written.

What was observed is masked before it is judged, so that the same again follows from what is
written; the check ``declared_keys`` fails wherever a mask stands, and with it the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sessions.matrix import credentials
from wasm.records import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from containers.endings import Ending
    from containers.exchange import Attempt, Response
    from sessions.matrix.records import Observation

# Every byte is a character in it, so that what is no text is kept as it is.
_BYTES = "latin-1"


def masked(seen: Observation) -> Observation:
    """Return an observation with a mask in the place of every credential that is no dummy.

    A body that is masked has the length and the SHA-256 of what is left.
    """
    response = seen.response
    return msgspec.structs.replace(
        seen,
        attempts=tuple(_masked_attempt(attempt) for attempt in seen.attempts),
        response=response and _masked_response(response),
        fault=credentials.masked(seen.fault),
    )


def masked_ending(ending: Ending | None) -> Ending | None:
    """Return what the access log says of a request, masked: details are a plugin's own words."""
    if ending is None:
        return None
    return msgspec.structs.replace(ending, details=credentials.masked(ending.details))


def texts_of_attempts(attempts: Sequence[Attempt]) -> Iterator[str]:
    """Give every text of some attempts in which a credential may have stood."""
    for attempt in attempts:
        yield from (attempt.target, attempt.host, attempt.error)
        yield attempt.body.decode(_BYTES)
        yield attempt.trailing.decode(_BYTES)
        yield from (text for header in attempt.headers for text in header)


def texts_of_response(response: Response) -> Iterator[str]:
    """Give every text of a response in which a credential may have stood."""
    yield response.body.decode(_BYTES)
    yield response.trailing.decode(_BYTES)
    yield from (text for header in response.headers for text in header)


def _masked_attempt(attempt: Attempt) -> Attempt:
    body = _masked_body(attempt.body)
    attempt = msgspec.structs.replace(
        attempt,
        target=credentials.masked(attempt.target),
        host=credentials.masked(attempt.host),
        error=credentials.masked(attempt.error),
        trailing=_masked_body(attempt.trailing),
        headers=credentials.masked_headers(attempt.headers),
    )
    if body == attempt.body:
        return attempt
    return msgspec.structs.replace(
        attempt, body=body, body_bytes=len(body), body_sha256=sha256_of(body)
    )


def _masked_response(response: Response) -> Response:
    body, trailing = _masked_body(response.body), _masked_body(response.trailing)
    headers = credentials.masked_headers(response.headers)
    if (body, trailing, headers) == (response.body, response.trailing, response.headers):
        return response
    return msgspec.structs.replace(
        response, headers=headers, body=body, body_sha256=sha256_of(body), trailing=trailing
    )


def _masked_body(body: bytes) -> bytes:
    return credentials.masked(body.decode(_BYTES)).encode(_BYTES)
