"""What a cell shows must follow from the module, not from earlier cells or from chance."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from sessions.matrix.verdict import Verdict
from tests.integration.running import PLUGIN, git, write_fix

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.running import Session

    Start = Callable[..., Session]
    Report = Callable[..., tuple[int, dict[str, Any], str]]

pytestmark = pytest.mark.timeout(180)

CASE = """
name = "{name}"
title = "a plugin that keeps state"
modes = ["{mode}"]
keys = ["dummy-key-{name}-1", "dummy-key-{name}-2"]

[plugin.provider]
type = "{type}"
apiTokens = ["dummy-key-{name}-1", "dummy-key-{name}-2"]
modelMapping = {{ m1 = "up-m1" }}
retryOnFailure = {{ enabled = true, retryOnStatus = ["503"] }}

[plugin.provider.failover]
enabled = true
failureThreshold = 1
failoverOnStatus = ["503"]
cooldownDuration = 600000
healthCheckModel = "m1"
healthCheckInterval = 600000

[request]
method = "POST"
target = "/v1/chat/completions"
json = {{ model = "m1", messages = [{{ role = "user", content = "good morning" }}] }}

[upstream]
method = "POST"
target = "/v1/chat/completions"
json = {{ model = "up-m1", messages = [{{ role = "user", content = "good morning" }}] }}

[failure]
status = 503
json = {{ error = "not now" }}

[success]
status = 200
json = {{ id = "an answer" }}

[client]
status = 200
json = {{ id = "an answer" }}
"""


def write_case(folder: Path, name: str, mode: str = "direct", provider: str = "openai") -> None:
    folder.mkdir(exist_ok=True)
    text = CASE.format(name=name, mode=mode, type=provider)
    (folder / f"{name}.toml").write_text(text, "utf-8")


def source(repository: Path) -> tuple[str, ...]:
    return (f"--source={repository}", f"--plugin={PLUGIN}")


# --- State that earlier cells leave (T23) ---------------------------------------------------------


def test_t23_two_cases_of_one_provider_do_not_share_what_the_plugin_keeps(
    start: Start, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        write_case(tmp_path / "cases", name)
    session = start("fixed", tmp_path / "run", f"--cases={tmp_path / 'cases'}", "--repeat=4")
    assert session.wait() == 0, session.stderr
    _, results = session.read()
    assert {result.verdict for result in results} == {Verdict.PASS}
    keys = {(result.cell.case, result.first_key) for result in results}
    assert {(case, str(key)[:11]) for case, key in keys} == {
        ("a", "dummy-key-a"),
        ("b", "dummy-key-b"),
    }
    assert len({result.vm for result in results}) == 4


def test_t23_cells_that_the_state_of_earlier_ones_decides_are_inconclusive(
    start: Start, tmp_path: Path
) -> None:
    """The first key is taken out of use by the first failure, so a later retry has none left."""
    write_case(tmp_path / "cases", "stateful", "retry")
    session = start("fixed", tmp_path / "run", f"--cases={tmp_path / 'cases'}", "--repeat=5")
    assert session.wait() != 0
    _, results = session.read()
    fresh, later = results[:2], results[2:]
    assert {result.verdict for result in fresh} == {Verdict.PASS}
    for result in later:
        assert result.verdict is Verdict.INCONCLUSIVE
        assert "what ran before it" in result.reason
        assert "attempt_count" in result.failed_checks
        assert result.alone is not None
        assert [*result.alone.attempts[0].headers] != []
        assert len(result.alone.attempts) >= 2
    # The health check of a token that has failed may come between two cells.
    assert re.search("what ran before it|an earlier cell left", session.last_words)


# --- Chance (T45) ---------------------------------------------------------------------------------

BY_VM = """package provider

import "github.com/higress-group/proxy-wasm-go-sdk/proxywasm"

// byVM stands for a fix that works by chance: in every second VM it does not.
func byVM(name ApiName) ApiName {
	id, err := proxywasm.GetProperty([]string{"plugin_vm_id"})
	if err == nil && len(id) > 0 && id[len(id)-1]%2 == 0 {
		return ApiNameChatCompletion
	}
	return name
}
"""


def test_t45_a_fix_that_works_in_some_vms_is_not_proven_and_its_repeats_are_named(
    start: Start, report: Report, repository: Path, tmp_path: Path
) -> None:
    write_fix(repository, "byVM(apiName)")
    (repository / PLUGIN / "provider" / "zz_by_vm.go").write_text(BY_VM)
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message=a fix by chance")
    options = (*source(repository), "--baseline-ref=HEAD~1", "--fixed-ref=HEAD")
    sessions = [start(variant, tmp_path / variant, *options) for variant in ("baseline", "fixed")]
    assert [session.wait() for session in sessions] == [0, 1], sessions[1].stderr
    status, comparison, _ = report(tmp_path, *sessions)
    assert status != 0
    assert comparison["verdict"] == "inconclusive"
    disagreements = [each for each in comparison["reasons"] if "disagree" in each]
    assert any("fixed" in each and "kling-text-to-video/retry" in each for each in disagreements)


# --- A plugin that does not start, or does nothing (T29, T31) -------------------------------------


def test_t31_a_refused_configuration_is_named_with_its_case_and_the_others_run(
    start: Start, tmp_path: Path
) -> None:
    write_case(tmp_path / "cases", "good")
    write_case(tmp_path / "cases", "refused", provider="no-such-provider")
    session = start("baseline", tmp_path / "run", f"--cases={tmp_path / 'cases'}", "--repeat=2")
    assert session.wait() != 0
    _, results = session.read()
    verdicts = {(result.cell.case, result.verdict) for result in results}
    assert verdicts == {("good", Verdict.PASS), ("refused", Verdict.INCONCLUSIVE)}
    assert "refused" in session.last_words
    assert "no-such-provider" in session.last_words


@pytest.mark.parametrize("engine", ["process", pytest.param("docker", marks=pytest.mark.docker)])
def test_t29_a_plugin_that_crashes_at_its_start_is_named_with_its_last_words(
    start: Start, repository: Path, tmp_path: Path, engine: str
) -> None:
    crash = 'package main\n\nfunc init() { panic("no luck today") }\n'
    (repository / PLUGIN / "zz_crash.go").write_text(crash)
    options = (*source(repository), f"--engine={engine}", "--gateway=envoy")
    session = start("baseline", tmp_path / f"{tmp_path.name}-run", *options)
    assert session.wait() != 0
    assert "no luck today" in session.last_words
    assert "cells are not as declared" not in session.last_words


IDLE = """package main

import "github.com/higress-group/wasm-go/pkg/wrapper"

// A module built with -buildmode=c-shared never runs main.
func main() {
	wrapper.SetCtx("idle", wrapper.ProcessRequestHeaders(nothing))
}
"""
HANDLER = """package main

import (
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
	"github.com/higress-group/wasm-go/pkg/wrapper"
)

func nothing(wrapper.HttpContext, struct{}) types.Action { return types.HeaderContinue }
"""


def test_t29_an_idle_plugin_is_named_as_idle(
    start: Start, repository: Path, tmp_path: Path
) -> None:
    plugin = repository / PLUGIN
    for file in plugin.rglob("*.go"):
        file.unlink()
    (plugin / "main.go").write_text(IDLE)
    (plugin / "handler.go").write_text(HANDLER)
    session = start("baseline", tmp_path / "run", *source(repository))
    assert session.wait() != 0
    assert session.read()[1] == ()
    assert "no handlers" in session.last_words
    assert "init()" in session.last_words
