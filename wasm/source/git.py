"""Running git: nothing of the user's machine is asked, locked, or let to change what we read."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from wasm.foundation import cache, subprocesses
from wasm.foundation.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path

# No hook, daemon or upkeep of the user's runs, and a file's name is what the disk has. No index of
# ours becomes a sparse one, or a split one, whose other half git would write into the user's
# repository.
_QUIET = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.ignoreCase": "false",
    "core.splitIndex": "false",
    "core.warnAmbiguousRefs": "true",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    # A server that stays mute is left; over other protocols than HTTP only a time limit does so.
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "30",
    "index.sparse": "false",
    "maintenance.auto": "false",
}
# What of GIT_* says how to reach a remote; all else would belong to an outer git.
_KEPT = (
    "GIT_ASKPASS",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_PROXY_COMMAND",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_SSL_CERT",
    "GIT_SSL_KEY",
    "GIT_SSL_NO_VERIFY",
)
_SET = {
    "GIT_LITERAL_PATHSPECS": "1",  # a folder named a[1] is that folder
    "GIT_NO_REPLACE_OBJECTS": "1",  # a commit's name is to say what is in it
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_REMARKS = ("warning:", "hint:", "remote:")


def run(
    *arguments: str,
    cwd: Path,
    env: dict[str, str] | None = None,
    stdin: bytes = b"",
    limit_s: float | None = None,
) -> subprocesses.Finished:
    """Run git in a folder and return what it said; after a time limit it has failed.

    Raises:
        SourceError: There is no git, or it cannot be started there.
        BuildError: The disk that it writes to is full.
    """
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k in _KEPT}
    settings = [part for key, value in _QUIET.items() for part in ("-c", f"{key}={value}")]
    try:
        done = subprocesses.run(
            ["git", *settings, *arguments],
            cwd=cwd,
            env=inherited | _SET | (env or {}),
            stdin=stdin,
            limit_s=limit_s,
        )
    except TimeoutError as error:
        return subprocesses.Finished(-signal.SIGKILL, b"", f"{error.strerror}\n")
    except OSError as error:
        if error.filename == "git":
            raise SourceError(
                "git was not found on PATH; expected git 2.30 or newer, which reads a source; "
                "install it"
            ) from error
        raise SourceError(
            f"git cannot be started in {cwd} ({error.strerror}); expected a folder that can be "
            "read; check its permissions"
        ) from error
    if not done.succeeded and "no space left on device" in done.stderr.lower():
        raise cache.disk_full(cache.root())
    return done


def reason(done: subprocesses.Finished) -> str:
    """Return the line in which git says what was wrong: its first, advice and remarks apart."""
    lines = (line.strip() for line in done.stderr.splitlines())
    told = (line for line in lines if line and not line.startswith(_REMARKS))
    return next(told, done.last_line)
