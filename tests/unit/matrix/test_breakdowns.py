"""Lines of Envoy's log that say that the plugin broke down, as Envoy 1.40 prints them."""

from __future__ import annotations

import pytest

from sessions.matrix import crash_lines

AT = "[2026-11-30 07:50:03.013][689]"
SOURCE = "[source/extensions/common/wasm"
LOG = f"{AT}[error][wasm] {SOURCE}/context.cc:1157] wasm log plugin kling plugin: "
BROKEN = {
    "a panic that the wrapper recovered from": f"{LOG}[ai-proxy] [nil] [kling/direct/1] recovered "
    "from panic assignment to entry in nil map, stack: goroutine 1 [running]:",
    "Go's last words": f"{LOG}fatal error: ",
    "a panic that nobody recovered from": f"{LOG}panic: ",
    "a panic of Rust's": f"{LOG}panicked at src/lib.rs:1",
    "a trap": f"{AT}[error][wasm] [source/extensions/common/wasm/wasm_vm.cc:38] Function: "
    "proxy_on_response_headers failed: Uncaught RangeError: Maximum call stack size exceeded",
    "a VM that failed": f"{AT}[error][wasm] {SOURCE}/wasm.cc:1] Wasm VM failed x",
    "a plugin that does not load": f"{AT}[critical][wasm] {SOURCE}/plugin.cc:1] "
    "Plugin configured to fail closed failed to load",
    "the plugin's own critical line": f"{AT}[critical][wasm] "
    "[source/extensions/common/wasm/context.cc:1160] wasm log plugin kling plugin: [ai-proxy] x",
    "a module that does not load": f"{AT}[error][wasm] [source/extensions/common/wasm/x.cc:1] "
    "Failed to load Wasm module due to a missing import: env.proxy_x",
}
INFO = LOG.replace("[error]", "[info]").replace("1157", "1151")
HARMLESS = {
    "a start": f"{INFO}[ai-proxy] [nil] [nil] plugin start successfully",
    "an error that the plugin handled": f"{LOG}[ai-proxy] [nil] [nil] unmarshal failed: EOF",
    "a body that is repeated": f'{INFO}http call start, body: {{"x":"recovered from panic x"}}',
    "a body with a line of the log": f"{INFO}http call end, body: {BROKEN['a trap']}",
    "Envoy's warning": f"{AT}[warning][main] [source/server/server.cc:1059] There is no limit",
    "a critical line of another part": f"{AT}[critical][main] [source/server/server.cc:1] x",
    "nothing": "",
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN)
def test_a_breakdown_is_known_by_its_line_wherever_it_stands_in_the_log(line: str) -> None:
    log = "\n".join([*HARMLESS.values(), line, f"{LOG}more", BROKEN["a trap"]])
    assert crash_lines.first(log) == (f"{line}more" if line.endswith(": ") else line)


@pytest.mark.parametrize("line", HARMLESS.values(), ids=HARMLESS)
def test_what_is_none_is_not_taken_for_one(line: str) -> None:
    assert crash_lines.first(line) == ""


def test_a_long_line_is_cut() -> None:
    line = crash_lines.first(f"{LOG}panic: {'x' * 5000}")
    assert len(line) == 303
    assert line.endswith("x...")
    assert crash_lines.said_by(line).startswith(
        "the plugin broke down in the gateway, whose log says: [error] wasm log"
    )
