"""From a tree to a module: the same bytes wherever, a cache that heals, and every way to fail."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from wasm.foundation.errors import BuildError
from wasm.golang import toolchain
from wasm.module.abi import STOCK_ENVOY, refuse_unloadable
from wasm.module.binary import read_shape
from wasm.module.build import build
from wasm.records import Module, Variant, sha256_of
from wasm.source.variant_tree import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.wasm.conftest import Checkout, Ended, RunWasm

BASELINE, FIXED = Variant
BUILD = [
    "go",
    "build",
    "-trimpath",
    "-buildvcs=false",
    "-buildmode=c-shared",
    "-o",
    "main.wasm",
    ".",
]


def request_of(checkout: Checkout) -> Request:
    return Request(source=str(checkout.path), plugin=checkout.plugin)


def arguments_of(checkout: Checkout, record: Path) -> list[str]:
    return [
        "build",
        "--variant=baseline",
        f"--output={record}",
        f"--source={checkout.path}",
        f"--plugin={checkout.plugin}",
    ]


@pytest.fixture
def build_in(
    checkout: Checkout, tmp_path: Path, run_wasm: RunWasm
) -> Callable[..., tuple[Ended, Path]]:
    record = tmp_path / "out" / "record.json"

    def build(**env: str) -> tuple[Ended, Path]:
        return run_wasm(*arguments_of(checkout, record), env=env), record

    return build


# A module and its record ------------------------------------------------------------------------


def test_a_module_is_built_recorded_and_taken_from_the_cache_from_then_on(
    checkout: Checkout, cache_folder: Path
) -> None:
    module = build(BASELINE, request_of(checkout))

    data = Path(module.path).read_bytes()
    assert Path(module.path).is_relative_to(cache_folder / "modules")
    assert (module.sha256, module.size_bytes) == (sha256_of(data), len(data))
    assert data.startswith(b"\0asm")
    assert {"answer", "_initialize"} <= set(read_shape(data).exports)
    assert module.command == BUILD
    assert module.go_version.startswith("go version go1.26.8 ")
    assert (module.environment["GOOS"], module.environment["GOARCH"]) == ("wasip1", "wasm")
    assert module.environment["GOFLAGS"] == ""
    assert module.seconds > 0
    assert module.read() == data
    assert build(BASELINE, request_of(checkout)) == module
    assert list((cache_folder / "work").iterdir()) == []


def test_the_two_variants_of_the_same_files_share_a_module_and_keep_their_names(
    checkout: Checkout, cache_folder: Path
) -> None:
    baseline = build(BASELINE, request_of(checkout))

    fixed = build(FIXED, replace(request_of(checkout), fixed_ref="HEAD"))

    assert (baseline.variant, fixed.variant) == (BASELINE, FIXED)
    assert baseline.path == fixed.path
    assert len([path for path in (cache_folder / "modules").iterdir() if path.is_dir()]) == 1


def test_another_file_gives_another_module(checkout: Checkout, cache_folder: Path) -> None:
    first = build(BASELINE, request_of(checkout))
    checkout.write(f"{checkout.plugin}/main.go", "package main\n\nfunc main() { println(42) }\n")

    second = build(BASELINE, request_of(checkout))

    assert second.sha256 != first.sha256
    assert second.source.dirty
    assert Path(first.path).is_relative_to(cache_folder)


@pytest.mark.parametrize("damage", ["cut short", "gone", "no record", '["not", "a', "[]", "{}"])
def test_a_damaged_module_in_the_cache_is_built_again(
    checkout: Checkout, cache_folder: Path, damage: str
) -> None:
    module = build(BASELINE, request_of(checkout))
    file = Path(module.path)
    if damage == "cut short":
        file.write_bytes(file.read_bytes()[:1000])
    elif damage == "gone":
        file.unlink()
    elif damage == "no record":
        (file.parent / "built.json").unlink()
    else:
        (file.parent / "built.json").write_text(damage, encoding="utf-8")

    again = build(BASELINE, request_of(checkout))

    assert (again.sha256, again.path) == (module.sha256, module.path)
    assert sha256_of(file.read_bytes()) == module.sha256
    assert file.is_relative_to(cache_folder)


@pytest.mark.usefixtures("cache_folder")
def test_an_entry_of_the_cache_in_the_place_of_another_is_built_again(checkout: Checkout) -> None:
    first = build(BASELINE, request_of(checkout))
    checkout.write(f"{checkout.plugin}/main.go", "package main\n\nfunc main() { println(42) }\n")
    second = build(BASELINE, request_of(checkout))
    shutil.rmtree(Path(second.path).parent)
    shutil.copytree(Path(first.path).parent, Path(second.path).parent)

    assert build(BASELINE, request_of(checkout)).sha256 == second.sha256 != first.sha256


@pytest.mark.parametrize("is_damaged", [True, False])
def test_what_was_changed_in_go_s_build_cache_makes_no_module(
    checkout: Checkout,
    cache_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_damaged: bool,
) -> None:
    """Go names a file there by its digest, and looks at no more than its size."""
    archive = tmp_path / f"{sha256_of(b'an archive')}-d"
    archive.write_bytes(b"an Archive" if is_damaged else b"an archive")
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    listed = f'case "$*" in *"-f={{{{.Export}}}}"*) echo {archive}; exit;; esac'
    go.write_text(f'#!/bin/sh\n{listed}\nexec {shutil.which("go")} "$@"\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(go.parent), prepend=os.pathsep)

    if not is_damaged:
        assert Path(build(BASELINE, request_of(checkout)).path).is_relative_to(cache_folder)
        return
    with pytest.raises(BuildError) as caught:
        build(BASELINE, request_of(checkout))
    assert caught.value.sentence.startswith(f"{archive} in Go's build cache is not what ")
    assert not [*cache_folder.glob("modules/*/main.wasm")]


@pytest.mark.usefixtures("cache_folder")
def test_a_module_that_changed_after_it_was_built_is_refused_when_it_is_read(
    checkout: Checkout,
) -> None:
    module = build(BASELINE, request_of(checkout))
    Path(module.path).write_bytes(b"other")

    with pytest.raises(BuildError) as caught:
        module.read()

    assert caught.value.sentence == (
        f"the baseline module at {module.path} is not the one that was built: expected SHA-256 "
        f"{module.sha256[:12]}, found {sha256_of(b'other')[:12]}; build it again"
    )


def test_the_command_writes_a_record_that_can_be_loaded_again(
    checkout: Checkout, build_in: Callable[..., tuple[Ended, Path]]
) -> None:
    ended, record = build_in()

    module = Module.load(record)
    assert (ended.status, ended.stderr) == (0, "")
    assert ended.stdout == (
        f"baseline: extensions/tiny of checkout at {checkout.git('rev-parse', 'HEAD')[:12]}\n"
        "baseline: built with go1.26.8: ours, since the source asks for no other\n"
        f"baseline: module {module.sha256} ({module.size_bytes / 1e6:.1f} MB)\n"
    )


# The same bytes wherever ------------------------------------------------------------------------


@pytest.fixture
def built_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, Request], str]:
    """Build with a cache of its own, so that nothing but the compiler can give the same bytes."""

    def build_apart(cache: Path, request: Request) -> str:
        monkeypatch.setenv("GATEWAY_PROOF_CACHE", str(cache))
        assert not list(cache.glob("modules/*"))
        return build(BASELINE, request).sha256

    monkeypatch.chdir(tmp_path)
    return build_apart


def test_a_primary_a_sibling_and_a_nested_worktree_give_the_same_bytes(
    checkout: Checkout, tmp_path: Path, built_apart: Callable[[Path, Request], str]
) -> None:
    trees = [checkout.path, tmp_path / "sibling", checkout.path / "nested" / "tree"]
    for tree in trees[1:]:
        checkout.git("worktree", "add", "--quiet", "--detach", str(tree))

    digests = {
        built_apart(tree / ".cache-of-ours", replace(request_of(checkout), source=str(tree)))
        for tree in trees
    }

    assert len(digests) == 1


def test_two_folders_and_a_parent_with_its_own_git_and_go_settings_give_the_same_bytes(
    checkout: Checkout, tmp_path: Path, built_apart: Callable[[Path, Request], str]
) -> None:
    other = tmp_path / "another place, ünd longer"
    checkout.git("clone", "--quiet", ".", str(other))
    parent = tmp_path / "parent"
    (parent / ".git").mkdir(parents=True)  # a repository that is broken
    (parent / "go.work").write_text("go 1.24\nuse ./nowhere\n")
    (parent / "go.mod").write_text("module parent.example/x\n\ngo 1.99\n")

    one = built_apart(tmp_path / "cache-1", request_of(checkout))
    two = built_apart(parent / "cache-2", replace(request_of(checkout), source=str(other)))

    assert one == two


def test_no_variable_of_a_shell_changes_the_bytes(
    checkout: Checkout,
    tmp_path: Path,
    built_apart: Callable[[Path, Request], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = built_apart(tmp_path / "cache-1", request_of(checkout))
    for key, value in {
        "GOFLAGS": "-ldflags=-s -tags=other",
        "GOOS": "linux",
        "GOARCH": "386",
        "GO111MODULE": "off",
        "GOROOT": "/nowhere",
        "GOFIPS140": "latest",
        "GOWASM": "satconv",
        "WASM_FILE_PATH": "/nowhere.wasm",
    }.items():
        monkeypatch.setenv(key, value)
    toolchain.locate.cache_clear()

    assert built_apart(tmp_path / "cache-2", request_of(checkout)) == plain


def test_a_relative_cache_folder_works(
    checkout: Checkout, tmp_path: Path, built_apart: Callable[[Path, Request], str]
) -> None:
    built_apart(Path("relative"), request_of(checkout))

    assert list((tmp_path / "relative/modules").glob("*/main.wasm"))


def test_a_module_built_without_c_shared_is_refused_before_a_gateway_starts(
    checkout: Checkout, cache_folder: Path
) -> None:
    assert not cache_folder.exists()
    go = toolchain.locate()
    subprocess.run(
        [go.program, "build", "-o", "plain.wasm", "."],
        cwd=checkout.path / checkout.plugin,
        env=go.environment | {"GOOS": "wasip1", "GOARCH": "wasm"},
        check=True,
    )
    data = (checkout.path / checkout.plugin / "plain.wasm").read_bytes()

    with pytest.raises(BuildError, match="_initialize"):
        refuse_unloadable(read_shape(data), STOCK_ENVOY)


# Two at once, and one interrupted ---------------------------------------------------------------


def test_two_builds_of_the_same_at_once_compile_once_and_are_both_right(
    checkout: Checkout, tmp_path: Path, run_wasm: RunWasm, cache_folder: Path
) -> None:
    records = [tmp_path / "one.json", tmp_path / "two.json"]
    ended: list[Ended] = []
    threads = [
        threading.Thread(
            target=lambda record=record: ended.append(run_wasm(*arguments_of(checkout, record)))
        )
        for record in records
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    assert [each.status for each in ended] == [0, 0]
    one, two = (Module.load(record) for record in records)
    # Its seconds are the compiler's own: equal to the millisecond, since there was one compile.
    assert one == two
    assert sha256_of(Path(one.path).read_bytes()) == one.sha256
    assert list((cache_folder / "work").iterdir()) == []


def descendants(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return list(psutil.Process(pid).children(recursive=True))
    return []


def wait_for_the_compiler(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Wait until Go compiles; the processes that were started by then."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        found = descendants(process.pid)
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(each.name() == "compile" for each in found):
                return found
        time.sleep(0.005)
    pytest.fail("Go compiled nothing within 60 s")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_leaves_no_process_and_no_folder_and_the_next_one_works(
    checkout: Checkout,
    tmp_path: Path,
    build_in: Callable[..., tuple[Ended, Path]],
    cache_folder: Path,
    number: signal.Signals,
) -> None:
    record = tmp_path / "interrupted.json"
    with subprocess.Popen(
        [sys.executable, "-m", "wasm", *arguments_of(checkout, record)],
        cwd=Path(__file__).parents[3],
        env=os.environ | {"GOCACHE": str(tmp_path / "cold")},  # compiling takes its time
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        started = wait_for_the_compiler(process)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 130
    assert said == "interrupted; everything that was started has been ended\n"
    assert [each for each in started if each.is_running() and each.status() != "zombie"] == []
    assert list((cache_folder / "work").iterdir()) == []
    assert not list(cache_folder.glob("modules/*/main.wasm"))
    assert not record.exists()
    assert build_in()[0].status == 0


# Every way to fail ------------------------------------------------------------------------------


def test_go_that_does_not_compile_shows_the_compilers_lines_and_then_the_sentence(
    checkout: Checkout, build_in: Callable[..., tuple[Ended, Path]], cache_folder: Path
) -> None:
    checkout.write(f"{checkout.plugin}/main.go", "package main\n\nfunc main() { return 1 }\n")

    ended, record = build_in()

    assert (ended.status, ended.stdout) == (2, "")
    assert ended.stderr == (
        "# tiny.example/plugin\n"
        "./main.go:3:22: too many return values\n"
        "\thave (number)\n"
        "\twant ()\n"
        "error: Go could not build extensions/tiny of checkout (exit status 1); expected a plugin "
        "that compiles for wasip1; see the lines above\n"
    )
    assert list((cache_folder / "work").iterdir()) == []
    assert not list(cache_folder.glob("modules/*/"))
    assert not record.parent.exists()


@pytest.mark.parametrize("where", ["a file", "below a file"])
def test_a_cache_that_is_a_file_is_told(
    tmp_path: Path, build_in: Callable[..., tuple[Ended, Path]], where: str
) -> None:
    (tmp_path / "file").write_text("")
    cache = tmp_path / "file" if where == "a file" else tmp_path / "file" / "cache"

    ended, _ = build_in(GATEWAY_PROOF_CACHE=str(cache))

    assert (ended.status, ended.stderr) == (
        2,
        (
            f"error: cannot write below {cache} (Not a directory); expected a folder of ours"
            " to build in; set GATEWAY_PROOF_CACHE to one that can be written\n"
        ),
    )


def test_a_record_that_cannot_be_written_is_told(
    checkout: Checkout, tmp_path: Path, run_wasm: RunWasm
) -> None:
    ended = run_wasm(*arguments_of(checkout, tmp_path))

    assert (ended.status, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"error: the record cannot be written to --output {tmp_path} (Is a directory); expected a "
        "file in a folder that can be written; name another\n"
    )


# A full disk ------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mount memory of a size as a disk; unmounted afterwards."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(size: str) -> Path:
        options = ["-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        subprocess.run(["mount", *options], check=True)
        return folder

    yield mount
    if folder.is_mount():
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize(
    ("size", "who"),
    [("1m", "Go"), ("256k", "our writing"), ("256k", "git")],
)
def test_a_full_disk_is_told_and_nothing_is_left_on_it(
    checkout: Checkout,
    small_disk: Callable[[str], Path],
    build_in: Callable[..., tuple[Ended, Path]],
    size: str,
    who: str,
) -> None:
    if who != "Go":
        checkout.write(f"{checkout.plugin}/large.bin", os.urandom(400_000))
        if who == "our writing":
            checkout.commit()
    disk = small_disk(size)

    ended, _ = build_in(GATEWAY_PROOF_CACHE=str(disk))

    assert ended.status == 2
    assert ended.last_line.startswith(f"error: no space left on the disk of {disk}")
    assert ended.last_line.endswith(
        "; a build needs about 500 MB there; free some, or set GATEWAY_PROOF_CACHE to a folder on "
        "another disk"
    )
    assert "Traceback" not in ended.stderr
    assert list((disk / "work").iterdir()) == []
    assert not list(disk.glob("modules/*/main.wasm"))


@pytest.fixture
def with_a_large_dependency(checkout: Checkout, tmp_path: Path) -> dict[str, str]:
    """Let the plugin need a module of 3 MB; Go's settings with which it is to be had."""
    at = tmp_path / "proxy/big.example/big/@v"
    at.mkdir(parents=True)
    (at / "list").write_text("v1.0.0\n")
    (at / "v1.0.0.info").write_text('{"Version": "v1.0.0"}')
    (at / "v1.0.0.mod").write_text("module big.example/big\n")
    with zipfile.ZipFile(at / "v1.0.0.zip", "w") as archive:
        root = "big.example/big@v1.0.0"
        archive.writestr(f"{root}/go.mod", "module big.example/big\n")
        archive.writestr(f"{root}/big.go", "package big\n\nconst Answer = 42\n")
        archive.writestr(f"{root}/data.bin", os.urandom(3_000_000))
    settings = {
        "GOPROXY": (tmp_path / "proxy").as_uri(),
        "GONOSUMDB": "big.example",
        "GOMODCACHE": str(tmp_path / "mod"),
        "GOFLAGS": "-modcacherw",
    }
    checkout.write(
        f"{checkout.plugin}/main.go",
        'package main\n\nimport "big.example/big"\n\nfunc main() { println(big.Answer) }\n',
    )
    subprocess.run(
        ["go", "get", "big.example/big@v1.0.0"],
        cwd=checkout.path / checkout.plugin,
        env=os.environ | settings,
        check=True,
        capture_output=True,
    )
    return settings


