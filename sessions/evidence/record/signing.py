"""Signing evidence with an SSH key, as git signs commits, and checking whose signature it is.

Hashes show that nothing was changed since SHA256SUMS was written; a signature shows who wrote it.
OpenSSH's own ``ssh-keygen -Y`` does both (PROTOCOL.sshsig), so no key ever passes through here.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from sessions.evidence.record.store import SIGNATURE, SUMS
from wasm.foundation.errors import EvidenceError

if TYPE_CHECKING:
    from pathlib import Path

NAMESPACE = "gateway-proof"


def sign(folder: Path, key: Path) -> None:
    """Sign a sealed folder's SHA256SUMS.

    Args:
        folder: The sealed folder; gets ``SHA256SUMS.sig``.
        key: A private SSH key, or the public half of one that the agent holds.

    Raises:
        EvidenceError: ssh-keygen is missing, or did not sign.
    """
    (folder / SIGNATURE).unlink(missing_ok=True)
    done = _ssh_keygen("-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(folder / SUMS))
    if done.returncode != 0 or not (folder / SIGNATURE).is_file():
        raise EvidenceError(
            f"the evidence could not be signed with {key}: {_reason(done)}; expected an SSH key "
            "such as ~/.ssh/id_ed25519, or its public half where an agent has it; name one with "
            "--sign"
        )


def signer(folder: Path, allowed_signers: Path) -> str:
    """Return who signed a folder's SHA256SUMS, of those that a file allows.

    Args:
        folder: The folder.
        allowed_signers: Who may sign, as in ssh-keygen(1), ALLOWED SIGNERS.

    Raises:
        EvidenceError: The signature is none of theirs, or not of these SHA256SUMS.
    """
    signature = str(folder / SIGNATURE)
    found = _ssh_keygen("-Y", "find-principals", "-s", signature, "-f", str(allowed_signers))
    names = found.stdout.decode("utf-8", "replace").split("\n")
    if found.returncode != 0 or not names[0]:
        raise EvidenceError(
            f"{SIGNATURE} was made with no key of {allowed_signers.name}: {_reason(found)}; "
            "expected a signature of one who is named there"
        )
    who = names[0].strip()
    argv = ["-Y", "verify", "-f", str(allowed_signers), "-I", who, "-n", NAMESPACE]
    done = _ssh_keygen(*argv, "-s", signature, stdin=(folder / SUMS).read_bytes())
    if done.returncode != 0:
        raise EvidenceError(
            f"{SIGNATURE} is no signature of {who} on this {SUMS}: {_reason(done)}; expected one "
            f"made with `--sign` on the very file"
        )
    return who


def key_of(folder: Path) -> str:
    """Return the fingerprint of the key that signed, whoever's that is.

    Raises:
        EvidenceError: It is no valid signature on these SHA256SUMS.
    """
    argv = ["-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(folder / SIGNATURE)]
    done = _ssh_keygen(*argv, stdin=(folder / SUMS).read_bytes())
    if done.returncode != 0:
        raise EvidenceError(f"{SIGNATURE} is no valid signature on this {SUMS}: {_reason(done)}")
    return done.stdout.decode("utf-8", "replace").strip().rpartition(" ")[2]


def _ssh_keygen(*argv: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    try:
        # Without input of ours it has the terminal's, to ask for a passphrase.
        return subprocess.run(["ssh-keygen", *argv], input=stdin, capture_output=True, check=False)
    except OSError as error:
        raise EvidenceError(
            f"ssh-keygen cannot be run ({error.strerror}); expected OpenSSH 8.2 or newer; install "
            "openssh-client"
        ) from error


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    text = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
    return text.splitlines()[-1].strip() if text else f"exit status {done.returncode}"
