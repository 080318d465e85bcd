"""This project's own checks."""

from __future__ import annotations

import nox

from sessions.environment import DEVELOPMENT, install

# Two processes, each file in one of them: much of the time goes into waiting.
_IN_TWO = ("--numprocesses=2", "--dist=loadfile", "--quiet")


@nox.session
def tests(session: nox.Session) -> None:
    """Run this project's tests, the whole matrix on the reference plugin among them."""
    install(session, DEVELOPMENT)
    session.run("python", "-m", "pytest", "-m", "not docker", *_IN_TWO, *session.posargs)


@nox.session(name="tests-docker", default=False)
def tests_docker(session: nox.Session) -> None:
    """Run the tests that need a Docker daemon, and the random kills."""
    install(session, DEVELOPMENT)
    session.run("python", "-m", "pytest", "-m", "docker", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check Python with ruff, and our own Go with gofmt and go vet."""
    install(session, DEVELOPMENT)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("python", "-m", "pytest", "-q", "tests/unit/go", "-k", "formatted or vetted")


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy, strictly."""
    install(session, DEVELOPMENT)
    session.run("mypy")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measure what a runtime session costs beyond its floor, and what each cell costs."""
    install(session, DEVELOPMENT)
    session.run("python", "-m", "tests.benchmarks.runtime_session", *session.posargs)
