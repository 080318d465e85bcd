"""The SDK with one compilation cache: made where the rules fit, and a reason where they do not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import wasmtime

from wasm.foundation import cache, subprocesses
from wasm.golang import golist, toolchain
from wasm.gotest import fast_sdk
from wasm.gotest.fast_sdk import FastSdk, Speed
from wasm.records import sha256_of
from wasm.source import files

if TYPE_CHECKING:
    from collections.abc import Callable

REFERENCE = cache.PROJECT / "wasm/go/reference"
HOST_GO = "host.go"
PLACES = {"runtime-takes-shared-cache": 1, "test-host-has-shared-cache": 1}

# A wazero that counts what it compiles: enough of it for the rules, and nothing to fetch.
WAZERO_GO = """package wazero

var Compiled = 0

type CompilationCache struct{ known map[string]bool }

func NewCompilationCache() CompilationCache { return CompilationCache{map[string]bool{}} }

type RuntimeConfig struct{ cache CompilationCache }

func NewRuntimeConfig() RuntimeConfig { return RuntimeConfig{NewCompilationCache()} }

func (c RuntimeConfig) WithCompilationCache(shared CompilationCache) RuntimeConfig {
	c.cache = shared
	return c
}

type Runtime struct{ cache CompilationCache }

func NewRuntime(ctx int) Runtime { return NewRuntimeWithConfig(ctx, NewRuntimeConfig()) }

func NewRuntimeWithConfig(ctx int, config RuntimeConfig) Runtime { return Runtime{config.cache} }

func (r Runtime) CompileModule(module string) {
	if !r.cache.known[module] {
		Compiled++
	}
	r.cache.known[module] = true
}
"""
HOST = """// wazero.NewRuntime(ctx) in a comment is none.
package proxytest

import "github.com/tetratelabs/wazero"

const text = "wazero.NewRuntime(ctx)"

// Runs a module.
func NewVM(module string) {
	ctx := 0
	r := wazero.NewRuntime(ctx) // as it was
	r.CompileModule(module)
}
"""
FAST_HOST = """// wazero.NewRuntime(ctx) in a comment is none.
package proxytest

import "github.com/tetratelabs/wazero"

const text = "wazero.NewRuntime(ctx)"

// Runs a module.
func NewVM(module string) {
	ctx := 0
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(\
sharedCompilationCache)) // as it was
	r.CompileModule(module)
}

var sharedCompilationCache = wazero.NewCompilationCache()
"""
TESTS_GO = """package tiny

import (
	"testing"

	"github.com/tetratelabs/wazero"
	"sdk.example/sdk/proxytest"
)

func TestCompiled(t *testing.T) {
	for range 5 {
		proxytest.NewVM("module")
	}
	t.Log("compiled", wazero.Compiled)
}
"""
GO_MOD = """module tiny.example/plugin

go 1.24

require (
	github.com/tetratelabs/wazero v1.7.2
	sdk.example/sdk v1.0.0
)

replace (
	github.com/tetratelabs/wazero => ../wazero
	sdk.example/sdk => ../sdk
)
"""


def write(folder: Path, content: dict[str, str]) -> Path:
    for name, text in content.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    return folder


def sdk_in(folder: Path, host: str = HOST, module: str = "sdk.example/sdk") -> Path:
    go_mod = f"module {module}\n\ngo 1.24\n\nrequire github.com/tetratelabs/wazero v1.7.2\n"
    return write(folder, {"go.mod": go_mod, f"proxytest/{HOST_GO}": host})


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A plugin whose go.mod takes the SDK, and a wazero, from folders beside it."""
    wazero = "module github.com/tetratelabs/wazero\n\ngo 1.24\n"
    write(tmp_path / "wazero", {"go.mod": wazero, "wazero.go": WAZERO_GO})
    sdk_in(tmp_path / "sdk")
    return write(
        tmp_path / "plugin",
        {"go.mod": GO_MOD, "main.go": "package tiny\n", "main_test.go": TESTS_GO},
    )


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def prepared(cache_folder: Path, scratch: Path) -> Callable[[Path], Speed]:
    assert not cache_folder.exists()
    return lambda plugin: fast_sdk.prepare(toolchain.locate(), plugin, scratch)


def line_of(plugin: Path, speed: Speed) -> str:
    """Run the plugin's tests; the line that says how often the module was compiled."""
    go = toolchain.locate()
    flags = [f"-modfile={speed.modfile}"] if speed.modfile else []
    argv = [go.program, "test", "-v", "-count=1", *flags, "./..."]
    done = subprocesses.run(argv, cwd=plugin, env=go.environment)
    assert done.succeeded, done.stdout.decode()
    return next(line for line in done.stdout.decode().splitlines() if "compiled" in line)


# Where the rules fit ----------------------------------------------------------------------------


