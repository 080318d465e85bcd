"""Makes a module of Higress' SDK loadable in stock Envoy, and keeps record of what that took.

Two things keep it from running there: the SDK's export names an ABI that only Higress' gateway
knows, and the SDK reads a property that only Higress' gateway has. The first is a name in the
export section; the second comes from a filter of ours, put before the plugin. No code is touched.
"""

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from wasm.foundation.errors import BuildError
from wasm.module.abi import STOCK_ENVOY
from wasm.module.binary import ABI_EXPORT, read_shape, rename_export

__all__ = ["Adapted", "adapt_for_stock_envoy", "cluster_name_filter"]

_STAND_IN = "0_2_1"
"""The ABI a module is announced with instead: the one that Higress' `0_2_100` extends.

A module that needs what `0_2_100` adds says so by its imports, which `refuse_unloadable` checks.
"""

_CLUSTER_NAME_WAT = Path(__file__).with_name("cluster_name.wat")


@dataclass(frozen=True)
class Adapted:
    """A module as stock Envoy gets it, and how it came to be.

    Attributes:
        module: The bytes to load.
        original_sha256: Of the module as it was built, in hex.
        adapted_sha256: Of `module`, in hex.
        cluster_filter_sha256: Of the filter that must stand before it, in hex.
        steps: What was done, one sentence each.
    """

    module: bytes
    original_sha256: str
    adapted_sha256: str
    cluster_filter_sha256: str
    steps: tuple[str, ...]


def adapt_for_stock_envoy(data: bytes) -> Adapted:
    """Adapt a module; one whose ABI stock Envoy knows stays as it is.

    Raises:
        BuildError: The bytes are no well-formed module, or it speaks no ABI that stock Envoy
            knows or that can be announced as one.
    """
    module, renaming = _announce_known_abi(data)
    return Adapted(
        module=module,
        original_sha256=sha256(data).hexdigest(),
        adapted_sha256=sha256(module).hexdigest(),
        cluster_filter_sha256=sha256(cluster_name_filter()).hexdigest(),
        steps=(
            renaming,
            "A filter before the plugin sets the property `cluster_name` from `xds.cluster_name`.",
        ),
    )


@cache
def cluster_name_filter() -> bytes:
    """Assemble the filter that sets the property `cluster_name`; the same bytes each time."""
    # Here and not above: loading wasmtime's library takes longer than adapting a module.
    from wasmtime import wat2wasm  # noqa: PLC0415

    return bytes(wat2wasm(_CLUSTER_NAME_WAT.read_text(encoding="utf-8")))


def _announce_known_abi(data: bytes) -> tuple[bytes, str]:
    """Rename the ABI export if stock Envoy needs that; and say in words what was done."""
    abi = read_shape(data).abi
    if abi in STOCK_ENVOY.abis:
        return data, f"The module is unchanged: stock Envoy knows its ABI `{abi}`."
    if abi not in STOCK_ENVOY.adaptable:
        raise BuildError(
            f"The adapter cannot make this module loadable in stock Envoy: it speaks "
            f"{f'proxy-Wasm ABI `{abi}`' if abi else 'no proxy-Wasm ABI'}, and only "
            f"{', '.join(sorted(STOCK_ENVOY.adaptable))} can be announced as `{_STAND_IN}`."
        )
    old, new = ABI_EXPORT + abi, ABI_EXPORT + _STAND_IN
    return rename_export(data, old, new), f"The export `{old}` is renamed to `{new}`."
