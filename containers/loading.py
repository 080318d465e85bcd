"""What a gateway loads: the module as it is, or adapted; refused when it cannot be loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from containers.records import AdapterFacts, GatewayKind
from wasm.foundation import cache
from wasm.module import abi, adapter, binary
from wasm.records import sha256_of

if TYPE_CHECKING:
    from containers.testbed import Plan


@dataclass(frozen=True)
class Loadable:
    """The files that the gateway loads, and what was done to the module for that.

    Attributes:
        cluster_filter: The adapter's filter; None where the gateway needs none.
        facts: None where nothing was done.
    """

    module: Path
    cluster_filter: Path | None
    facts: AdapterFacts | None

    @property
    def files(self) -> tuple[Path, ...]:
        """Both files, or the one there is."""
        return (self.module,) if self.cluster_filter is None else (self.module, self.cluster_filter)


def of(plan: Plan) -> Loadable:
    """Return what the plan's gateway loads.

    Raises:
        BuildError: This gateway cannot load the module; with what is missing.
    """
    data = plan.module.read()
    if plan.gateway is GatewayKind.HIGRESS:
        abi.refuse_unloadable(binary.read_shape(data), abi.HIGRESS)
        return Loadable(Path(plan.module.path), None, None)
    if not plan.adapt:
        abi.refuse_unloadable(binary.read_shape(data), abi.STOCK_ENVOY)
    adapted = adapter.adapt_for_stock_envoy(data)
    abi.refuse_unloadable(binary.read_shape(adapted.module), abi.STOCK_ENVOY)

    def fill(draft: Path) -> None:
        (draft / "plugin.wasm").write_bytes(adapted.module)
        (draft / "cluster_name.wasm").write_bytes(adapter.cluster_name_filter())

    def whole(entry: Path) -> bool:
        # What is recorded must be what Envoy loads.
        wanted = [adapted.adapted_sha256, adapted.cluster_filter_sha256]
        try:
            return wanted == [
                sha256_of((entry / name).read_bytes())
                for name in ("plugin.wasm", "cluster_name.wasm")
            ]
        except OSError:
            return False

    key = sha256_of(f"{adapted.adapted_sha256} {adapted.cluster_filter_sha256}".encode())
    folder = cache.entry("adapted", key, fill, whole)
    facts = AdapterFacts(
        original_sha256=adapted.original_sha256,
        adapted_sha256=adapted.adapted_sha256,
        cluster_filter_sha256=adapted.cluster_filter_sha256,
        steps=list(adapted.steps),
    )
    cluster_filter = folder / "cluster_name.wasm" if plan.cluster_name else None
    return Loadable(folder / "plugin.wasm", cluster_filter, facts)
