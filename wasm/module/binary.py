"""Reads what a Wasm module imports and exports, and renames an export.

Only section headers, imports and exports are looked at, never code, so ten megabytes cost a few
milliseconds. The format: https://webassembly.github.io/spec/core/binary/modules.html
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wasm.foundation.errors import BuildError

__all__ = [
    "ABI_EXPORT",
    "Import",
    "ModuleShape",
    "read_shape",
    "rename_export",
]

ABI_EXPORT = "proxy_abi_version_"
"""What the name of the export begins with that says which proxy-Wasm ABI a module speaks."""

Import = tuple[str, str]
"""The module and the name of an import: ``("env", "proxy_log")``."""


@dataclass(frozen=True)
class ModuleShape:
    """What a module shows to its host.

    Attributes:
        imports: Module and name of each import, in the order of the binary; Go repeats some.
        exports: Name of each export, in the order of the binary.
        abi: The proxy-Wasm ABI it speaks, as in ``0_2_100``; None if no export names one.
    """

    imports: tuple[Import, ...]
    exports: tuple[str, ...]
    abi: str | None


def read_shape(data: bytes) -> ModuleShape:
    """Read imports and exports of a core Wasm module.

    Raises:
        BuildError: The bytes are no well-formed module: empty, of another format, a component,
            cut short, or with sections that contradict each other.
    """
    sections = _sections(data)
    imports = _read_imports(data, sections[_IMPORT]) if _IMPORT in sections else ()
    entries = _read_exports(data, sections[_EXPORT]) if _EXPORT in sections else ()
    exports = tuple(entry.name for entry in entries)
    return ModuleShape(imports, exports, _abi_of(exports))


def rename_export(data: bytes, old: str, new: str) -> bytes:
    """Give one export another name; every byte outside the export section stays as it is.

    Raises:
        BuildError: The bytes are no well-formed module, it has no export `old`, or one is
            called `new` already.
    """
    sections = _sections(data)
    entries = _read_exports(data, sections[_EXPORT]) if _EXPORT in sections else ()
    by_name = {entry.name: entry for entry in entries}
    if old not in by_name:
        raise BuildError(f"The module has no export `{old}` that could be renamed to `{new}`.")
    if new in by_name:
        raise BuildError(f"The export `{old}` cannot be renamed: the module has a `{new}` already.")
    section, entry = sections[_EXPORT], by_name[old]
    encoded = new.encode()
    body = (
        data[section.start : entry.start]
        + _leb128(len(encoded))
        + encoded
        + data[entry.name_end : section.end]
    )
    return data[: section.size_at] + _leb128(len(body)) + body + data[section.end :]


def _abi_of(exports: tuple[str, ...]) -> str | None:
    """The ABI that the exports name; a host would take the first of two, so two are an error."""
    named = [name.removeprefix(ABI_EXPORT) for name in exports if name.startswith(ABI_EXPORT)]
    if len(named) > 1:
        raise BuildError(
            f"The module names {len(named)} proxy-Wasm ABIs ({', '.join(named)}); "
            "a plugin speaks exactly one."
        )
    return named[0] if named else None


# --- Sections -----------------------------------------------------------------------------------

_MAGIC = b"\0asm"
_CORE_VERSION = b"\1\0\0\0"
_HEADER_SIZE = len(_MAGIC + _CORE_VERSION)

_CUSTOM, _TYPE, _IMPORT, _FUNCTION, _TABLE, _MEMORY, _GLOBAL = range(7)
_EXPORT, _START, _ELEMENT, _CODE, _DATA, _DATA_COUNT, _TAG = range(7, 14)

# Each at most once and in this order; custom sections may stand anywhere. (The numbers are older
# than the order: tag and data count came later.)
_ORDER = (
    *(_TYPE, _IMPORT, _FUNCTION, _TABLE, _MEMORY, _TAG, _GLOBAL),
    *(_EXPORT, _START, _ELEMENT, _DATA_COUNT, _CODE, _DATA),
)


@dataclass(frozen=True)
class _Section:
    """Where a section lies: its size field at `size_at`, its body from `start` up to `end`."""

    size_at: int
    start: int
    end: int


def _sections(data: bytes) -> dict[int, _Section]:
    """Find every section that is not custom, by its number."""
    _check_header(data)
    found: dict[int, _Section] = {}
    place, position = -1, _HEADER_SIZE
    while position < len(data):
        number = data[position]
        size, start = _Reader(data, position + 1, len(data)).u32_and_position()
        section = _Section(position + 1, start, start + size)
        if section.end > len(data):
            raise _malformed(f"section {number} at byte {position} is cut short")
        position = section.end
        if number == _CUSTOM:
            continue
        if number not in _ORDER or _ORDER.index(number) <= place:
            raise _malformed(f"section {number} before byte {position} is unknown or out of order")
        place = _ORDER.index(number)
        found[number] = section
    _check_pair(data, found, _FUNCTION, _CODE)
    _check_pair(data, found, _DATA_COUNT, _DATA)
    return found


def _check_header(data: bytes) -> None:
    """Refuse what is not a core module, saying what it is instead."""
    if not data:
        raise BuildError("The module is empty; expected a Wasm binary, which begins with `\\0asm`.")
    if not data.startswith(_MAGIC):
        raise BuildError(
            f"This is no Wasm module: it begins with {data[:4]!r}, not with {_MAGIC!r}."
        )
    version = data[len(_MAGIC) : _HEADER_SIZE]
    if version[2:] == b"\1\0":
        raise BuildError(
            "This is a Wasm component, and gateways load core modules only; "
            "build it with GOOS=wasip1 and -buildmode=c-shared."
        )
    if version != _CORE_VERSION:
        raise _malformed(f"its version field is {version!r}, not {_CORE_VERSION!r}")


def _check_pair(data: bytes, found: Mapping[int, _Section], one: int, other: int) -> None:
    """Check two sections that must count the same; a file cut between sections fails here.

    A missing data count says nothing: the format makes it optional.
    """
    if one == _DATA_COUNT and one not in found:
        return
    counts = [
        _Reader(data, section.start, section.end).u32() if section else 0
        for section in (found.get(one), found.get(other))
    ]
    if counts[0] != counts[1]:
        raise _malformed(
            f"section {one} promises {counts[0]} entries, section {other} has {counts[1]}"
        )


# --- Imports and exports ------------------------------------------------------------------------

_FUNC_KIND, _TABLE_KIND, _MEMORY_KIND, _GLOBAL_KIND, _TAG_KIND = range(5)
_HAS_MAXIMUM = 0x01
_SIXTY_FOUR_BIT = 0x04
_KNOWN_LIMITS = 0x07
_VALUE_TYPES = frozenset(b"\x7f\x7e\x7d\x7c\x7b\x70\x6f")


@dataclass(frozen=True)
class _ExportEntry:
    """An export: the size field of its name at `start`, the name up to `name_end`."""

    name: str
    start: int
    name_end: int


def _read_imports(data: bytes, section: _Section) -> tuple[Import, ...]:
    """Read module and name of every import, stepping over its type."""
    reader = _Reader(data, section.start, section.end)
    imports: list[Import] = []
    for _ in range(reader.u32()):
        module, name = reader.name(), reader.name()
        kind = reader.byte()
        if kind not in _SKIP_TYPE:
            raise _malformed(f"the import {module}.{name} has the unknown kind {kind}")
        _SKIP_TYPE[kind](reader)
        imports.append((module, name))
    reader.expect_end("import section")
    return tuple(imports)


def _read_exports(data: bytes, section: _Section) -> tuple[_ExportEntry, ...]:
    """Read name and place of every export."""
    reader = _Reader(data, section.start, section.end)
    entries: dict[str, _ExportEntry] = {}
    for _ in range(reader.u32()):
        start = reader.position
        entry = _ExportEntry(reader.name(), start, reader.position)
        if entry.name in entries:
            raise _malformed(f"it exports `{entry.name}` twice")
        kind = reader.byte()
        if kind > _TAG_KIND:
            raise _malformed(f"the export `{entry.name}` has the unknown kind {kind}")
        reader.u32()
        entries[entry.name] = entry
    reader.expect_end("export section")
    return tuple(entries.values())


def _skip_limits(reader: "_Reader") -> None:
    flags = reader.byte()
    if flags & ~_KNOWN_LIMITS:
        raise _malformed(f"a memory or table has the unknown limits {flags:#x}")
    for _ in range(2 if flags & _HAS_MAXIMUM else 1):
        reader.leb128(64 if flags & _SIXTY_FOUR_BIT else 32)


def _skip_value_type(reader: "_Reader") -> None:
    code = reader.byte()
    if code not in _VALUE_TYPES:
        raise _malformed(f"an import has the unknown value type {code:#x}")


def _skip_table(reader: "_Reader") -> None:
    _skip_value_type(reader)
    _skip_limits(reader)


def _skip_global(reader: "_Reader") -> None:
    _skip_value_type(reader)
    reader.byte()


def _skip_tag(reader: "_Reader") -> None:
    reader.byte()
    reader.u32()


_SKIP_TYPE: Mapping[int, Callable[["_Reader"], object]] = {
    _FUNC_KIND: lambda reader: reader.u32(),
    _TABLE_KIND: _skip_table,
    _MEMORY_KIND: _skip_limits,
    _GLOBAL_KIND: _skip_global,
    _TAG_KIND: _skip_tag,
}


# --- Bytes --------------------------------------------------------------------------------------


class _Reader:
    """Reads on from a position, never beyond the end it was given."""

    def __init__(self, data: bytes, position: int, end: int) -> None:
        self.data = data
        self.position = position
        self.end = end

    def byte(self) -> int:
        if self.position >= self.end:
            raise _malformed(f"it ends at byte {self.position}, inside a value")
        self.position += 1
        return self.data[self.position - 1]

    def leb128(self, bits: int) -> int:
        """An unsigned number of at most `bits` bits, in LEB128."""
        start, value, shift = self.position, 0, 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if value >> bits or shift >= bits:
                raise _malformed(f"the number at byte {start} has more than {bits} bits")
            if byte < 0x80:  # noqa: PLR2004 - the top bit says that another byte follows
                return value
            shift += 7

    def u32(self) -> int:
        return self.leb128(32)

    def u32_and_position(self) -> tuple[int, int]:
        return self.u32(), self.position

    def name(self) -> str:
        size, start = self.u32_and_position()
        if start + size > self.end:
            raise _malformed(f"the name at byte {start} is cut short")
        self.position = start + size
        try:
            return self.data[start : self.position].decode()
        except UnicodeDecodeError:
            raise _malformed(f"the name at byte {start} is not UTF-8") from None

    def expect_end(self, what: str) -> None:
        if self.position != self.end:
            raise _malformed(f"its {what} has {self.end - self.position} bytes left over")


def _leb128(value: int) -> bytes:
    """Encode an unsigned number in as few LEB128 bytes as it takes."""
    encoded = bytearray()
    while value >= 0x80:  # noqa: PLR2004 - seven bits a byte
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _malformed(what: str) -> BuildError:
    return BuildError(f"This is no well-formed Wasm module: {what}; build it again.")
