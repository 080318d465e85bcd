"""Credentials: what counts as one, so that only declared dummies are sent, seen and recorded.

Two ways to know one: by the name of the field that holds it, and by its own shape wherever it
stands. Names are judged in plugin configurations and headers only; in a model's messages "token"
is an everyday word.
"""

from __future__ import annotations

import functools
import re
import string
from typing import TYPE_CHECKING, Any, NamedTuple

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
_KEY_ENDS = re.compile(r"-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
# What a private key is written with, and how far before its end it may reach.
_OF_A_KEY = string.ascii_letters + string.digits + "+/=\\" + string.whitespace
_KEY_AT_MOST = 20_000
_SMALL, _REMEMBERED = 4_096, 4_096
_LARGE, _REMEMBERED_LARGE = 8 << 20, 8
_NAMES_A_FIELD = {"name", "key", "header", "headername", "field"}


class _Shape(NamedTuple):
    """How a kind of credential looks.

    Attributes:
        starts: What it may start with, in lower case: a long text is searched for these, and the
            pattern is tried where one stands. None where searching for the pattern is as quick.
        pattern: The credential is its last group.
        before: How many characters before that group belong to it too.
    """

    starts: tuple[str, ...]
    pattern: re.Pattern[str]
    before: int = 0


def _shape(starts: str, pattern: str, before: int = 0) -> _Shape:
    return _Shape(tuple(starts.split()), re.compile(pattern, re.ASCII), before)


_DIGIT = r"(?=[\w.~+/=-]*\d)"
_MIXED = r"(?=[\w+/=~-]*\d)(?=[\w+/=~-]*[A-Za-z])"
_SHAPES = (
    _shape("bearer", rf"(?i)\bbearer\s+({_DIGIT}[\w.~+/=-]{{8,}}|[\w.~+/=-]{{20,}})"),
    _shape("basic", r"(?i)\bbasic\s+(?=\S*[\d=])([\w+/]{8,}=*)(?![\w.-])"),
    # A header in a log: `authorization: Basic ...`, `"authorization", "..."`, `authorization=...`
    _shape(
        "authorization",
        r"(?i)authorization[\"'\\]*\s*[:=,]\s*[\[\"'\\]*"
        rf"(?:(?:basic|bearer|token)\s+([\w.~+/=-]{{4,}})|({_DIGIT}[\w.~+/=-]{{8,}}))",
    ),
    # OpenAI, Anthropic, DashScope, DeepSeek, Stripe
    _shape("sk- sk_ rk- rk_ pk- pk_", r"\b((?:sk|rk|pk)[-_][\w-]{8,})"),
    _shape(
        "gsk- gsk_ hf- hf_ r8- r8_ xai- xai_ nvapi- nvapi_ pplx-",
        r"\b((?:gsk|hf|r8|xai|nvapi|pplx)[-_]\w{16,})",  # Groq, Hugging Face, Replicate, NVIDIA
    ),
    _shape("akia asia", r"\b((?:AKIA|ASIA)[0-9A-Z]{12,})"),  # AWS, the key's id
    _shape(
        "akia asia",  # AWS, the secret beside it
        r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b[^\n]{1,80}?(?<![\w/+=])"
        r"((?=[^\s]{0,39}[G-Zg-z+/])[A-Za-z0-9/+]{40})(?![\w/+=])",
    ),
    _shape("ltai", r"\b(LTAI\w{12,})"),  # Alibaba Cloud
    _shape("akid", r"\b(AKID\w{13,})"),  # Tencent Cloud
    _shape("bce-v3/", r"\b(bce-v3/ALTAK-\w+/\w{20,})"),  # Baidu
    _shape("", r"\.(?<=(?<![\w.])[0-9a-f]{32}\.)([A-Za-z0-9]{16})(?![\w.])", 33),  # Zhipu
    _shape("aiza", r"\b(AIza[\w-]{20,})"),  # Google: an API key,
    _shape("ya29.", r"\b(ya29\.[\w-]{16,})"),  # a token,
    _shape("gocspx-", r"\b(GOCSPX-[\w-]{16,})"),  # a client's secret
    _shape("gho_ ghp_ ghr_ ghs_ ghu_", r"\b(gh[oprsu]_\w{20,})"),
    _shape("github_pat_", r"\b(github_pat_\w{20,})"),
    _shape("gl", r"\b(gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat)-[\w.-]{16,})"),  # GitLab
    _shape("xox", r"\b(xox[a-z]-[\w-]{8,})"),  # Slack
    _shape("xapp-", r"\b(xapp-[\w-]{8,})"),
    _shape("npm_ pypi- dckr_pat_", r"\b((?:npm_|pypi-|dckr_pat_)(?=[\w-]*\d)[\w-]{24,})"),
    _shape("eyj", r"\b(eyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*)"),  # a JSON Web Token
    _shape(
        "-----begin",  # to its end, or as far as it was written
        r"(-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[\s\S]{0,20000}?-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:(?!masked-\d)[\w+/=\s\\])*))",
    ),
    _shape("://", r"://[^/\s:@]*:([^/\s@]+)@"),  # a URL's password
    _shape(
        "",  # a parameter in a URL
        r"(?i)[?&;](?:(?:api[-_]?)?key|(?:access[-_]?)?token|secret|sig(?:nature)?|password)=([^&#\s\"'`<>\\,;)\]}]+)",
    ),
    # A field by its name, in whatever notation: secret_access_key = ..., "apiToken": ["..."]
    _shape(
        "access account api app auth client private secret signing subscription",
        r"(?i)(?:access|account|api|app|auth|client|private|secret|signing|subscription)"
        r"[-_ ]?(?:access[-_ ]?)?(?:key|secret|token|password)s?[\"'\\]*\s*[:=]\s*[\[\"'\\]*"
        rf"({_MIXED}[\w+/=~-]{{16,}})(?![\w.(])",
    ),
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
    for start, end in spans(text):
        yield text[start:end]


def mask(credential: str) -> str:
    """Return what is written in a credential's place; a dummy is no credential, and stays."""
    if is_dummy(credential) or _MASK.fullmatch(credential) or not credential:
        return credential
    return f"masked-{len(credential)}-characters"


def masked(text: str) -> str:
    """Return a text with a mask for every part that has the shape of a credential."""
    found = spans(text)
    return masked_at(text, ((s, e) for s, e in found if not is_dummy(text[s:e])))


def masked_at(text: str, places: Iterable[tuple[int, int]]) -> str:
    """Return a text with a mask at each place; one for what two shapes see in one place."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    parts, done = [], 0
    for start, end in found:
        parts += [text[done:start], mask(text[start:end])]
        done = end
    return "".join([*parts, text[done:]])


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


def spans(text: str) -> Iterable[tuple[int, int]]:
    """Give where in a text each part stands that has the shape of a credential."""
    # Headers, paths and bodies of a matrix are few and small, and come again in every repeat.
    if len(text) <= _SMALL:
        return _remembered(text)
    # A large body too: as the client sent it, and as it reached the upstream.
    return _remembered_large(text) if len(text) <= _LARGE else _look(text)


@functools.lru_cache(_REMEMBERED)
def _remembered(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(_look(text))


@functools.lru_cache(_REMEMBERED_LARGE)
def _remembered_large(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(_look(text))


def _look(text: str) -> Iterator[tuple[int, int]]:
    lower = text.lower()
    if len(lower) != len(text):
        # Only ASCII is looked for; a few letters are longer in lower case.
        lower = "".join(c.lower() if c.isascii() else c for c in text)
    ends = set()
    for shape in _SHAPES:
        for found in _matches(shape, text, lower):
            start, end = found.span(found.lastindex or 0)
            if not _MASK.fullmatch(text, start - shape.before, end):
                ends.add(end)
                yield start - shape.before, end
    yield from ((start, end) for start, end in _ends_of_keys(text, lower) if end not in ends)


def _ends_of_keys(text: str, lower: str) -> Iterator[tuple[int, int]]:
    """Give where the last part of each private key stands, whose beginning may be elsewhere."""
    for place in _places(lower, "-----end"):
        found = _KEY_ENDS.match(text, place)
        if found is not None:
            before = text[max(0, place - _KEY_AT_MOST) : place]
            masked = max((each.end() for each in _MASK.finditer(before)), default=0)
            lines = before[max(len(before.rstrip(_OF_A_KEY)), masked) :].lstrip()
            yield place - len(lines), found.end()


def _matches(shape: _Shape, text: str, lower: str) -> Iterator[re.Match[str]]:
    if not shape.starts:
        yield from shape.pattern.finditer(text)
        return
    places = [place for start in shape.starts for place in _places(lower, start)]
    end = 0
    for place in sorted(places) if len(shape.starts) > 1 else places:
        found = shape.pattern.match(text, place) if place >= end else None
        if found is not None:
            end = found.end()
            yield found


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _mask_named(value: str) -> str:
    scheme = _SCHEME.match(value)
    start = scheme.end() if scheme else 0
    return value[:start] + mask(value[start:].strip())


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