def test_tests_compile_a_module_once_and_the_source_stays_as_it_is(
    plugin: Path, prepared: Callable[[Path], Speed], cache_folder: Path
) -> None:
    before = files.digest(plugin.parent / "sdk"), files.digest(plugin)

    speed = prepared(plugin)

    assert speed.sdk == FastSdk(
        module="sdk.example/sdk@v1.0.0",
        file="proxytest/host.go",
        places=PLACES,
        original_sha256=sha256_of(HOST.encode()),
        changed_sha256=sha256_of(FAST_HOST.encode()),
    )
    assert speed.plain_because == ""
    assert line_of(plugin, Speed()).endswith("compiled 5")
    assert line_of(plugin, speed).endswith("compiled 1")
    [host] = cache_folder.glob(f"sdks/*/sdk/proxytest/{HOST_GO}")
    assert host.read_text() == FAST_HOST
    assert (files.digest(plugin.parent / "sdk"), files.digest(plugin)) == before


def test_a_file_with_the_line_ends_of_windows_keeps_them(
    plugin: Path, prepared: Callable[[Path], Speed], cache_folder: Path
) -> None:
    sdk_in(plugin.parent / "sdk", HOST.replace("\n", "\r\n"))

    assert prepared(plugin).sdk is not None

    [host] = cache_folder.glob(f"sdks/*/sdk/proxytest/{HOST_GO}")
    assert host.read_bytes() == FAST_HOST.replace("\n", "\r\n").encode()


def test_a_copy_is_made_once_and_made_again_when_it_was_damaged_or_the_sdk_changed(
    plugin: Path, prepared: Callable[[Path], Speed], cache_folder: Path
) -> None:
    prepared(plugin)
    [host] = cache_folder.glob(f"sdks/*/sdk/proxytest/{HOST_GO}")
    first = host.stat().st_ino
    prepared(plugin)
    assert host.stat().st_ino == first

    host.write_text(HOST)
    prepared(plugin)
    assert host.read_text() == FAST_HOST

    write(plugin.parent / "sdk", {"other/other.go": "package other\n"})
    prepared(plugin)
    assert len(list(cache_folder.glob(f"sdks/*/sdk/proxytest/{HOST_GO}"))) == 2


def test_of_two_versions_the_one_that_go_selects_is_taken(
    plugin: Path, prepared: Callable[[Path], Speed]
) -> None:
    newer = HOST.replace("as it was", "newer")
    sdk_in(plugin.parent / "sdk-newer", newer)
    other = "module other.example/other\n\ngo 1.24\n\nrequire sdk.example/sdk v1.1.0\n"
    write(plugin.parent / "other", {"go.mod": other, "other.go": "package other\n"})
    go_mod = GO_MOD.replace("sdk.example/sdk v1.0.0", "sdk.example/sdk v1.1.0").replace(
        "\tsdk.example/sdk => ../sdk\n",
        "\tsdk.example/sdk v1.0.0 => ../sdk\n\tsdk.example/sdk v1.1.0 => ../sdk-newer\n"
        "\tother.example/other => ../other\n",
    )
    write(plugin, {"go.mod": f"{go_mod}\nrequire other.example/other v1.0.0 // indirect\n"})

    speed = prepared(plugin)

    assert speed.sdk is not None
    assert speed.sdk.module == "sdk.example/sdk@v1.1.0"
    assert speed.sdk.original_sha256 == sha256_of(newer.encode())
    assert line_of(plugin, speed).endswith("compiled 1")


