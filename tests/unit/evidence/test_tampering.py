"""Every file of a bundle of the current shape, and every field of one cell: no change stays unseen.

What is looked at is found in the bundle itself, so a file or a field that is new is tried too.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from sessions.evidence import verify
from sessions.evidence.pair import bundle
from sessions.evidence.record import store
from sessions.evidence.record.check_results import Findings
from sessions.evidence.verify import reading, side
from sessions.matrix.records import Result
from tests.unit.evidence import forging, recorded
from wasm.records import Patch, Variant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)

B, F = Variant.BASELINE, Variant.FIXED
CHANGES = Patch.of(b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with all that one may hold; not to be changed."""
    evidence = tmp_path_factory.mktemp("evidence")
    runs = recorded.pair(evidence, repeats=1)
    for folder in runs.values():
        run, _ = store.read_run(folder)
        source = replace(run.module.source, dirty=True, uncommitted=CHANGES)
        module = replace(run.module, source=source)
        store.write_patches(folder, module)
        (folder / "logs" / "relay.log").write_text("the docker engine has this one\n")
        (folder / "config" / "admin-address.txt").write_text("127.0.0.1:40013")
        recorded.rewrite(folder, msgspec.structs.replace(run, module=module))
        recorded.unit(evidence, folder)
    return bundle.make(evidence, runs, None).folder


@pytest.fixture
def folder(fresh: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return shutil.copytree(fresh, tmp_path / "bundle")


def files(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def told(folder: Path) -> str:
    found = verify.of(folder)
    assert not found.holds, "it was verified"
    return "\n".join(problem for each in found.failed for problem in each.problems)


def test_it_has_every_file_that_the_docs_and_both_engines_name(fresh: Path) -> None:
    assert verify.of(fresh).failed == ()
    names = {*files(fresh)}
    assert {"unit/baseline.json", "unit/fixed.json", "comparison.json", "report.md"} <= names
    for variant in Variant:
        assert f"{variant}/config/uncommitted.patch" in names
        assert f"{variant}/logs/relay.log" in names
    assert len(names) > 45


def test_any_changed_or_dropped_file_is_seen_and_named(fresh: Path, folder: Path) -> None:
    for name in files(fresh):
        path = folder / name
        content = path.read_bytes()
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        text = told(folder)
        # What SHA256SUMS says of another file is then not so, or it names another file.
        assert f"{name} was changed" in text or name.endswith(store.SUMS), name
        path.unlink()
        assert f"{name.removeprefix('baseline/').removeprefix('fixed/')} is missing" in told(folder)
        path.write_bytes(content)
    assert verify.of(folder).failed == ()


def test_any_changed_or_dropped_file_is_seen_and_named_though_the_sums_match(
    fresh: Path, folder: Path
) -> None:
    for name in files(fresh):
        if name.endswith(store.SUMS):
            continue
        path = folder / name
        content = path.read_bytes()
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        forging.reseal(folder)
        text = told(folder)
        # A change of what two runs must share is named by both values.
        assert path.name in text or "the inputs have the digest" in text, name
        path.unlink()
        forging.reseal(folder)
        optional = name.startswith("unit/")
        # Without Go's own tests it is another bundle, whose comparison says that there are none.
        assert ("unit." if optional else path.name) in told(folder), name
        path.write_bytes(content)
    forging.reseal(folder)
    assert verify.of(folder).failed == ()


SECRET = "glpat-" + "Ab3dEf7hIj1lMn0pQr5t"


@pytest.mark.parametrize(
    "name", ["fixed/logs/relay.log", "fixed/config/admin-address.txt", "unit/fixed.json", "more.md"]
)
def test_a_secret_is_seen_in_any_file(folder: Path, name: str) -> None:
    with (folder / name).open("a") as file:
        file.write(f" {SECRET}")
    forging.reseal(folder)
    assert f"{name} holds what looks like a credential, 26 characters" in told(folder)


def test_of_uncommitted_changes_what_they_add_is_looked_at_and_the_fix_is_left_alone(
    folder: Path,
) -> None:
    def secrets() -> tuple[str, ...]:
        found = verify.of(folder).made
        return next(each.problems for each in found if each.check == "secrets")

    for name in (store.FIX, store.UNCOMMITTED):
        (folder / F / name).write_text(f" {SECRET}\n-{SECRET}\n")
    assert secrets() == ()
    for name in (store.FIX, store.UNCOMMITTED):
        (folder / F / name).write_text(f"+{SECRET}\n")
    assert secrets() == (
        "fixed/config/uncommitted.patch holds what looks like a credential, 26 characters",
    )


# --- Any field of one cell ----------------------------------------------------------------------


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list) and value:
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))
    yield path


def other(value: Any) -> Any:
    """Another value of the same kind, where that is a kind with others."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value}x" if len(value) % 4 or " " in value else f"AAAA{value}"
    if isinstance(value, list):
        return value[:-1] if value else ["x"]
    return {} if value else {"x": 1}


# Told by one file alone, and nothing that is judged follows from it (docs/evidence.md, What it
# cannot show): times, who sent it, and every header but the key's, of attempts and responses. A
# nanosecond is too little to change the order.
UNTOLD = re.compile(
    r"seconds|response\.headers(\.\d+(\.[01])?)?|attempts\.\d+\."
    r"(received_at|received_mono_ns|answered_mono_ns|proto|from)"
)


@pytest.mark.parametrize("variant", Variant)
def test_any_field_of_a_cell_is_held_against_the_rest(folder: Path, variant: Variant) -> None:
    cells = folder / variant / store.CELLS
    first, *others = cells.read_bytes().splitlines(keepends=True)
    whole = msgspec.json.decode(first)
    untold: set[str] = set()
    tried = [place for place in places(whole) if place]
    assert len(tried) > 120
    for place in tried:
        changed = msgspec.json.decode(first)
        at = changed
        for key in place[:-1]:
            at = at[key]
        at[place[-1]] = other(at[place[-1]])
        name = ".".join(map(str, place))
        try:
            result = msgspec.convert(changed, Result)
        except msgspec.ValidationError:
            continue
        cells.write_bytes(store.as_lines([result]) + b"".join(others))
        found = Findings("run")
        read = reading.side(found, folder, variant)
        assert read is not None, name
        side.check(found, read)
        seen = {each.check for each in found.failed} - {"files"}
        if not seen:
            untold.add(name)
    assert len(untold) > 10
    assert [name for name in untold if not UNTOLD.fullmatch(name)] == []
    # That it is listed as untold is no guess: it was tried.
    assert {"seconds", "response.headers.0.1", "attempts.0.from"} <= untold
