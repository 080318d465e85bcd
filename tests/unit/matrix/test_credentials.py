"""What has the shape of a credential is masked whole; what only looks long is none."""

from __future__ import annotations

import base64
import hashlib
import time

import pytest

from sessions.matrix import credentials

# Made up, and put together here so that no scanner takes this file for a leak.
HEX32 = hashlib.md5(b"none", usedforsecurity=False).hexdigest()
ALNUM = "Ab3dEf7hIj1lMn0pQr5tUv9xYz2bCd4fGh6jKl8n"
AWS_ID = "AKIA" + "IOSFODNN7EXAMPLE"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"
JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJpc3MiOiJhayJ9." + "c2lnbmF0dXJl_-0"
PEM = (
    "-----BEGIN " + "RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0A\n\n"
    "MIIEow+/=\nIBAAK=\n-----END " + "RSA PRIVATE KEY-----"
)
SHAPES = {
    "OpenAI": "sk-" + ALNUM[:24],
    "Anthropic": "sk-ant-api03-" + ALNUM[:24],
    "Groq": "gsk_" + ALNUM[:20],
    "Perplexity": "pplx-" + ALNUM[:20],
    "GitLab": "glpat-" + ALNUM[:20],
    "a GitLab job": "glcbt-64_" + ALNUM[:20],
    "Google, a token": "ya29." + ALNUM[:30],
    "Google, an API key": "AIza" + ALNUM[:35],
    "Google, a client": "GOCSPX-" + ALNUM[:28],
    "Zhipu": f"{HEX32}.{ALNUM[:16]}",
    "Baidu": f"bce-v3/ALTAK-{ALNUM[:21]}/{HEX32}{HEX32[:8]}",
    "AWS": AWS_ID,
    "Alibaba Cloud": "LTAI" + ALNUM[:20],
    "Tencent Cloud": "AKID" + ALNUM[:32],
    "Slack": "xoxb-" + "123456789012-" + ALNUM[:12],
    "Slack, an app": "xapp-1-" + ALNUM[:20],
    "GitHub": "ghp_" + ALNUM[:36],
    "GitHub, a server": "ghs_" + ALNUM[:36],
    "GitHub, fine-grained": "github_pat_" + ALNUM[:36],
    "npm": "npm_" + ALNUM[:36],
    "a JSON Web Token": JWT,
    "a private key": PEM,
    "a private key on one line": PEM.replace("\n", "\\n"),
}


@pytest.mark.parametrize("before", ["", "got ", '{"x":"', "=", "é"])
@pytest.mark.parametrize("secret", SHAPES.values(), ids=SHAPES)
def test_a_credential_is_masked_whole_wherever_it_stands(secret: str, before: str) -> None:
    after = '"} and more' if before else ""
    text = f"{before}{secret}{after}"
    masked = credentials.masked(text)
    assert masked == f"{before}masked-{len(secret)}-characters{after}"
    assert credentials.masked(masked) == masked
    assert secret in credentials.by_shape(text)
    assert [*credentials.by_shape(masked)] == []


NAMED = {
    'authorization: Basic {}"': base64.b64encode(b"me:pass").decode(),
    '[2]string{{"authorization", "Basic {}"}}': base64.b64encode(b"someone:something").decode(),
    '["Authorization","Bearer {}"]': "only-lower-case",
    "-H 'Authorization: {}'": "plain-0123456789",
    "Bearer {} was sent": "abcdefghijklmnopqrstuvwxyz",
    "aws_secret_access_key = {}\n": AWS_SECRET,
    '"secretAccessKey":"{}"': AWS_SECRET,
    "accessKey={},": ALNUM,
    '{{"apiTokens":["{}"]}}': ALNUM[:20],
    '{{\\"appSecret\\":\\"{}\\"}}': ALNUM[:20],
    "https://me:{}@example.org/x": "pa55word",
    "/v1?api_key={}&x=1": "abc",
}


@pytest.mark.parametrize(("text", "secret"), NAMED.items(), ids=NAMED)
def test_a_credential_is_known_by_what_stands_before_it(text: str, secret: str) -> None:
    masked = credentials.masked(text.format(secret))
    assert masked == text.format(f"masked-{len(secret)}-characters")
    assert credentials.masked(masked) == masked


