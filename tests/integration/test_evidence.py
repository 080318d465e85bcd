"""Evidence of a real Envoy: it verifies as it is, and no longer once anything was changed."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

from containers import envoy
from sessions.evidence import verify
from sessions.evidence.pair import bundle
from sessions.evidence.record import store
from sessions.matrix import cells, credentials
from sessions.matrix.verdict import Verdict
from tests.integration.running import ENDED_WITHIN_S, PROJECT
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.running import Session

    Both = tuple[Session, Session]

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def made(both: Both, tmp_path_factory: pytest.TempPathFactory) -> bundle.Made:
    """A bundle of both sessions."""
    runs = dict(zip(Variant, (session.folder for session in both), strict=True))
    return bundle.make(tmp_path_factory.mktemp("evidence"), runs, None)


def verified(path: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Verify from the command line, with nothing on PATH: no Go, no Docker, no git."""
    empty = path.parent / "no programs"
    empty.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "sessions.evidence", "verify", path, *argv],
        cwd=PROJECT,
        env={**os.environ, "PATH": str(empty), "DOCKER_HOST": "tcp://127.0.0.1:1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=ENDED_WITHIN_S,
    )


def test_a_fresh_bundle_and_its_archive_are_verified_without_go_and_docker(
    made: bundle.Made,
) -> None:
    for path in (made.folder, made.archive):
        done = verified(path)
        assert (done.returncode, done.stderr) == (0, "")
        assert re.search(
            r"\nverified: all \d+ checks of the bundle hold; what it says is: proven; Go's "
            r"tests: not run\n$",
            done.stdout,
        )
        assert "FAIL" not in done.stdout
        assert "18 requests, 18 lines, one to one" in done.stdout
        assert "27 attempts, 27 lines, one to one" in done.stdout


def test_a_lone_run_is_verified(both: Both) -> None:
    for session in both:
        assert verify.of(session.folder).failed == ()


def test_nothing_in_a_real_bundle_is_taken_for_a_credential(made: bundle.Made) -> None:
    """Hashes, commits, base64, Envoy's own version and options: long, and none of it secret."""
    files = [path for path in made.folder.rglob("*") if path.is_file()]
    assert len(files) > 35
    for path in files:
        text = path.read_bytes().decode("latin-1")
        found = [each for each in credentials.by_shape(text) if not credentials.is_dummy(each)]
        assert found == [], path
        assert credentials.masked(text) == text


HANDLER = "func answerHeaders(ctx wrapper.HttpContext, plugin plugin) types.Action {\n"
PANIC = (
    '\tif s, _ := proxywasm.GetHttpResponseHeader(":status"); s == "200" {\n\t\tpanic("x")\n\t}\n'
)


def test_a_cell_in_which_the_plugin_panics_is_no_observation_though_the_client_got_what_it_should(
    start: Callable[..., Session], tmp_path: Path
) -> None:
    name = "wasm/go/reference/main.go"
    before = (PROJECT / name).read_text()
    after = before.replace(HANDLER, HANDLER + PANIC)
    assert after != before
    lines = (before.splitlines(keepends=True), after.splitlines(keepends=True))
    patch = tmp_path / "panic.patch"
    patch.write_text("".join(difflib.unified_diff(*lines, f"a/{name}", f"b/{name}")))
    session = start(
        "fixed", tmp_path / "fixed", f"--fixed-patch={patch}", "--case=openai-chat", "--repeat=1"
    )
    assert session.wait() != 0
    _, (retry, direct) = session.read()
    # The retry's answer does not pass through that handler.
    assert retry.verdict is Verdict.PASS
    assert direct.response is not None
    assert direct.response.status == 200
    assert direct.verdict is Verdict.INCONCLUSIVE
    assert direct.reason.startswith(
        "the plugin broke down in the gateway, whose log says: [error] wasm log plugin openai-chat "
        "openai-chat#1: [ai-proxy] [nil] [openai-chat/direct/1] recovered from panic x"
    )
    assert verify.of(session.folder).failed == ()


@pytest.mark.docker
def test_a_fresh_bundle_of_the_docker_engine_is_verified_too(
    both_docker: Both, tmp_path: Path
) -> None:
    runs = dict(zip(Variant, (session.folder for session in both_docker), strict=True))
    made = bundle.make(tmp_path, runs, None)
    assert verify.of(made.archive).failed == ()
    testbed = both_docker[0].read()[0].testbed
    assert testbed is not None
    assert testbed.docker_server
    assert testbed.upstream_image
    assert {"gateway", "upstream", "relay"} <= {*testbed.commands}


def test_the_evidence_of_a_gateway_that_was_killed_is_evidence_too(
    start: Callable[..., Session], both: Both, tmp_path: Path
) -> None:
    assert both, "built before, so that this is the matrix alone"
    session = start("fixed", tmp_path / "run", "--case=kling-text-to-video", "--repeat=150")
    session.runs_cells()
    session.child("envoy").kill()
    assert session.wait() != 0
    _, results = session.read()
    assert {str(result.verdict) for result in results} == {"pass", "inconclusive"}
    found = verify.of(session.folder)
    assert found.failed == ()
    assert "lines; the run is not whole" in "\n".join(found.lines)