def test_a_disk_that_the_download_of_a_module_fills_is_the_one_that_is_named(
    with_a_large_dependency: dict[str, str],
    small_disk: Callable[[str], Path],
    build_in: Callable[..., tuple[Ended, Path]],
    cache_folder: Path,
) -> None:
    assert build_in(**with_a_large_dependency)[0].status == 0
    for module in cache_folder.glob("modules/*/main.wasm"):
        module.unlink()
    disk = small_disk("1m")

    ended, _ = build_in(**with_a_large_dependency | {"GOMODCACHE": str(disk)})

    assert (ended.status, ended.last_line) == (
        2,
        (
            f"error: no space left on the disk of {disk}; a build needs about 500 MB there; "
            "free some, or set GOMODCACHE to a folder on another disk"
        ),
    )
    assert list((cache_folder / "work").iterdir()) == []


def test_a_module_proxy_that_does_not_answer_shows_gos_lines(
    with_a_large_dependency: dict[str, str],
    tmp_path: Path,
    build_in: Callable[..., tuple[Ended, Path]],
) -> None:
    settings = with_a_large_dependency | {"GOPROXY": "off", "GOMODCACHE": str(tmp_path / "empty")}

    ended, _ = build_in(**settings)

    assert ended.status == 2
    assert "module lookup disabled by GOPROXY=off" in ended.stderr
    assert ended.last_line.startswith("error: a module that extensions/tiny needs could not be ")
    assert ended.last_line.endswith(" and GOPROXY")