def test_settings_of_the_users_shell_do_not_matter(
    plugin: Path, prepared: Callable[[Path], Speed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOFLAGS", "-mod=mod -modfile=/nowhere/go.mod")
    monkeypatch.setenv("GOWORK", "/nowhere/go.work")

    speed = prepared(plugin)

    assert speed.sdk is not None
    assert line_of(plugin, speed).endswith("compiled 1")


# Where they do not ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "because"),
    [
        pytest.param(
            HOST.replace("wazero.NewRuntime(ctx) //", "newRuntime(ctx) //")
            + "\nfunc newRuntime(ctx int) wazero.Runtime {\n"
            "\treturn wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig())\n}\n",
            "no file of proxytest makes a runtime as the rules expect",
            id="another way to make a runtime",
        ),
        pytest.param(
            HOST + "\nvar Another = wazero.NewRuntime(1)\n",
            "rule runtime-takes-shared-cache applies 2 times in proxytest/host.go "
            "(lines: 11, 15), expected 1",
            id="two runtimes",
        ),
        pytest.param(
            HOST.replace("\tctx := 0\n", "\tctx := 0\n\t_ = sharedCompilationCache\n")
            + "\nconst sharedCompilationCache = 1\n",
            "the changed sdk.example/sdk cannot be used: ",
            id="the name is taken",
        ),
        pytest.param(
            HOST.replace('"github.com', 'wa "github.com').replace("wazero.New", "wa.New"),
            "no file of proxytest makes a runtime as the rules expect",
            id="wazero under another name",
        ),
    ],
)
def test_a_test_host_of_another_shape_is_used_as_it_is_and_why(
    plugin: Path, prepared: Callable[[Path], Speed], host: str, because: str
) -> None:
    sdk_in(plugin.parent / "sdk", host)

    speed = prepared(plugin)

    assert (speed.sdk, speed.modfile) == (None, None)
    assert speed.plain_because.startswith(because)
    assert line_of(plugin, speed).endswith("compiled 5")


def test_a_plugin_whose_tests_run_no_module_is_tested_plainly(
    plugin: Path, prepared: Callable[[Path], Speed]
) -> None:
    write(plugin, {"go.mod": "module tiny.example/plugin\n\ngo 1.24\n", "main_test.go": ""})
    (plugin / "main_test.go").unlink()

    assert prepared(plugin) == Speed(
        plain_because="its tests use no package proxytest that runs modules in wazero"
    )


def test_a_vendored_sdk_is_left_alone(plugin: Path, prepared: Callable[[Path], Speed]) -> None:
    go = toolchain.locate()
    done = subprocesses.run([go.program, "mod", "vendor"], cwd=plugin, env=go.environment)
    assert done.succeeded, done.stderr

    speed = prepared(plugin)

    assert speed == Speed(plain_because="sdk.example/sdk is vendored")
    assert line_of(plugin, speed).endswith("compiled 5")


def test_a_test_host_of_the_plugins_own_is_left_alone(
    plugin: Path, prepared: Callable[[Path], Speed]
) -> None:
    write(plugin, {"proxytest/host.go": HOST})
    write(plugin, {"main_test.go": TESTS_GO.replace("sdk.example/sdk/", "tiny.example/plugin/")})

    assert prepared(plugin) == Speed(
        plain_because="tiny.example/plugin/proxytest is the plugin's own"
    )


def test_two_test_hosts_are_named_and_left_alone(
    plugin: Path, prepared: Callable[[Path], Speed]
) -> None:
    write(plugin, {"proxytest/host.go": HOST})
    own = '\t"sdk.example/sdk/proxytest"\n\t_ "tiny.example/plugin/proxytest"\n'
    both = TESTS_GO.replace('\t"sdk.example/sdk/proxytest"\n', own)
    write(plugin, {"main_test.go": both})

    assert prepared(plugin) == Speed(
        plain_because="its tests use more than one test host, sdk.example/sdk/proxytest and "
        "tiny.example/plugin/proxytest"
    )


# The SDK of Higress -----------------------------------------------------------------------------

PARALLEL_GO = """package tiny

import (
	"os"
	"testing"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/proxytest"
)

func TestParallel(t *testing.T) {
	module, err := os.ReadFile(os.Getenv("WASM_FILE_PATH"))
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		t.Run("vm", func(t *testing.T) {
			t.Parallel()
			for range 25 {
				vm, err := proxytest.NewWasmVMContext(module)
				if err != nil {
					t.Fatal(err)
				}
				other, err := proxytest.NewWasmVMContext(module)
				if err != nil {
					t.Fatal(err)
				}
				if err := other.Close(); err != nil {
					t.Fatal(err)
				}
				if !vm.OnVMStart(0) {
					t.Fatal("the start failed after another runtime was closed")
				}
				if err := vm.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	t.Log("compiled")
}
"""
MODULE = """(module
  (import "env" "proxy_log" (func $log (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_initialize"))
  (func (export "proxy_on_vm_start") (param i32 i32) (result i32) (i32.const 1)))
"""


def test_runtimes_share_a_cache_in_parallel_and_after_another_was_closed(
    tmp_path: Path, prepared: Callable[[Path], Speed], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = write(tmp_path / "plugin", {"main.go": "package tiny\n", "main_test.go": PARALLEL_GO})
    for name in ("go.mod", "go.sum"):
        shutil.copy(REFERENCE / name, plugin)
    module = tmp_path / "main.wasm"
    module.write_bytes(wasmtime.wat2wasm(MODULE))
    speed = prepared(plugin)
    assert speed.sdk is not None
    assert speed.sdk.places == PLACES

    go = toolchain.locate()
    monkeypatch.setitem(go.environment, "WASM_FILE_PATH", str(module))

    assert line_of(plugin, speed).endswith("compiled")


def test_the_sdk_in_the_read_only_module_cache_stays_as_it_is(
    prepared: Callable[[Path], Speed], cache_folder: Path
) -> None:
    found = golist.packages(toolchain.locate(), REFERENCE, "-deps", "-test")
    [host] = [package for package in found if package.name == fast_sdk.TEST_HOST]
    assert host.module is not None
    original = Path(host.module.dir)
    before = files.digest(original)

    speed = prepared(REFERENCE)

    assert files.digest(original) == before
    assert speed.sdk is not None
    assert speed.sdk.module == f"{host.module.path}@{host.module.version}"
    [copy] = cache_folder.glob("sdks/*/sdk")
    changed = {
        path.relative_to(copy).as_posix()
        for path in copy.rglob("*")
        if path.is_file() and path.read_bytes() != (original / path.relative_to(copy)).read_bytes()
    }
    assert changed == {speed.sdk.file}
    assert all(os.access(path, os.W_OK) for path in copy.rglob("*"))
