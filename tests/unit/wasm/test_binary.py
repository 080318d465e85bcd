"""What is read from modules, refused to be read, renamed, and refused for a gateway."""

import time
from collections.abc import Iterable, Sequence

import pytest
from wasmtime import Engine, Module, wat2wasm

from wasm.foundation.errors import BuildError
from wasm.module.abi import HIGRESS, STOCK_ENVOY, Host, refuse_unloadable
from wasm.module.binary import ModuleShape, read_shape, rename_export

GO_EXPORTS = ("_initialize", "proxy_on_memory_allocate", "proxy_on_request_headers", "memory")
OLD, NEW = "proxy_abi_version_0_2_100", "proxy_abi_version_0_2_1"

# What ai-proxy at Higress 8e4041c imports, each once.
WASI_OF_AI_PROXY = """
    sched_yield proc_exit args_get args_sizes_get clock_time_get environ_get environ_sizes_get
    fd_write random_get poll_oneoff fd_close fd_read path_filestat_get path_open fd_fdstat_get
    fd_fdstat_set_flags fd_prestat_get fd_prestat_dir_name
"""
ENV_OF_AI_PROXY = """
    proxy_log proxy_send_local_response proxy_get_shared_data proxy_set_shared_data
    proxy_get_header_map_value proxy_replace_header_map_value proxy_remove_header_map_value
    proxy_get_header_map_pairs proxy_set_header_map_pairs proxy_get_buffer_bytes
    proxy_set_buffer_bytes proxy_continue_stream proxy_http_call proxy_call_foreign_function
    proxy_set_tick_period_milliseconds proxy_set_effective_context proxy_get_property
    proxy_set_property
"""
AI_PROXY_IMPORTS = (
    *(("wasi_snapshot_preview1", name) for name in WASI_OF_AI_PROXY.split()),
    *(("env", name) for name in ENV_OF_AI_PROXY.split()),
)


def assemble(exports: Iterable[str] = (), imports: Iterable[tuple[str, str]] = ()) -> bytes:
    """Assemble a module that has a bit of everything that must survive, around its exports."""
    lines = [
        *(f'(import "{module}" "{name}" (func))' for module, name in imports),
        "(func $f (drop (i32.const 7)))",
        "(table 1 funcref)",
        "(memory 1)",
        "(global i32 (i32.const 3))",
        *(f'(export "{name}" (func $f))' for name in exports),
        "(elem (i32.const 0) func $f)",
        '(data (i32.const 5) "some data")',
    ]
    return bytes(wat2wasm(f"(module {' '.join(lines)})"))


def sections_of(data: bytes) -> list[tuple[int, bytes]]:
    """Split a well-formed module into numbered bodies: a second reader, to check the first."""
    found, position = [], 8
    while position < len(data):
        number, size, shift = data[position], 0, 0
        while True:
            position += 1
            size |= (data[position] & 0x7F) << shift
            shift += 7
            if data[position] < 0x80:
                break
        found.append((number, data[position + 1 : position + 1 + size]))
        position += 1 + size
    return found


def shape(
    exports: Sequence[str] = GO_EXPORTS,
    imports: Sequence[tuple[str, str]] = (),
    abi: str | None = "0_2_1",
) -> ModuleShape:
    return ModuleShape(tuple(imports), tuple(exports), abi)


# --- Reading ------------------------------------------------------------------------------------


def test_imports_and_exports_are_read_in_the_order_of_the_binary() -> None:
    imports = (("env", "proxy_log"), ("wasi_snapshot_preview1", "fd_write"), ("env", "proxy_log"))
    data = assemble(exports=[*GO_EXPORTS, OLD], imports=imports)
    assert read_shape(data) == ModuleShape(imports, (*GO_EXPORTS, OLD), "0_2_100")


def test_imports_of_every_kind_are_stepped_over() -> None:
    data = wat2wasm(
        """(module (import "a" "func" (func (param i64)))
                   (import "a" "table" (table 1 200 externref))
                   (import "a" "memory" (memory 3))
                   (import "a" "bounded" (memory 1 65000))
                   (import "a" "wide" (memory i64 1 0x1000000000))
                   (import "a" "shared" (memory 1 2 shared))
                   (import "a" "global" (global (mut f64)))
                   (import "a" "tag" (tag (param i32)))
                   (import "a" "last" (func)))"""
    )
    names = ("func", "table", "memory", "bounded", "wide", "shared", "global", "tag", "last")
    assert read_shape(bytes(data)).imports == tuple(("a", name) for name in names)


def test_the_smallest_module_shows_nothing() -> None:
    assert read_shape(b"\0asm\1\0\0\0") == ModuleShape((), (), None)