def test_a_dependency_that_was_changed_in_gos_module_cache_is_refused(
    with_a_large_dependency: dict[str, str],
    tmp_path: Path,
    checkout: Checkout,
    build_in: Callable[..., tuple[Ended, Path]],
    cache_folder: Path,
) -> None:
    assert build_in(**with_a_large_dependency)[0].status == 0
    before = list(cache_folder.glob("modules/*/main.wasm"))
    folder = tmp_path / "mod/big.example/big@v1.0.0"
    (folder / "big.go").chmod(0o644)
    (folder / "big.go").write_text("package big\n\nconst Answer = 43\n")
    with (checkout.path / checkout.plugin / "main.go").open("a") as file:
        file.write("\n// Another one.\n")

    ended, _ = build_in(**with_a_large_dependency)

    assert (ended.status, ended.last_line) == (
        2,
        (
            f"error: big.example/big v1.0.0 was changed in Go's module cache ({folder}); expected "
            "it as go.sum has it, so that others get the same module; run `go clean -modcache`"
        ),
    )
    assert list(cache_folder.glob("modules/*/main.wasm")) == before


def test_a_plugin_that_asks_for_a_newer_go_is_told_so(
    checkout: Checkout, build_in: Callable[..., tuple[Ended, Path]]
) -> None:
    checkout.write(f"{checkout.plugin}/go.mod", "module tiny.example/tiny\n\ngo 1.99\n")

    ended, _ = build_in()

    assert ended.last_line.startswith("error: go1.99.0 could not be fetched: ")


