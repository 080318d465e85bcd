"""The packages of a folder and the tests that they declare, as Go would take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wasm.foundation.errors import BuildError
from wasm.golang import golist, toolchain

if TYPE_CHECKING:
    from pathlib import Path

TESTS_GO = """package tiny

import "testing"

// func TestInAComment(t *testing.T) {}
var text = `
func TestInAString(t *testing.T) {}
`

type suite struct{}

func (suite) TestMethod(t *testing.T) {}

func TestMain(m *testing.M)        { m.Run() }
func TestFirst(t *testing.T)       { t.Run("sub", func(t *testing.T) {}) }
func Test(t *testing.T)            {}
func Test_under(t *testing.T)      {}
func TestÉtude(t *testing.T)       {}
func Testify(t *testing.T)         {}
func FuzzFirst(f *testing.F)       {}
func BenchmarkFirst(b *testing.B)  {}
func ExampleFirst()                {}
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    folder = tmp_path / "plugin"
    (folder / "inner").mkdir(parents=True)
    (folder / "go.mod").write_text("module tiny.example/plugin\n\ngo 1.24\n")
    (folder / "main.go").write_text("package tiny\n")
    (folder / "main_test.go").write_text(TESTS_GO)
    (folder / "other_test.go").write_text(
        'package tiny_test\n\nimport "testing"\n\nfunc TestOutside(t *testing.T) {}\n'
    )
    (folder / "never_test.go").write_text(
        '//go:build never\n\npackage tiny\n\nimport "testing"\n\nfunc TestNever(t *testing.T) {}\n'
    )
    (folder / "inner" / "inner.go").write_text("package inner\n")
    return folder


def test_the_tests_of_a_package_are_those_that_go_would_run(plugin: Path) -> None:
    outer, inner = golist.packages(toolchain.locate(), plugin)

    assert (outer.import_path, outer.name, outer.dir) == (
        "tiny.example/plugin",
        "tiny",
        str(plugin),
    )
    assert outer.module == golist.GoModule(
        path="tiny.example/plugin", version="", dir=str(plugin), main=True
    )
    assert outer.tests == (
        "TestFirst",
        "Test",
        "Test_under",
        "TestÉtude",
        "FuzzFirst",
        "TestOutside",
    )
    assert (inner.import_path, inner.tests) == ("tiny.example/plugin/inner", ())


def test_what_the_tests_import_is_listed_with_it_when_asked_for(plugin: Path) -> None:
    found = golist.packages(toolchain.locate(), plugin, "-deps", "-test")

    testing = next(package for package in found if package.import_path == "testing")
    assert testing.module is None


def test_a_package_that_cannot_be_built_is_listed_all_the_same(plugin: Path) -> None:
    (plugin / "wrong.go").write_text("package another\n")

    names = [package.import_path for package in golist.packages(toolchain.locate(), plugin)]

    assert names == ["tiny.example/plugin", "tiny.example/plugin/inner"]


def test_a_folder_that_go_cannot_read_is_told_in_a_sentence(plugin: Path) -> None:
    (plugin / "go.mod").write_text("nonsense\n")

    with pytest.raises(BuildError) as caught:
        golist.packages(toolchain.locate(), plugin)

    assert caught.value.sentence == (
        "go list could not be run: go.mod:1: unknown directive: nonsense; expected it to read the "
        "plugin's packages; see what `go list ./...` says in its folder"
    )
