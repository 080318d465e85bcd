"""The checks of one run, by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.evidence.record import traffic
from sessions.evidence.verify import files, observations, testbed
from sessions.evidence.verify.junit import junit

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessions.evidence.record.check_results import Check, Findings
    from sessions.evidence.verify.reading import Side

_MADE: dict[str, Callable[[Side], Check]] = {
    "files": testbed.files,
    "masks": files.masks,
    "provenance": testbed.provenance,
    "commands": testbed.commands,
    "gateway": testbed.gateway,
    "configuration": testbed.configuration,
    "inputs": testbed.shared_inputs,
    "cells": observations.planned,
    "bodies": observations.bodies,
    "order": observations.order,
    "verdicts": observations.verdicts,
    "fresh VMs": observations.fresh_vms,
    "decisions": observations.decisions,
    "counts": observations.counts,
    "access log": traffic.access_log,
    "upstream log": traffic.upstream_log,
    "gateway log": traffic.gateway_log,
    "routing": traffic.routing,
    "junit": junit,
    "clean-up": testbed.clean_up,
}
CHECKS = tuple(_MADE)


def check(found: Findings, side: Side) -> None:
    """Make every check of a run."""
    for name, of in _MADE.items():
        found.look(name, side.about, lambda of=of: of(side))  # type: ignore[misc]