def test_a_credential_in_the_log_of_a_gateway_that_does_not_start_is_shown_to_nobody(
    start: Callable[..., Session], both: Both, tmp_path: Path
) -> None:
    assert both, "built before"
    secret = "sk-live-" + "0123456789abcdef"
    gateway = tmp_path / "envoy"
    gateway.write_text(
        "#!/bin/sh\n"
        'test "$1" = --version && exec echo "envoy  version: abc/1.40.0/Clean/RELEASE/BoringSSL"\n'
        f"echo 'the plugin got {secret}' >&2; exit 3\n"
    )
    gateway.chmod(0o755)
    session = start("fixed", tmp_path / "run", f"--envoy={gateway}", env={"GITHUB_ACTIONS": "true"})
    assert session.wait() == 2
    said = session.stdout + session.stderr
    assert "the plugin got masked-24-characters" in session.stderr
    assert "::error title=gateway-proof::" in session.stdout
    assert secret not in said
    files = [path for path in session.folder.rglob("*") if path.is_file()]
    assert [path for path in files if secret.encode() in path.read_bytes()] == []


EXECS = '#!/bin/sh\nexec {} "$@"\n'
FORKS = '#!/bin/sh\n{} "$@" &\ntrap "kill $!" TERM\nwait $!\nwait\n'


@pytest.mark.parametrize("wrapper", [EXECS, FORKS], ids=["exec", "fork"])
def test_the_digest_is_that_of_the_envoy_that_a_wrapper_starts_and_two_are_not_compared(
    start: Callable[..., Session],
    modules: object,
    report: Callable[..., tuple[int, object, str]],
    tmp_path: Path,
    wrapper: str,
) -> None:
    """T46: of one version, and yet not the same program."""
    assert modules, "built before"
    ours = envoy.program(None)
    other = tmp_path / "envoy-other"
    other.write_bytes(ours.read_bytes() + b"\0")
    other.chmod(0o755)
    program = tmp_path / "envoy"
    sessions = []
    for variant, started in (("baseline", ours), ("fixed", other)):
        program.write_text(wrapper.format(started))
        program.chmod(0o755)
        options = (f"--envoy={program}", "--case=kling-text-to-video", "--repeat=1")
        sessions.append(start(variant, tmp_path / variant, *options))
        assert sessions[-1].wait() == 0, sessions[-1].stderr
    found = [session.read()[0].testbed for session in sessions]
    assert [each.gateway.digest for each in found if each] == [
        f"sha256:{hashlib.sha256(program.read_bytes()).hexdigest()}" for program in (ours, other)
    ]
    assert [len(each.notes) for each in found if each] == [1, 1]
    status, comparison, words = report(tmp_path / "evidence", *sessions)
    assert (status, comparison) == (2, None)
    assert "they differ in gateway.digest" in words


def test_a_gateway_that_leaves_the_group_of_its_wrapper_is_refused(
    start: Callable[..., Session], modules: object, tmp_path: Path
) -> None:
    assert modules, "built before"
    program = tmp_path / "envoy"
    program.write_text(
        f'#!/bin/sh\ntest "$1" = --version && exec {envoy.program(None)} "$@"\n'
        f'setsid {envoy.program(None)} "$@" &\necho $! > {tmp_path}/pid\nwait\n'
    )
    program.chmod(0o755)
    session = start("fixed", tmp_path / "run", f"--envoy={program}")
    try:
        assert session.wait() == 2
        assert "listens on the gateway's admin port" in session.last_words
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_changed_verdict_ends_in_a_sentence_that_names_it(
    made: bundle.Made, tmp_path: Path
) -> None:
    folder = shutil.copytree(made.folder, tmp_path / "bundle")
    path = folder / "comparison.json"
    path.write_bytes(path.read_bytes().replace(b'"proven"', b'"refuted"'))
    store.seal(folder)
    done = verified(folder)
    assert done.returncode == 2
    assert 'comparison.json: verdict is "refuted", expected "proven"' in done.stdout
    assert done.stderr.startswith("error: 2 of ")
    assert "do not hold: comparison, reports; comparison.json: verdict is" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_recorded_request_is_the_case_s_to_the_last_header(both: Both) -> None:
    for session in both:
        run, results = session.read()
        cases = {case.name: case for case in run.cases}
        for result in results:
            assert result.request == cells.request(cases[result.cell.case], result.cell)
            first = dict(result.attempts[0].headers)
            assert first["user-agent"] == "gateway-proof"
            assert first["accept"] == "*/*"


def test_what_was_recorded_can_be_read_and_applied(both: Both, tmp_path: Path) -> None:
    """The fix's patch is one that git takes, and it is the one that the record has."""
    run, _ = both[1].read()
    patch = both[1].folder / store.FIX
    fix = run.module.source.fix
    assert fix is not None
    assert patch.read_bytes() == fix.patch.content
    folder = tmp_path / "tree"
    plugin = folder / run.module.source.plugin
    shutil.copytree(PROJECT / run.module.source.plugin, plugin)
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path)}
    done = subprocess.run(
        ["git", "apply", "--verbose", patch], cwd=folder, env=env, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_both_runs_share_the_digest_of_their_inputs_and_differ_in_the_module(both: Both) -> None:
    (baseline, _), (fixed, _) = (session.read() for session in both)
    assert baseline.inputs_sha256 == fixed.inputs_sha256
    assert baseline.configuration_sha256 == fixed.configuration_sha256
    assert baseline.module.sha256 != fixed.module.sha256
    assert baseline.testbed is not None
    assert {*baseline.testbed.commands} == {"gateway", "upstream"}


def test_every_key_came_first_as_often_as_the_cells_tell(both: Both) -> None:
    for session in both:
        run, results = session.read()
        first = [result.attempts[0].key for result in results]
        assert sum(run.first_keys.values()) == len(first) == 18
        assert all(run.first_keys[key] == first.count(key) for key in set(first) if key)


def test_ports_took_connections_before_closing_and_refuse_them_afterwards(both: Both) -> None:
    for session in both:
        proof = msgspec.json.decode((session.folder / store.CLEANUP).read_bytes())
        assert proof["listening"] == dict.fromkeys(proof["refused"], True)
        assert len(proof["listening"]) == 6