def test_a_go_that_was_named_and_is_too_old_for_the_plugin_is_told(checkout: Checkout) -> None:
    checkout.write(f"{checkout.plugin}/go.mod", "module tiny.example/tiny\n\ngo 1.27\n")

    with pytest.raises(BuildError) as caught:
        build(BASELINE, replace(request_of(checkout), go="go1.26.8"))

    assert "asks for Go 1.27; expected 1.26.8 at most" in caught.value.sentence
    assert "--go" in caught.value.sentence


# A function of Go 1.26 (errors.AsType), so that the two toolchains can be told apart.
NEWER_GO = """package main

import "errors"

//go:wasmexport answer
func answer() int32 {
\t_, ok := errors.AsType[*errno](nil)
\tif ok {
\t\treturn 1
\t}
\treturn 0
}

type errno struct{}

func (*errno) Error() string { return "" }

func main() {}
"""


@pytest.mark.usefixtures("cache_folder")
def test_both_variants_are_built_with_the_go_that_the_source_asks_for(
    checkout: Checkout,
) -> None:
    checkout.write(
        f"{checkout.plugin}/go.mod",
        "module tiny.example/tiny\n\ngo 1.24\n\ntoolchain go1.24.4\n",
    )
    checkout.commit()
    checkout.git("checkout", "--quiet", "-b", "fix")
    checkout.write(f"{checkout.plugin}/main.go", NEWER_GO)
    checkout.commit()
    request = replace(request_of(checkout), baseline_ref="main", fixed_ref="fix")

    baseline = build(BASELINE, request)
    assert baseline.go_version.startswith("go version go1.24.4 ")
    assert baseline.environment["GOTOOLCHAIN"] == "go1.24.4"
    assert any("built with go1.24.4: " in line for line in baseline.summary)
    with pytest.raises(BuildError, match="could not build"):
        build(FIXED, request)

    modules = [build(variant, replace(request, go="go1.26.8")) for variant in Variant]
    assert {module.environment["GOTOOLCHAIN"] for module in modules} == {"go1.26.8"}
    assert modules[0].sha256 != baseline.sha256


def test_the_records_json_says_what_a_reader_looks_for(
    build_in: Callable[..., tuple[Ended, Path]],
) -> None:
    _, record = build_in()

    written = json.loads(record.read_text())
    assert written["command"] == BUILD
    assert written["source"].keys() >= {"repository", "commit", "tree", "dirty", "files_sha256"}
