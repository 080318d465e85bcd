"""Signatures: who wrote it, told by OpenSSH itself."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import msgspec
import pytest

from sessions.evidence import verify
from sessions.evidence.pair import bundle
from sessions.evidence.record import signing, store
from sessions.evidence.record.records import Comparison
from sessions.evidence.report import terminal_report
from tests.unit.evidence import forging, recorded
from wasm.foundation.errors import EvidenceError

if TYPE_CHECKING:
    from pathlib import Path

ME = "me@example.org"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two keys, mine and another's, and a file that allows mine."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("mine", "other"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name],
            check=True,
        )
    (folder / "allowed").write_text(f"{ME} {(folder / 'mine.pub').read_text()}")
    return folder


@pytest.fixture(scope="module")
def signed(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that I signed; not to be changed."""
    return recorded.made(tmp_path_factory.mktemp("evidence"), keys / "mine").folder


def problem(folder: Path, allowed: Path | None) -> str:
    found = {each.check: each for each in verify.of(folder, allowed).failed}
    return " ".join(found["signature"].problems)


def told(folder: Path, allowed: Path | None) -> str:
    found = verify.of(folder, allowed)
    assert found.failed == ()
    return next(each.told for each in found.made if each.check == "signature")


def test_a_signed_bundle_is_verified_with_its_signer(signed: Path, keys: Path) -> None:
    assert told(signed, keys / "allowed") == f"by {ME}"


def test_the_signature_is_in_the_archive(signed: Path, keys: Path) -> None:
    archive = signed.with_name(f"{signed.name}.zip")
    assert told(archive, keys / "allowed") == f"by {ME}"


def test_ssh_keygen_alone_verifies_it(signed: Path, keys: Path) -> None:
    allowed = str(keys / "allowed")
    argv = ["ssh-keygen", "-Y", "verify", "-f", allowed, "-I", ME, "-n", "gateway-proof"]
    with (signed / store.SUMS).open("rb") as sums:
        done = subprocess.run(
            [*argv, "-s", str(signed / store.SIGNATURE)],
            stdin=sums,
            capture_output=True,
            check=False,
        )
    assert done.returncode == 0


def test_without_allowed_signers_the_key_is_named_and_not_its_owner(
    signed: Path, keys: Path
) -> None:
    listed = subprocess.run(
        ["ssh-keygen", "-l", "-f", keys / "mine.pub"], capture_output=True, text=True, check=True
    )
    fingerprint = listed.stdout.split()[1]
    assert told(signed, None) == (
        f"made with {fingerprint}; whose key that is was not asked (--allowed-signers)"
    )


def test_the_terminal_names_the_signature_and_its_key(
    signed: Path,
    keys: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = subprocess.run(
        ["ssh-keygen", "-l", "-f", keys / "mine.pub"], capture_output=True, text=True, check=True
    )
    comparison = msgspec.json.decode((signed / bundle.COMPARISON).read_bytes(), type=Comparison)
    terminal_report.show(comparison, signed)
    line = f"signed    SHA256SUMS.sig, with the key {listed.stdout.split()[1]}"
    assert line in capsys.readouterr().out.splitlines()
    monkeypatch.setenv("PATH", str(tmp_path))
    terminal_report.show(comparison, signed)
    assert "signed    SHA256SUMS.sig" in capsys.readouterr().out.splitlines()
    (recorded.copied(signed, tmp_path / "other") / store.SIGNATURE).unlink()
    terminal_report.show(comparison, tmp_path / "other")
    assert "SHA256SUMS.sig" not in capsys.readouterr().out


def test_a_signature_of_another_is_refused(signed: Path, keys: Path, tmp_path: Path) -> None:
    folder = recorded.copied(signed, tmp_path / "bundle")
    signing.sign(folder, keys / "other")
    assert problem(folder, keys / "allowed").startswith(
        "SHA256SUMS.sig was made with no key of allowed: "
    )


def test_a_forger_who_makes_every_hash_match_does_not_have_the_key(
    signed: Path, keys: Path, tmp_path: Path
) -> None:
    folder = recorded.copied(signed, tmp_path / "bundle")
    (folder / "baseline" / "logs" / "gateway.log").write_text("another\n")
    forging.rehash(folder)
    found = [each.check for each in verify.of(folder, keys / "allowed").failed]
    assert found == ["signature"]
    assert problem(folder, None).startswith(
        "SHA256SUMS.sig is no valid signature on this SHA256SUMS: "
    )
    assert problem(folder, keys / "allowed").startswith(
        f"SHA256SUMS.sig is no signature of {ME} on this SHA256SUMS: "
    )


def test_an_unsigned_bundle_passes_unless_a_signer_was_asked_for(
    signed: Path, keys: Path, tmp_path: Path
) -> None:
    folder = recorded.copied(signed, tmp_path / "bundle")
    (folder / store.SIGNATURE).unlink()
    assert told(folder, None).startswith("nobody has signed this: ")
    assert problem(folder, keys / "allowed") == (
        "SHA256SUMS.sig is missing: nobody has signed this"
    )


@pytest.mark.parametrize("content", ["", "no signature\n"])
def test_what_is_no_signature_is_refused(
    signed: Path, keys: Path, tmp_path: Path, content: str
) -> None:
    folder = recorded.copied(signed, tmp_path / "bundle")
    (folder / store.SIGNATURE).write_text(content)
    assert problem(folder, keys / "allowed")
    assert problem(folder, None)


@pytest.mark.parametrize("key", ["none", "allowed"])
def test_a_key_that_does_not_sign_is_refused_and_no_bundle_is_left(
    keys: Path, tmp_path: Path, key: str
) -> None:
    with pytest.raises(EvidenceError) as caught:
        recorded.made(tmp_path, keys / key)
    assert str(caught.value).startswith(f"the evidence could not be signed with {keys / key}: ")
    assert str(caught.value).endswith("name one with --sign")
    assert list((tmp_path / "bundles").iterdir()) == []


def test_without_openssh_there_is_a_sentence(
    signed: Path, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = recorded.copied(signed, tmp_path / "bundle")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "ssh-keygen cannot be run" in problem(folder, None)
    with pytest.raises(EvidenceError, match=r"ssh-keygen cannot be run .*; install openssh-client"):
        signing.sign(folder, keys / "mine")


def test_a_file_of_signers_that_is_not_there_is_refused(signed: Path, tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match=r"no file of allowed signers at .*--allowed-signers"):
        verify.of(signed, tmp_path / "none")
