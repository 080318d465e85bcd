"""Credentials: what counts as one, so that only declared dummies are sent, seen and recorded.

Two ways to know one: by the name of the field that holds it, and by its own shape wherever it
stands. Names are judged in plugin configurations and headers only; in a model's messages "token"
is an everyday word.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_DUMMY = re.compile(r"dummy-[a-z0-9-]+")
_MASK = re.compile(r"masked-\d+-characters")
_SCHEME = re.compile(r"(bearer|basic|token)\s+", re.IGNORECASE)

# Of a field's name in lower case, without dashes and underscores: apiTokens, x-api-key,
# klingSecretKey, hunyuanAuthId, awsAccessKey, vertexAuthKey, Proxy-Authorization.
_NAME = re.compile(
    r"token|secret|passw|passphrase|pwd|credential|authorization|cookie|signature|authid"
    r"|(api|access|private|auth|signing|subscription|account)key|^(auth|ak|sk)$"
)
_NAMES_A_FIELD = {"name", "key", "header", "headername", "field"}

# Each has the credential as its last group.
_SHAPES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?i)\bbearer\s+(?=\S*\d)([\w.~+/=-]{8,})",
        r"\b[Bb]asic\s+(?=\S*[\d=])([\w+/]{8,}=*)(?![\w.-])",
        r"\b((?:sk|rk|pk)[-_][\w-]{8,})",  # OpenAI, Anthropic, DashScope, DeepSeek, Stripe
        r"\b((?:gsk|hf|r8|xai|nvapi)[-_]\w{16,})",  # Groq, Hugging Face, Replicate, xAI, NVIDIA
        r"\b((?:AKIA|ASIA)[0-9A-Z]{12,})",  # AWS
        r"\b(LTAI\w{12,})",  # Alibaba Cloud
        r"\b(AKID\w{13,})",  # Tencent Cloud
        r"\b(AIza[\w-]{20,})",  # Google
        r"\b(gh[oprsu]_\w{20,}|github_pat_\w{20,})",
        r"\b(xox[abprs]-[\w-]{8,})",  # Slack
        r"\b(eyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*)",  # a JSON Web Token
        r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)",
        r"://[^/\s:@]*:([^/\s@]+)@",  # a URL's password
        # A parameter in a URL
        r"(?i)[?&;](?:(?:api[-_]?)?key|(?:access[-_]?)?token|secret|sig(?:nature)?|password)=([^&#\s]+)",
    )
)


def is_dummy(text: str) -> bool:
    """Whether a credential is plainly none: dummy- and lower-case letters, digits, dashes."""
    return _DUMMY.fullmatch(text) is not None


def by_name(value: Any, path: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - TOML's values
    """Give path and credential of every field below a value whose name says it holds one."""
    if isinstance(value, dict):
        names = [text for key, text in value.items() if _plain(key) in _NAMES_A_FIELD]
        holds_one = any(isinstance(name, str) and _NAME.search(_plain(name)) for name in names)
        for key, below in value.items():
            if _NAME.search(_plain(key)) or (holds_one and "value" in _plain(key)):
                for where, text in texts(below, f"{path}.{key}"):
                    yield where, _SCHEME.sub("", text, count=1)
            else:
                yield from by_name(below, f"{path}.{key}")
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from by_name(below, f"{path}[{number}]")


def by_shape(text: str) -> Iterator[str]:
    """Give every part of a text that has the shape of a credential; a mask is none."""
    for shape in _SHAPES:
        for found in shape.finditer(text):
            credential = found.group(found.lastindex or 0)
            if not _MASK.fullmatch(credential):
                yield credential


def mask(credential: str) -> str:
    """Return what is written in a credential's place; a dummy is no credential, and stays."""
    if is_dummy(credential) or _MASK.fullmatch(credential) or not credential:
        return credential
    return f"masked-{len(credential)}-characters"


def masked(text: str) -> str:
    """Return a text with a mask for every part that has the shape of a credential."""
    for shape in _SHAPES:
        text = shape.sub(_mask_found, text)
    return text


def masked_headers(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return headers with a mask for every credential, known by its header's name or its shape."""
    return tuple(
        (name, _mask_named(value) if _NAME.search(_plain(name)) else masked(value))
        for name, value in headers
    )


def masks(text: str) -> tuple[str, ...]:
    """Return every mask in a text."""
    return tuple(_MASK.findall(text))


def in_headers(headers: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return every credential that a request carried, by the names of its headers."""
    carried = [value for name, value in headers if _NAME.search(_plain(name))]
    return tuple(_SCHEME.sub("", value, count=1).strip() for value in carried)


def texts(value: Any, path: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - TOML's values
    """Give path and text of every text in a value that is not empty."""
    if isinstance(value, str):
        if value:
            yield path, value
    elif isinstance(value, dict):
        for key, below in value.items():
            yield from texts(below, f"{path}.{key}")
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from texts(below, f"{path}[{number}]")


def field_names(value: Any, path: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - likewise
    """Give path and name of every field in a value; the path is the table's, not the field's."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield path, key
            yield from field_names(below, f"{path}.{key}")
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from field_names(below, f"{path}[{number}]")


def _mask_found(found: re.Match[str]) -> str:
    group = found.lastindex or 0
    start, end = (place - found.start() for place in found.span(group))
    return found[0][:start] + mask(found[group]) + found[0][end:]


def _mask_named(value: str) -> str:
    scheme = _SCHEME.match(value)
    start = scheme.end() if scheme else 0
    return value[:start] + mask(value[start:].strip())


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
