"""What the adapter changes, what it leaves, and what its filter does when a host calls it."""

from hashlib import sha256
from typing import Any

import pytest
from wasmtime import Engine, Func, FuncType, Linker, Module, Store, ValType, wat2wasm

from wasm.foundation.errors import BuildError
from wasm.module.abi import STOCK_ENVOY, refuse_unloadable
from wasm.module.adapter import adapt_for_stock_envoy, cluster_name_filter
from wasm.module.binary import read_shape


def assemble(abi_export: str) -> bytes:
    """Assemble a module with the exports of a Go plugin, as small as can be."""
    return bytes(
        wat2wasm(
            f"""(module
                (import "env" "proxy_log" (func (param i32 i32 i32) (result i32)))
                (memory (export "memory") 1)
                (func (export "_initialize"))
                (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 64))
                (func (export "{abi_export}"))
                (data (i32.const 0) "{abi_export}"))"""
        )
    )


# --- Adapting -----------------------------------------------------------------------------------


def test_t6_a_module_of_higress_sdk_is_loadable_after_adapting_and_not_before() -> None:
    original = assemble("proxy_abi_version_0_2_100")
    with pytest.raises(BuildError, match="`0_2_100`"):
        refuse_unloadable(read_shape(original), STOCK_ENVOY)
    refuse_unloadable(read_shape(adapt_for_stock_envoy(original).module), STOCK_ENVOY)


def test_only_the_name_of_the_abi_export_is_changed() -> None:
    original = assemble("proxy_abi_version_0_2_100")
    adapted = adapt_for_stock_envoy(original).module
    head, old, tail = original.partition(b"\x19proxy_abi_version_0_2_100")
    assert old
    assert adapted == head.replace(*_export_section_sizes(head)) + b"\x17" + old[1:-2] + tail
    assert Module.validate(Engine(), adapted) is None


def _export_section_sizes(head: bytes) -> tuple[bytes, bytes]:
    """The start of the export section as it was, and as it is with a name two bytes shorter."""
    start = head.rindex(b"\x07", 0, head.index(b"\x06memory"))
    size = head[start + 1]
    assert 0x02 < size < 0x80, "one byte, before and after"
    return head[start : start + 2], bytes([7, size - 2])


def test_the_record_names_both_hashes_the_filters_and_what_was_done() -> None:
    original = assemble("proxy_abi_version_0_2_100")
    adapted = adapt_for_stock_envoy(original)
    assert adapted.original_sha256 == sha256(original).hexdigest()
    assert adapted.adapted_sha256 == sha256(adapted.module).hexdigest()
    assert adapted.original_sha256 != adapted.adapted_sha256
    assert adapted.cluster_filter_sha256 == sha256(cluster_name_filter()).hexdigest()
    renaming, filtering = adapted.steps
    assert "`proxy_abi_version_0_2_100`" in renaming
    assert "`proxy_abi_version_0_2_1`" in renaming
    assert "`cluster_name`" in filtering


@pytest.mark.parametrize("abi", sorted(STOCK_ENVOY.abis))
def test_a_module_that_stock_envoy_knows_stays_as_it_is(abi: str) -> None:
    original = assemble(f"proxy_abi_version_{abi}")
    adapted = adapt_for_stock_envoy(original)
    assert adapted.module == original
    assert adapted.original_sha256 == adapted.adapted_sha256
    assert "unchanged" in adapted.steps[0]
    assert f"`{abi}`" in adapted.steps[0]


def test_adapting_twice_changes_nothing_more() -> None:
    once = adapt_for_stock_envoy(assemble("proxy_abi_version_0_2_100"))
    assert adapt_for_stock_envoy(once.module).module == once.module


@pytest.mark.parametrize(
    ("abi_export", "named"),
    [("proxy_abi_version_0_3_0", "ABI `0_3_0`"), ("other", "no proxy-Wasm ABI")],
)
def test_an_abi_that_nothing_stands_in_for_is_refused(abi_export: str, named: str) -> None:
    with pytest.raises(BuildError) as refusal:
        adapt_for_stock_envoy(assemble(abi_export))
    assert named in refusal.value.sentence
    assert "0_2_100" in refusal.value.sentence


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(BuildError, match="no Wasm module"):
        adapt_for_stock_envoy(b"#!/bin/sh")


# --- The filter ---------------------------------------------------------------------------------

OK, NOT_FOUND = 0, 1