def test_a_module_without_abi_export_has_no_abi() -> None:
    assert read_shape(assemble(exports=GO_EXPORTS)).abi is None


def test_two_abis_are_refused() -> None:
    with pytest.raises(BuildError, match=r"2 proxy-Wasm ABIs \(0_2_100, 0_2_1\)"):
        read_shape(assemble(exports=[OLD, NEW]))


def test_counts_and_names_of_more_than_one_leb128_byte_are_read() -> None:
    exports = [f"export_{number}" for number in range(300)] + ["n" * 20_000, "größer"]
    data = assemble(exports=exports)
    assert read_shape(data).exports == tuple(exports)


def test_a_padded_section_size_is_read_as_linkers_write_it() -> None:
    data = assemble(exports=["one"])
    at = data.index(b"\x07" + bytes([len(dict(sections_of(data))[7])])) + 1
    padded = data[:at] + bytes([data[at] | 0x80, 0x80, 0x80, 0x80, 0x00]) + data[at + 1 :]
    assert Module.validate(Engine(), padded) is None
    assert read_shape(padded) == read_shape(data)


def test_ten_megabytes_are_read_within_thirty_milliseconds() -> None:
    size = 10_000_000
    custom = b"\0" + bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14 & 0x7F | 0x80])
    data = assemble(exports=GO_EXPORTS) + custom + bytes([size >> 21]) + b"\4name" + bytes(size - 5)

    def once() -> float:
        started = time.perf_counter()
        assert read_shape(data).exports == GO_EXPORTS
        return time.perf_counter() - started

    assert min(once() for _ in range(5)) < 0.030


# --- What is no module --------------------------------------------------------------------------

HEADER = b"\0asm\1\0\0\0"
NOT_MODULES = {
    "empty": (b"", "is empty"),
    "text": (b"(module)", "no Wasm module"),
    "an ELF file": (b"\x7fELF\2\1\1\0", "no Wasm module"),
    "half a magic": (b"\0as", "no Wasm module"),
    "half a version": (HEADER[:6], "version field"),
    "version 2": (b"\0asm\2\0\0\0", "version field"),
    "component": (b"\0asm\x0d\0\1\0", "component"),
    "unknown section": (HEADER + b"\x0e\0", "section 14"),
    "section twice": (HEADER + b"\1\1\0\1\1\0", "section 1 "),
    "sections out of order": (HEADER + b"\7\1\0\2\1\0", "section 2 "),
    "section without size": (HEADER + b"\7", "inside a value"),
    "size of six bytes": (HEADER + b"\1\x80\x80\x80\x80\x80\0", "more than 32 bits"),
    "size of 33 bits": (HEADER + b"\1\xff\xff\xff\xff\x1f", "more than 32 bits"),
    "size beyond the end": (HEADER + b"\1\2\0", "cut short"),
    "functions without code": (HEADER + b"\1\4\1\x60\0\0\3\2\1\0", "section 3 promises 1"),
    "name beyond its section": (HEADER + b"\7\3\1\5a" + b"\0\4name", "cut short"),
    "name that is not UTF-8": (HEADER + b"\7\5\1\1\xff\0\0", "UTF-8"),
    "bytes after the exports": (HEADER + b"\7\2\0\0", "1 bytes left over"),
    "bytes after the imports": (HEADER + b"\2\2\0\0", "1 bytes left over"),
    "counted data without data": (HEADER + b"\x0c\1\1", "section 12 promises 1"),
    "more exports than promised": (HEADER + b"\7\6\1\1a\0\0\0", "1 bytes left over"),
    "export twice": (HEADER + b"\7\x09\2\1a\0\0\1a\0\0", "`a` twice"),
    "export of unknown kind": (HEADER + b"\7\5\1\1a\5\0", "unknown kind 5"),
    "import of unknown kind": (HEADER + b"\2\6\1\1a\1b\5", "unknown kind 5"),
    "import of unknown type": (HEADER + b"\2\x08\1\1a\1b\3\1\0", "unknown value type 0x1"),
    "import with unknown limits": (HEADER + b"\2\x08\1\1a\1b\2\x40\0", "unknown limits 0x40"),
}


@pytest.mark.parametrize(("data", "reason"), NOT_MODULES.values(), ids=NOT_MODULES)
def test_what_is_no_module_is_refused_in_one_sentence(data: bytes, reason: str) -> None:
    with pytest.raises(BuildError) as refusal:
        read_shape(data)
    assert reason in refusal.value.sentence
    assert refusal.value.sentence.endswith(".")
    assert "\n" not in refusal.value.sentence


def test_a_real_component_is_refused_by_name() -> None:
    with pytest.raises(BuildError, match="component"):
        read_shape(bytes(wat2wasm("(component)")))


