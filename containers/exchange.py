"""What passes through a testbed: the client's request and response, and the attempts upstream.

The upstream's journal is read with the same records that evidence is written with. Bodies are
bytes here and base64 in JSON; header names are lower-case, repeated headers stay repeated.
"""

from __future__ import annotations

import msgspec

Headers = tuple[tuple[str, str], ...]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A client's request, as it is sent: these headers, and no others."""

    method: str
    target: str
    headers: Headers
    body: bytes = msgspec.field(name="body_base64", default=b"")
    body_sha256: str = ""


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """What the client got back.

    Attributes:
        body: As it was sent, whatever its content-encoding.
        trailing: What followed the end of the response on its connection; nothing may.
        seconds: From the first byte sent to the last one read.
    """

    status: int
    headers: Headers
    body: bytes = msgspec.field(name="body_base64")
    body_sha256: str
    trailing: bytes = msgspec.field(name="trailing_base64", default=b"")
    seconds: float


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the upstream answered to an attempt."""

    status: int = 0
    headers: Headers = ()
    body: bytes = msgspec.field(name="body_base64", default=b"")
    action: str = ""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One request that reached the upstream, as it saw it.

    Attributes:
        order: From 1, by arrival within the cell.
        received_mono_ns: Nanoseconds since the upstream started.
        target: Path and query, as sent.
        body_bytes: The whole body's length, also where only its beginning was kept.
        trailing: What followed the body on its connection, beyond its content-length; nothing may.
        arrived_on: The upstream's own address that the attempt came in on.
        answered: None while it was under way.
        error: What broke the exchange off, if anything did.
        matched: Whether it was what the script's step wanted; ``unmet`` names what was not.
    """

    order: int
    sequence: int
    epoch: int
    received_at: str
    received_mono_ns: int
    method: str
    target: str
    host: str
    proto: str
    headers: Headers
    body: bytes = msgspec.field(name="body_base64")
    body_bytes: int
    body_sha256: str
    truncated: bool
    trailing: bytes = msgspec.field(name="trailing_base64", default=b"")
    arrived_on: str
    from_: str = msgspec.field(name="from")
    step: str
    matched: bool
    unmet: tuple[str, ...]
    answered: Answer | None
    answered_mono_ns: int
    error: str = ""

    def header(self, name: str) -> str | None:
        """Return a header's first value, or None."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def key(self) -> str | None:
        """The bearer credential it carried; None for none, and for more than one header of them."""
        found = [value for name, value in self.headers if name == "authorization"]
        if len(found) != 1:
            return None
        scheme, _, credential = found[0].partition(" ")
        return credential.strip() or None if scheme.lower() == "bearer" else None


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """What reached the upstream since it was last reset.

    Attributes:
        complete: Nothing was under way any more and every body was kept whole.
        late: Attempts of an earlier cell that ended after its journal was read.
    """

    epoch: int
    in_flight: int
    complete: bool
    late: tuple[Attempt, ...] = ()
    attempts: tuple[Attempt, ...] = ()