class FilterHost:
    """Runs the filter the way Envoy does: it hands over its attributes, and notes properties.

    Args:
        attributes: What it has, by path, the parts of a path apart by a zero byte.
    """

    def __init__(self, attributes: dict[bytes, bytes]) -> None:
        self.attributes = attributes
        self.properties: list[tuple[bytes, bytes]] = []
        self._store = Store()
        engine, word = self._store.engine, ValType.i32()
        linker = Linker(engine)
        for name, function in (
            ("proxy_get_property", self._give_attribute),
            ("proxy_set_property", self._note_property),
        ):
            linker.define_func("env", name, FuncType([word] * 4, [word]), function)
        filter_module = Module(engine, cluster_name_filter())
        self._exports = linker.instantiate(self._store, filter_module).exports(self._store)
        assert self._call("proxy_on_vm_start", 1, 0) == 1

    def configure(self, root: int) -> bool:
        """Create a root context with no configuration; say whether the filter took it."""
        self._call("proxy_on_context_create", root, 0)
        return bool(self._call("proxy_on_configure", root, 0))

    def request(self, context: int, root: int) -> int:
        """Begin a request below a root context, and give the filter's answer to its headers."""
        self._call("proxy_on_context_create", context, root)
        return int(self._call("proxy_on_request_headers", context, 4, 1))

    def done(self, context: int) -> int:
        """Ask whether a context may end, which 1 means."""
        return int(self._call("proxy_on_done", context))

    def _call(self, name: str, *arguments: int) -> Any:
        function = self._exports[name]
        assert isinstance(function, Func)
        return function(self._store, *arguments)

    def _give_attribute(self, path: int, path_size: int, to_pointer: int, to_size: int) -> int:
        value = self.attributes.get(self._read(path, path_size))
        if value is None:
            return NOT_FOUND
        at = self._call("proxy_on_memory_allocate", len(value))
        if at == 0:
            return NOT_FOUND
        self._memory.write(self._store, value, at)
        self._memory.write(self._store, at.to_bytes(4, "little"), to_pointer)
        self._memory.write(self._store, len(value).to_bytes(4, "little"), to_size)
        return OK

    def _note_property(self, key: int, key_size: int, value: int, value_size: int) -> int:
        self.properties.append((self._read(key, key_size), self._read(value, value_size)))
        return OK

    def _read(self, at: int, size: int) -> bytes:
        return bytes(self._memory.read(self._store, at, at + size))

    @property
    def _memory(self) -> Any:
        return self._exports["memory"]


ATTRIBUTE = b"xds\0cluster_name"


def test_the_filter_shows_what_stock_envoy_needs_and_imports_what_it_has() -> None:
    shape = read_shape(cluster_name_filter())
    assert shape.abi == "0_2_1"
    assert STOCK_ENVOY.offers is not None
    assert set(shape.imports) <= STOCK_ENVOY.offers["0_2_1"]
    assert set(shape.exports) == {
        "memory",
        "proxy_abi_version_0_2_1",
        "proxy_on_memory_allocate",
        "proxy_on_context_create",
        "proxy_on_vm_start",
        "proxy_on_configure",
        "proxy_on_request_headers",
        "proxy_on_done",
    }


def test_the_filter_is_the_same_bytes_each_time() -> None:
    once = cluster_name_filter()
    cluster_name_filter.cache_clear()
    again = cluster_name_filter()
    assert once is not again
    assert once == again


def test_the_filter_copies_the_routes_cluster_on_each_request_and_lets_it_pass() -> None:
    host = FilterHost({ATTRIBUTE: b"upstream"})
    assert host.configure(root=2)
    assert [host.request(context=3, root=2), host.request(context=4, root=2)] == [0, 0]
    assert host.properties == [(b"cluster_name", b"upstream")] * 2
    assert host.done(3) == 1


def test_each_request_gets_the_cluster_of_its_own_route() -> None:
    host = FilterHost({})
    assert all(host.configure(root) for root in range(2, 42))
    names = [f"outbound|80||model-{'x' * root}.dns".encode() for root in range(2, 42)]
    for root, name in enumerate([*names, *reversed(names)], start=2):
        host.attributes = {ATTRIBUTE: name}
        assert host.request(context=100 + root, root=root) == 0
    assert host.properties == [(b"cluster_name", name) for name in [*names, *reversed(names)]]


def test_without_the_attribute_nothing_is_set_and_the_request_passes() -> None:
    host = FilterHost({b"xds\0cluster_metadata": b"other", b"cluster_name": b"other"})
    assert host.configure(root=2)
    assert host.request(context=3, root=2) == 0
    assert host.properties == []


def test_a_name_that_fills_the_page_is_copied_whole_and_a_longer_one_refused() -> None:
    host = FilterHost({ATTRIBUTE: b"n" * 65_472})
    assert host.request(context=3, root=2) == 0
    host.attributes = {ATTRIBUTE: b"n" * 65_473}
    assert host.request(context=4, root=2) == 0
    host.attributes = {ATTRIBUTE: b"kept"}
    assert host.request(context=5, root=2) == 0
    assert host.properties == [(b"cluster_name", b"n" * 65_472), (b"cluster_name", b"kept")]