def test_a_module_cut_anywhere_is_refused_or_ends_between_sections() -> None:
    data = assemble(exports=[*GO_EXPORTS, OLD], imports=[("env", "proxy_log")])
    ends, position = {8}, 8
    for _, body in sections_of(data):
        assert len(body) < 0x80, "sizes of one byte, so that the next line finds the section's end"
        position += 2 + len(body)
        ends.add(position)
    accepted = {size for size in range(len(data) + 1) if _is_read(data[:size])}
    assert len(data) in accepted
    assert accepted <= ends
    # Up to the table section, a cut leaves functions without code.
    assert len(ends - accepted) >= 5


def test_a_changed_byte_never_raises_anything_but_the_refusal() -> None:
    data = assemble(exports=[*GO_EXPORTS, OLD], imports=[("env", "proxy_log")])
    outcomes = [
        _is_read(data[:at] + bytes([value]) + data[at + 1 :])
        for at in range(len(data))
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFF)
    ]
    assert {True, False} == set(outcomes)


def _is_read(data: bytes) -> bool:
    try:
        read_shape(data)
    except BuildError:
        return False
    return True


# --- Renaming -----------------------------------------------------------------------------------

# The name's own size, and the size of the section around it, cross 128 and 16384 both ways.
RENAMINGS = {
    "shorter by two": (OLD, NEW),
    "longer by two": (NEW, OLD),
    "same size": ("abc", "xyz"),
    "name over 127": ("a", "a" * 128),
    "name under 128": ("a" * 128, "a"),
    "name over 16383": ("a", "a" * 16_384),
    "name under 16384": ("a" * 16_384, "a"),
    "to no name": ("abc", ""),
    "from no name": ("", "abc"),
    "characters of two bytes": ("abc", "äöü"),
}


@pytest.mark.parametrize(("old", "new"), RENAMINGS.values(), ids=RENAMINGS)
def test_a_renaming_changes_that_name_in_the_export_section_and_nothing_else(
    old: str, new: str
) -> None:
    data = assemble(exports=["first", old, "last"], imports=[("env", "proxy_log")])
    renamed = rename_export(data, old, new)
    assert renamed == assemble(exports=["first", new, "last"], imports=[("env", "proxy_log")])
    before, after = sections_of(data), sections_of(renamed)
    assert [pair for pair in before if pair[0] != 7] == [pair for pair in after if pair[0] != 7]
    assert dict(before)[7] != dict(after)[7]
    assert len(before) >= 8, "there must be other sections that could have changed"
    assert Module.validate(Engine(), renamed) is None


@pytest.mark.parametrize("filling", range(90, 130))
def test_a_section_size_that_grows_or_shrinks_by_a_byte_is_rewritten(filling: int) -> None:
    long, short = (assemble(exports=[name, "n" * filling]) for name in (OLD, NEW))
    assert rename_export(long, OLD, NEW) == short
    assert rename_export(short, NEW, OLD) == long


def test_bytes_around_the_export_section_are_kept_even_where_they_look_like_it() -> None:
    custom = b"\0" + bytes([len(OLD) + 5]) + b"\4name" + OLD.encode()
    data = assemble(exports=[OLD])
    assert rename_export(data + custom, OLD, NEW) == rename_export(data, OLD, NEW) + custom


def test_an_export_that_is_missing_cannot_be_renamed() -> None:
    for data in (assemble(exports=["other"]), HEADER):
        with pytest.raises(BuildError, match=f"no export `{OLD}`"):
            rename_export(data, OLD, NEW)


def test_a_name_that_is_taken_cannot_be_given() -> None:
    with pytest.raises(BuildError, match="has a `b` already"):
        rename_export(assemble(exports=["a", "b"]), "a", "b")


# --- Refusing what a gateway would not load -----------------------------------------------------


def refusal_of(module: ModuleShape, host: Host) -> str:
    with pytest.raises(BuildError) as refusal:
        refuse_unloadable(module, host)
    sentence = refusal.value.sentence
    assert sentence.endswith(".")
    assert sentence.count(". ") == 0, "one sentence"
    return sentence


def test_t6_the_unmodified_ai_proxy_is_refused_for_stock_envoy_naming_its_abi() -> None:
    unmodified = shape(imports=AI_PROXY_IMPORTS, abi="0_2_100")
    sentence = refusal_of(unmodified, STOCK_ENVOY)
    assert "`0_2_100`" in sentence
    assert "stock Envoy" in sentence
    assert "the adapter makes it loadable" in sentence