def test_a_secret_beside_its_key_s_id_is_known_too() -> None:
    text = f"{AWS_ID} / {AWS_SECRET}\n"
    assert credentials.masked(text) == "masked-20-characters / masked-40-characters\n"


def test_what_two_shapes_see_in_one_place_has_one_mask() -> None:
    text = f"Bearer {JWT}, key sk-{ALNUM}"
    assert credentials.masked(text) == (
        f"Bearer masked-{len(JWT)}-characters, key masked-{3 + len(ALNUM)}-characters"
    )


def test_where_the_second_of_two_shapes_reaches_further_the_mask_does_too() -> None:
    text = f"sk-live-{JWT}"
    first, second = sorted(credentials.spans(text))
    assert first[0] < second[0] < first[1] < second[1] == len(text)
    assert credentials.masked(f"got {text}.") == f"got masked-{len(text)}-characters."


def test_a_letter_that_is_longer_in_lower_case_moves_no_mask() -> None:
    key = SHAPES["OpenAI"]
    assert len("İ".lower()) == 2
    assert credentials.masked(f"İİ {key} é") == f"İİ masked-{len(key)}-characters é"


@pytest.mark.parametrize("between", ["\n", "\\n", "\r\n", "\n    "])
def test_the_end_of_a_private_key_is_masked_with_the_lines_before_it(between: str) -> None:
    rest = between.join(["MIIEow+/=", "IBAAK=", PEM.splitlines()[-1]])
    assert credentials.masked(f'x: "{rest}" y') == f'x: "masked-{len(rest)}-characters" y'
    assert [*credentials.by_shape(f'x: "{rest}" y')] == [rest]
    assert [*credentials.by_shape(PEM)] == [PEM]


def test_a_private_key_that_is_cut_is_masked_as_far_as_it_goes() -> None:
    cut = PEM.replace("Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0A\n\n", "")[:45]
    assert credentials.masked(f"{cut}. Then") == f"masked-{len(cut)}-characters. Then"


DUMMIES = ("dummy-key-a", "dummy-key-b1", "dummy-secret-0123456789")


@pytest.mark.parametrize("dummy", DUMMIES)
@pytest.mark.parametrize("text", ["Bearer {}", 'authorization: "{}"', "apiKey={}", "?key={}", "{}"])
def test_a_dummy_stays(text: str, dummy: str) -> None:
    assert credentials.masked(text.format(dummy)) == text.format(dummy)


SHA = hashlib.sha256(b"x").hexdigest()
NONE = (
    SHA,
    f"sha256:{SHA}",
    f"{SHA}  logs/access.log",
    f"main@{SHA[:40]}",
    f"commit {SHA[:40]}.",
    f"{SHA[:32]}.wasm",
    f"/cache/{SHA}.wasm.0123456789abcdef",
    f"{HEX32}.{ALNUM[:15]}",
    f"{HEX32}.{ALNUM[:17]}",
    f"style-src 'sha256-{base64.b64encode(hashlib.sha256(b'x').digest()).decode()}'",
    "v1.0.10-0.20260120033417-1c84f010156d",
    "id: d635d1b4-320e-4ee0-be7d-6c01079e8bc4, cluster: mock-upstream",
    "videos: retry 1 of at most 1 is out with token #1 of 2",
    '"first_keys": {"dummy-key-a": 9}, "retry_key", "actual": "dummy-key-b"',
    "a bearer of tokens, basic words, an authorization, a secret: kept",
    "authorization: (not declared, 24 characters)",
    "apiKey := provider.NewKey(ctx, 1234567890123456)",
    "task-list-of-everything ask-me_anything_at_all",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "-----BEGIN SSH SIGNATURE-----\nU1NI\n-----END SSH SIGNATURE-----",
    "http://127.0.0.1:8080/x@y",
)


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_credential_stays(text: str) -> None:
    assert [*credentials.by_shape(text)] == []
    assert credentials.masked(text) == text


def test_a_long_text_is_searched_in_a_moment() -> None:
    line = f'{{"authorization":"Bearer dummy-key-a","sha256":"{SHA}","x":"a.b.c & token; key"}}\n'
    text = line * 40_000
    start = time.perf_counter()
    assert credentials.masked(text) == text
    assert time.perf_counter() - start < 10
