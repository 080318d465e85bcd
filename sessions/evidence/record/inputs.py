"""What both variants must share, and its digest: all but the module (docs/evidence.md, 1).

Ports, addresses, the places of files and the names of VMs are a run's own: Envoy's configuration is
taken without them. Whether they lead to the mock and nowhere else is another question (see
verification).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from wasm.records import sha256_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from containers.records import TestbedFacts
    from sessions.matrix.case import Case

_OWN = {"address", "port_value", "filename", "path", "vm", "vm_id"}


def digest(
    cases: Sequence[Case], repeats: int, facts: TestbedFacts | None, configuration_sha256: str
) -> str:
    """Return the digest of all that two runs must share to be compared."""
    shared = {
        "cases": cases,
        "repeats": repeats,
        "configuration": configuration_sha256,
        "gateway": facts.gateway if facts else None,
        "engine": facts.engine if facts else None,
        "upstream": facts.upstream_sha256 if facts else None,
        "cluster_filter": facts.adapter.cluster_filter_sha256 if facts and facts.adapter else None,
    }
    return sha256_of(msgspec.json.encode(shared, order="sorted"))


def configuration_digest(*files: bytes) -> str:
    """Return the digest of Envoy's configuration without what is a run's own.

    Args:
        files: The bootstrap, and the file of listeners.

    Raises:
        ValueError: One is no JSON.
    """
    try:
        configuration = [_shared(msgspec.json.decode(file)) for file in files]
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    return sha256_of(msgspec.json.encode(configuration, order="sorted"))


def _shared(value: Any) -> Any:  # noqa: ANN401 - JSON's values
    if isinstance(value, dict):
        return {
            key: "a run's own" if key in _OWN and not isinstance(below, dict) else _shared(below)
            for key, below in value.items()
        }
    if isinstance(value, list):
        return [_shared(below) for below in value]
    return value
