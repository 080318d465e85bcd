"""Case files: what is taken, and the sentence for each that is not."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from sessions.matrix import case as cases
from sessions.matrix.case import Case, Mode
from wasm.foundation.errors import CaseError
from wasm.records import Variant

if TYPE_CHECKING:
    from pathlib import Path

DEFECT = {"retry_path", "retry_body", "client_status", "client_body"}

GOOD = """\
name = "good"
title = "A case that is all right"
keys = ["dummy-key-a", "dummy-key-b"]
modes = ["retry", "direct"]

[plugin.provider]
type = "kling"
apiTokens = ["dummy-key-a", "dummy-key-b"]

[request]
method = "POST"
target = "/v1/videos"
json = { model = "m1", seed = 1 }

[upstream]
method = "POST"
target = "/v1/videos/text2video"
json = { model_name = "m1" }

[failure]
status = 503
json = { code = 1 }

[success]
status = 200
json = { code = 0 }

[client]
status = 200
json = { code = 0 }

[must_fail]
retry = ["retry_path"]
"""


def read(folder: Path, text: str) -> Case:
    file = folder / "bad.toml"
    file.write_text(text, encoding="utf-8")
    return cases.read(file)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(CaseError) as caught:
        read(folder, text)
    return str(caught.value)


def test_the_three_bundled_cases_load_in_the_order_of_their_files() -> None:
    loaded = cases.load()
    assert [case.name for case in loaded] == [
        "kling-image-to-video",
        "kling-text-to-video",
        "openai-chat",
    ]
    assert all(case.modes == [Mode.RETRY, Mode.DIRECT] for case in loaded)
    assert all(case.keys == ["dummy-key-a", "dummy-key-b"] for case in loaded)


def test_the_bundled_video_retries_must_fail_on_the_baseline_alone_and_the_control_nowhere() -> (
    None
):
    must_fail = {
        (case.name, variant, mode): set(case.expected_failures(variant, mode))
        for case in cases.load()
        for variant in Variant
        for mode in Mode
    }
    assert {key: checks for key, checks in must_fail.items() if checks} == {
        ("kling-image-to-video", Variant.BASELINE, Mode.RETRY): DEFECT,
        ("kling-text-to-video", Variant.BASELINE, Mode.RETRY): DEFECT,
    }


def test_text_to_video_keeps_its_query_and_maps_its_model() -> None:
    """T18, as the bundled case declares it."""
    (case,) = cases.load(glob="kling-text-to-video")
    assert case.request.target == "/v1/videos?trace=1"
    assert case.request.json["model"] == "m1"
    assert case.plugin["provider"]["modelMapping"] == {"m1": "up-m1"}
    assert case.upstream.target == "/v1/videos/text2video?trace=1"
    assert case.upstream.json["model_name"] == "up-m1"


def test_a_case_without_modes_runs_in_both_and_without_must_fail_must_hold(tmp_path: Path) -> None:
    text = GOOD.replace('modes = ["retry", "direct"]\n', "").replace(
        '[must_fail]\nretry = ["retry_path"]\n', ""
    )
    case = read(tmp_path, text)
    assert case.modes == [Mode.RETRY, Mode.DIRECT]
    assert case.expected_failures(Variant.BASELINE, Mode.RETRY) == frozenset()


CHECKS = (
    "attempt_count, arrival, first_key, first_method, first_path, first_body, retry_key, "
    "retry_method, retry_path, retry_body, retry_headers, client_status, client_body"
)
DIRECT_CHECKS = (
    "attempt_count, arrival, first_key, first_method, first_path, first_body, client_status, "
    "client_body"
)
TOP_FIELDS = (
    "name, title, keys, plugin, request, upstream, failure, success, client, modes, must_fail"
)

# What is put for what in the good case, and the sentence that follows.
MALFORMED = {
    "not TOML": (
        'title = "A',
        "title = A",
        (
            "bad.toml cannot be read as TOML: Invalid value (at line 2, column 9); expected a case "
            "as in sessions/matrix/cases; mend the file"
        ),
    ),
    "unknown field": (
        "modes =",
        "mode =",
        (
            f"bad.toml: the top level: found the unknown field mode, expected no other than "
            f"{TOP_FIELDS}; mend the file"
        ),
    ),
    "unknown field below": (
        'method = "POST"\ntarget = "/v1/videos"',
        'method = "POST"\nheaders = []\ntarget = "/v1/videos"',
        (
            "bad.toml: request: found the unknown field headers, expected no other than method, "
            "target, json; mend the file"
        ),
    ),
    "unknown field of an answer": (
        "status = 503",
        "status = 503\nbody = 1",
        (
            "bad.toml: failure: found the unknown field body, expected no other than status, json; "
            "mend the file"
        ),
    ),
    "missing field": (
        'title = "A case that is all right"\n',
        "",
        (
            "bad.toml: the top level: found no field title, expected one; it says what the case "
            "shows, in a few words; mend the file"
        ),
    ),
    "missing field below": (
        "json = { model_name",
        "#",
        "bad.toml: upstream: found no field json, expected one; it is the body; mend the file",
    ),
    "wrong type": (
        'keys = ["dummy-key-a", "dummy-key-b"]',
        'keys = "dummy-key-a"',
        "bad.toml: keys: found a text, expected a list; mend the file",
    ),
    "wrong type in a list": (
        'keys = ["dummy-key-a", "dummy-key-b"]',
        "keys = [7]",
        "bad.toml: keys[0]: found a whole number, expected a text; mend the file",
    ),
    "a truth for a status": (
        "status = 503",
        "status = true",
        "bad.toml: failure.status: found true or false, expected a whole number; mend the file",
    ),
    "a fraction for a status": (
        "status = 503",
        "status = 503.0",
        (
            "bad.toml: failure.status: found a number with a fraction, expected a whole number; "
            "mend the file"
        ),
    ),
    "a date for a title": (
        'title = "A case that is all right"',
        "title = 2026-01-01",
        "bad.toml: title: found a date, expected a text; mend the file",
    ),
    "bad name": (
        'name = "good"',
        'name = "Not Kebab"',
        (
            "bad.toml: name: found 'Not Kebab', expected kebab-case such as kling-text-to-video; "
            "mend the file"
        ),
    ),
    "a path for a name": (
        'name = "good"',
        'name = "../good"',
        (
            "bad.toml: name: found '../good', expected kebab-case such as kling-text-to-video; "
            "mend the file"
        ),
    ),
    "bad target": (
        'target = "/v1/videos"',
        'target = "v1/videos"',
        (
            "bad.toml: request.target: found 'v1/videos', expected a path such as /v1/videos; mend "
            "the file"
        ),
    ),
    "a target with a space": (
        'target = "/v1/videos/text2video"',
        'target = "/v1/ videos"',
        (
            "bad.toml: upstream.target: found '/v1/ videos', expected a path such as /v1/videos; "
            "mend the file"
        ),
    ),
    "a target with a fragment": (
        'target = "/v1/videos"',
        'target = "/v1/videos#a"',
        (
            "bad.toml: request.target: found '/v1/videos#a', expected a path such as /v1/videos; "
            "mend the file"
        ),
    ),
    "bad method": (
        'method = "POST"',
        'method = "post"',
        "bad.toml: request.method: found 'post', expected a method such as POST; mend the file",
    ),
    "bad status": (
        "status = 503",
        "status = 99",
        (
            "bad.toml: failure.status: found 99, expected 200 to 599, and one that has a body; "
            "mend the file"
        ),
    ),
    "a status without a body": (
        "status = 503",
        "status = 204",
        (
            "bad.toml: failure.status: found 204, expected 200 to 599, and one that has a body; "
            "mend the file"
        ),
    ),
    "unknown mode": (
        'modes = ["retry", "direct"]',
        'modes = ["retry", "twice"]',
        "bad.toml: modes[1]: found twice, expected one of retry, direct; mend the file",
    ),
    "a mode twice": (
        'modes = ["retry", "direct"]',
        'modes = ["retry", "retry"]',
        (
            "bad.toml: modes: found retry, retry, expected retry, direct or both, each once; mend "
            "the file"
        ),
    ),
    "no mode": (
        'modes = ["retry", "direct"]',
        "modes = []",
        "bad.toml: modes: found none, expected retry, direct or both, each once; mend the file",
    ),
    "unknown mode in must_fail": (
        'retry = ["retry_path"]',
        'retried = ["retry_path"]',
        "bad.toml: must_fail: found retried, expected one of retry, direct; mend the file",
    ),
    "unknown check": (
        'retry = ["retry_path"]',
        'retry = ["retry_path", "retry_paht"]',
        f"bad.toml: must_fail.retry[1]: found retry_paht, expected one of {CHECKS}; mend the file",
    ),
    "a text for checks": (
        'retry = ["retry_path"]',
        'retry = "retry_path"',
        "bad.toml: must_fail.retry: found a text, expected a list; mend the file",
    ),
    "a retry's check in mode direct": (
        'retry = ["retry_path"]',
        'direct = ["first_path", "retry_path"]',
        (
            f"bad.toml: must_fail.direct[1]: found retry_path, expected one of {DIRECT_CHECKS}; "
            "mend the file"
        ),
    ),
    "a check that may never fail": (
        'retry = ["retry_path"]',
        'retry = ["declared_keys"]',
        (
            f"bad.toml: must_fail.retry[0]: found declared_keys, expected one of {CHECKS}; mend "
            "the file"
        ),
    ),
    "a mode that is not run": (
        'modes = ["retry", "direct"]',
        'modes = ["direct"]',
        (
            "bad.toml: must_fail: found retry, expected a mode that the case runs in: direct; mend "
            "the file"
        ),
    ),
    "no check": (
        'retry = ["retry_path"]',
        "retry = []",
        (
            "bad.toml: must_fail.retry: found none, expected at least one check, each once; mend "
            "the file"
        ),
    ),
    "a check twice": (
        'retry = ["retry_path"]',
        'retry = ["retry_path", "retry_path"]',
        (
            "bad.toml: must_fail.retry: found retry_path, retry_path, expected at least one check, "
            "each once; mend the file"
        ),
    ),
    "no key": (
        'keys = ["dummy-key-a", "dummy-key-b"]',
        "keys = []",
        "bad.toml: keys: found none, expected at least one dummy key, each once; mend the file",
    ),
    "a key twice": (
        'keys = ["dummy-key-a", "dummy-key-b"]',
        'keys = ["dummy-key-a", "dummy-key-a"]',
        (
            "bad.toml: keys: found dummy-key-a, dummy-key-a, expected at least one dummy key, each "
            "once; mend the file"
        ),
    ),
    "a date in a body": (
        "seed = 1",
        "when = [{ day = 2026-01-01T00:00:00Z }]",
        (
            "bad.toml: request.json.when[0].day: found the date or time 2026-01-01 00:00:00+00:00, "
            "expected a value that JSON has, such as a text; mend the file"
        ),
    ),
    "a time in an answer": (
        "{ code = 1 }",
        "{ at = 12:00:00 }",
        (
            "bad.toml: failure.json.at: found the date or time 12:00:00, expected a value that "
            "JSON has, such as a text; mend the file"
        ),
    ),
    "no number in a body": (
        "seed = 1",
        "seed = nan",
        (
            "bad.toml: request.json.seed: found the number nan, expected a value that JSON has, "
            "such as a text; mend the file"
        ),
    ),
    "infinity in the plugin's configuration": (
        'type = "kling"',
        'type = "kling"\ntimeout = -inf',
        (
            "bad.toml: plugin.provider.timeout: found the number -inf, expected a value that JSON "
            "has, such as a text; mend the file"
        ),
    ),
}


@pytest.mark.parametrize(("good", "bad", "sentence"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_case_is_refused_with_file_key_and_reason(
    tmp_path: Path, good: str, bad: str, sentence: str
) -> None:
    assert good in GOOD
    read(tmp_path, GOOD)
    assert refusal(tmp_path, GOOD.replace(good, bad, 1)) == sentence


def test_a_file_that_is_not_utf_8_is_refused_with_the_place(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_bytes(GOOD.replace("all right", "all r\xefght").encode("latin-1"))
    with pytest.raises(CaseError) as caught:
        cases.read(file)
    assert str(caught.value) == (
        "bad.toml cannot be read as TOML: 'utf-8' codec can't decode byte 0xef in position 43: "
        "invalid continuation byte; expected a case as in sessions/matrix/cases; mend the file"
    )


def test_a_folder_with_the_name_of_a_case_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").mkdir()
    with pytest.raises(CaseError) as caught:
        cases.load(tmp_path)
    assert str(caught.value) == (
        "bad.toml cannot be read as TOML: Is a directory; expected a case as in "
        "sessions/matrix/cases; mend the file"
    )


def test_a_case_nested_without_end_is_refused(tmp_path: Path) -> None:
    nested = "[" * 5000 + "]" * 5000
    sentence = refusal(tmp_path, GOOD.replace('{ model_name = "m1" }', nested))
    assert sentence.startswith("bad.toml cannot be read as TOML: maximum recursion depth exceeded")


def dummies_only(key: str, found: str) -> str:
    return (
        f"bad.toml: {key}: found {found}, expected a dummy credential (dummy-...) that `keys` "
        "lists; no real credential is needed, and none may get into evidence"
    )


# Made up here: in the shape of a credential, valid nowhere.
SK = "sk-" + "x0" * 16
JWT = "eyJhbGciOiJIUzI1NiJ9." + "eyJpc3MiOiJhIn0." + "c2lnbmF0dXJl"
TOKENS = 'apiTokens = ["dummy-key-a", "dummy-key-b"]'
KEYS = 'keys = ["dummy-key-a", "dummy-key-b"]'
TYPE = 'type = "kling"'

CREDENTIALS = {
    "keys that are no dummies": (KEYS, f'keys = ["dummy-key-a", "{SK}"]', "keys[1]", SK),
    "a key without a shape": (KEYS, 'keys = ["hunter2"]', "keys[0]", "hunter2"),
    "a dummy in capitals": (KEYS, 'keys = ["dummy-KEY"]', "keys[0]", "dummy-KEY"),
    "apiTokens": (
        TOKENS,
        'apiTokens = ["dummy-key-a", "hunter2"]',
        "plugin.provider.apiTokens[1]",
        "hunter2",
    ),
    "klingSecretKey": (
        TYPE,
        f'{TYPE}\nklingSecretKey = "hunter2"',
        "plugin.provider.klingSecretKey",
        "hunter2",
    ),
    "klingAccessKey": (
        TYPE,
        f'{TYPE}\nklingAccessKey = "hunter2"',
        "plugin.provider.klingAccessKey",
        "hunter2",
    ),
    "hunyuanAuthId": (
        TYPE,
        f'{TYPE}\nhunyuanAuthId = "hunter2"',
        "plugin.provider.hunyuanAuthId",
        "hunter2",
    ),
    "a list of tables": (
        TYPE,
        f'{TYPE}\nmore = [[{{ a = 1 }}, {{ api_key = "hunter2" }}]]',
        "plugin.provider.more[0][1].api_key",
        "hunter2",
    ),
    "tables below a credential's name": (
        TYPE,
        f'{TYPE}\ncredentials = [{{ user = "dummy-key-a" }}, {{ user = "hunter2" }}]',
        "plugin.provider.credentials[1].user",
        "hunter2",
    ),
    "a header by name": (
        TYPE,
        f'{TYPE}\nheaders = {{ Authorization = "Bearer hunter2" }}',
        "plugin.provider.headers.Authorization",
        "hunter2",
    ),
    "a header as a pair": (
        TYPE,
        f'{TYPE}\nheaders = [{{ key = "X-Api-Key", value = "hunter2" }}]',
        "plugin.provider.headers[0].value",
        "hunter2",
    ),
    "a cookie": (
        TYPE,
        f'{TYPE}\nheaders = {{ cookie = "session=1" }}',
        "plugin.provider.headers.cookie",
        "session=1",
    ),
    "by shape in the plugin's configuration": (
        TYPE,
        f'{TYPE}\nnote = "{SK}"',
        "plugin.provider.note",
        SK,
    ),
    "by shape in what is sent": ("seed = 1", f'prompt = "use {SK}"', "request.json.prompt", SK),
    "a bearer in what is sent": (
        "seed = 1",
        'headers = [["authorization", "Bearer abc.def-123"]]',
        "request.json.headers[0][1]",
        "abc.def-123",
    ),
    "a basic credential": (
        "seed = 1",
        'header = "Basic dXNlcjpwYXNz="',
        "request.json.header",
        "dXNlcjpwYXNz=",
    ),
    "by shape in an answer": (
        "{ code = 1 }",
        f'{{ message = "{JWT}" }}',
        "failure.json.message",
        JWT,
    ),
    "by shape in a query": (
        'target = "/v1/videos/text2video"',
        'target = "/v1/videos?api_key=hunter2"',
        "upstream.target",
        "hunter2",
    ),
    "a signed URL": (
        "seed = 1",
        'image = "https://images.example/a.png?v=1&Signature=hunter2"',
        "request.json.image",
        "hunter2",
    ),
    "a URL's password": (
        "seed = 1",
        'image = "https://me:hunter2@images.example/a.png"',
        "request.json.image",
        "hunter2",
    ),
    "a private key": (
        "seed = 1",
        'pem = "-----BEGIN PRIVATE KEY-----"',
        "request.json.pem",
        "-----BEGIN PRIVATE KEY-----",
    ),
    "by shape as a field's name": ("seed = 1", f'"{SK}" = 1', "request.json", SK),
    "by shape as an unknown field": ("modes =", f'"{SK}" =', "the top level", SK),
    "by shape in the title": ('title = "A', f'title = "{SK} A', "title", SK),
    "by shape in the name": ('name = "good"', f'name = "{SK}"', "name", SK),
}


@pytest.mark.parametrize(("good", "bad", "key", "secret"), CREDENTIALS.values(), ids=CREDENTIALS)
def test_a_credential_that_is_no_declared_dummy_is_refused_and_not_repeated(
    tmp_path: Path, good: str, bad: str, key: str, secret: str
) -> None:
    assert good in GOOD
    sentence = refusal(tmp_path, GOOD.replace(good, bad, 1))
    assert sentence == dummies_only(key, f"a text of {len(secret)} characters")
    assert secret not in sentence


def test_a_dummy_that_keys_does_not_list_is_refused_by_name(tmp_path: Path) -> None:
    bad = GOOD.replace(TOKENS, 'apiTokens = ["dummy-key-a", "dummy-key-c"]')
    assert refusal(tmp_path, bad) == dummies_only("plugin.provider.apiTokens[1]", "dummy-key-c")


HARMLESS = {
    "a declared dummy behind its scheme": (
        TYPE,
        f'{TYPE}\nheaders = [{{ name = "authorization", value = "Bearer dummy-key-a" }}]',
    ),
    "an empty credential": (TYPE, f'{TYPE}\nklingSecretKey = ""'),
    "a number of tokens": (TYPE, f"{TYPE}\nmaxTokens = 100"),
    "a table by name": (TYPE, f'{TYPE}\nmore = [{{ name = "kling", value = "any" }}]'),
    "a transformer's header": (TYPE, f'{TYPE}\nmore = [{{ key = "x-trace", value = "any" }}]'),
    "an author": (TYPE, f'{TYPE}\nauthor = "someone"'),
    "prose": (
        "seed = 1",
        'prompt = "a basic task-2 for the bearer of a Basic resolution-1080p desk-lamp"',
    ),
    "tokens of a model": ("{ code = 1 }", '{ token = "Hello", usage = { total_tokens = 3 } }'),
    "a dummy in a query": ('target = "/v1/videos"', 'target = "/v1/videos?key=dummy-key-a"'),
    "a large number": ("seed = 1", "seed = 123456789012345678901234567890"),
}


@pytest.mark.parametrize(("good", "other"), HARMLESS.values(), ids=HARMLESS)
def test_what_is_no_credential_is_taken(tmp_path: Path, good: str, other: str) -> None:
    assert good in GOOD
    case = read(tmp_path, GOOD.replace(good, other, 1))
    assert case.name == "good"
    json.dumps([case.plugin, case.request.json], allow_nan=False)


def test_a_name_in_two_files_is_refused_naming_one_of_them(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        text = GOOD if name != "a" else GOOD.replace('"good"', '"other"')
        (tmp_path / f"{name}.toml").write_text(text)
    with pytest.raises(CaseError) as caught:
        cases.load(tmp_path)
    assert str(caught.value) == (
        "b.toml: name = 'good' is also another file's; expected one of its own; rename one"
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", ""),
        ("missing", " (No such file or directory)"),
        ("a-file", " (Not a directory)"),
        ("loop", " (Too many levels of symbolic links)"),
    ],
)
def test_a_folder_without_cases_is_refused_with_the_reason(
    tmp_path: Path, name: str, reason: str
) -> None:
    (tmp_path / "a-file").write_text(GOOD)
    (tmp_path / "loop").symlink_to("loop")
    folder = tmp_path / name
    with pytest.raises(CaseError) as caught:
        cases.load(folder)
    assert str(caught.value) == (
        f"no cases in {folder}{reason}; expected *.toml files as in sessions/matrix/cases; name "
        "their folder with --cases"
    )


def test_a_case_whose_file_has_its_ending_in_capitals_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(GOOD)
    (tmp_path / "CONTROL.TOML").write_text(GOOD)
    with pytest.raises(CaseError, match="is also another file's"):
        cases.load(tmp_path)


def test_a_file_as_a_windows_editor_writes_it_is_the_same_case(tmp_path: Path) -> None:
    (tmp_path / "unix.toml").write_text(GOOD)
    (tmp_path / "windows.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert cases.read(tmp_path / "windows.toml") == cases.read(tmp_path / "unix.toml")


@pytest.mark.parametrize("what", ["pipe", "device"])
def test_a_pipe_or_a_device_in_a_case_s_place_is_not_waited_for(tmp_path: Path, what: str) -> None:
    if what == "pipe":
        os.mkfifo(tmp_path / "bad.toml")
    else:
        (tmp_path / "bad.toml").symlink_to("/dev/zero")
    with pytest.raises(CaseError) as caught:
        cases.load(tmp_path)
    assert str(caught.value) == (
        "bad.toml cannot be read as TOML: Not a regular file; expected a case as in "
        "sessions/matrix/cases; mend the file"
    )


def test_a_glob_chooses_by_the_case_s_name() -> None:
    assert [case.name for case in cases.load(glob="kling-*")] == [
        "kling-image-to-video",
        "kling-text-to-video",
    ]


@pytest.mark.parametrize("glob", ["Kling-*", "", "kling"])
def test_a_glob_that_matches_nothing_is_refused_naming_what_there_is(glob: str) -> None:
    with pytest.raises(CaseError) as caught:
        cases.load(glob=glob)
    assert str(caught.value) == (
        f"no case matches --case {glob!r}; expected one of kling-image-to-video, "
        "kling-text-to-video, openai-chat"
    )


def test_a_malformed_case_is_refused_also_when_it_is_not_chosen(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(GOOD)
    (tmp_path / "bad.toml").write_text(GOOD.replace('"good"', '"other"').replace("503", "99"))
    with pytest.raises(CaseError, match=r"^bad\.toml: failure\.status: "):
        cases.load(tmp_path, "good")