def test_the_real_imports_are_taken_for_higress_and_after_renaming_by_stock_envoy() -> None:
    refuse_unloadable(shape(imports=AI_PROXY_IMPORTS, abi="0_2_100"), HIGRESS)
    refuse_unloadable(shape(imports=AI_PROXY_IMPORTS, abi="0_2_1"), STOCK_ENVOY)


@pytest.mark.parametrize("host", [HIGRESS, STOCK_ENVOY], ids=lambda host: host.name)
def test_t9_a_module_without_initialize_is_refused_naming_the_build_mode(host: Host) -> None:
    built_as_command = shape(exports=["_start", *GO_EXPORTS[1:]], abi="0_2_100")
    sentence = refusal_of(built_as_command, host)
    assert "`_initialize`" in sentence
    assert "without -buildmode=c-shared" in sentence


def test_a_module_without_abi_export_is_refused() -> None:
    assert "`proxy_abi_version_*`" in refusal_of(shape(abi=None), STOCK_ENVOY)


def test_what_only_a_higress_image_itself_can_say_is_left_to_it() -> None:
    refuse_unloadable(shape(imports=[("env", "proxy_of_tomorrow")], abi="0_3_0"), HIGRESS)


def test_an_abi_of_the_future_is_refused_without_hope_in_the_adapter() -> None:
    sentence = refusal_of(shape(abi="0_3_0"), STOCK_ENVOY)
    assert "`0_3_0`" in sentence
    assert "0_2_1" in sentence
    assert "adapter" not in sentence


def test_a_missing_import_is_named() -> None:
    redis = shape(imports=[("env", "proxy_log"), ("env", "proxy_redis_call")], abi="0_2_1")
    sentence = refusal_of(redis, STOCK_ENVOY)
    assert "env.proxy_redis_call;" in sentence
    assert "proxy_log" not in sentence
    refuse_unloadable(redis, HIGRESS)


@pytest.mark.parametrize("beyond", [1, 2])
def test_many_missing_imports_are_counted_and_five_named(beyond: int) -> None:
    imports = [("env", f"unknown_{number}") for number in range(5 + beyond)] * 2
    sentence = refusal_of(shape(imports=imports), STOCK_ENVOY)
    assert sentence.count("env.unknown_") == 5
    assert f"and {beyond} more" in sentence


def test_five_missing_imports_are_named_without_a_count() -> None:
    imports = [("env", f"unknown_{number}") for number in range(5)]
    sentence = refusal_of(shape(imports=imports), STOCK_ENVOY)
    assert sentence.count("env.unknown_") == 5
    assert "more" not in sentence


def test_an_import_of_the_right_name_from_another_module_is_missing() -> None:
    assert "other.proxy_log" in refusal_of(shape(imports=[("other", "proxy_log")]), STOCK_ENVOY)


def test_which_imports_are_offered_depends_on_the_abi() -> None:
    stream, old = [("env", "proxy_continue_stream")], [("env", "proxy_continue_request")]
    refuse_unloadable(shape(imports=stream, abi="0_2_1"), STOCK_ENVOY)
    refuse_unloadable(shape(imports=old, abi="0_1_0"), STOCK_ENVOY)
    assert "continue_stream" in refusal_of(shape(imports=stream, abi="0_1_0"), STOCK_ENVOY)
    assert "continue_request" in refusal_of(shape(imports=old, abi="0_2_1"), STOCK_ENVOY)


def test_a_module_that_cannot_allocate_is_refused() -> None:
    sentence = refusal_of(shape(exports=["_initialize", "memory"]), STOCK_ENVOY)
    assert "`proxy_on_memory_allocate`" in sentence
    refuse_unloadable(shape(exports=["_initialize", "malloc"]), STOCK_ENVOY)


def test_a_shape_read_from_bytes_is_refused_or_taken_like_one_written_down() -> None:
    data = assemble(exports=[*GO_EXPORTS, OLD], imports=AI_PROXY_IMPORTS)
    assert "`0_2_100`" in refusal_of(read_shape(data), STOCK_ENVOY)
    refuse_unloadable(read_shape(rename_export(data, OLD, NEW)), STOCK_ENVOY)


def test_what_each_host_knows() -> None:
    assert STOCK_ENVOY.abis == {"0_1_0", "0_2_0", "0_2_1"}
    assert HIGRESS.offers is None
    assert STOCK_ENVOY.offers is not None
    # As many as stock Envoy 1.40.0 was seen to take: 90 of WASI, 38 of env, and those of the ABI.
    assert {abi: len(imports) for abi, imports in STOCK_ENVOY.offers.items()} == {
        "0_1_0": 90 + 38 + 4,
        "0_2_0": 90 + 38 + 2,
        "0_2_1": 90 + 38 + 3,
    }
