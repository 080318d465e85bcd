"""What a runtime session costs beyond its floor, and what a cell costs; floor and whole in one run.

The floor is physics: Envoy's own start to LIVE with the module, and the exchanges themselves. A
session's whole time is taken from outside, from `nox` started to `nox` ended, with warm caches.

    python -m tests.benchmarks.runtime_session                    (or: nox -s bench)
    python -m tests.benchmarks.runtime_session --side-by-side     (or: nox -s bench -- ...)

The first measures the process engine; ``--engine docker`` after it, the other. The second runs both
engines in turn and says what containers add to a session; on a busy machine the fastest of each is
the one to compare.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from sessions.evidence.record import folders, store
from wasm.foundation.cache import PROJECT

_LIMIT_BEYOND_FLOOR_S = 2.0
_LIMIT_PER_CELL_MS = 15.0
_LIMIT_DOCKER_ADDS_S = 2.5
_RUNS = 3
_MANY = 300


@dataclass(frozen=True)
class Session:
    """One runtime session: seconds in all, to LIVE, and in exchanges."""

    cells: int
    whole_s: float
    ready_s: float
    exchanges_s: float

    @property
    def beyond_floor_s(self) -> float:
        """What it took beyond its floor, in seconds."""
        return self.whole_s - self.ready_s - self.exchanges_s


def measure(evidence: Path, repeats: int, extra: list[str]) -> Session:
    """Run ``nox -s runtime-fixed`` once and read from its run where the time went."""
    argv = [sys.executable, "-m", "nox", "-s", "runtime-fixed", "--"]
    argv += [f"--repeat={repeats}", f"--evidence={evidence}", *extra]
    start = time.perf_counter()
    done = subprocess.run(argv, cwd=PROJECT, capture_output=True, text=True, check=False)
    whole_s = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}\nthe session failed, so there is nothing to measure")
    run, results = store.read_run(folders.latest(evidence, "fixed"))
    return Session(len(results), whole_s, run.timings.gateway_ready_s, run.exchanges_s)


def side_by_side(extra: list[str]) -> int:
    """Measure what the docker engine adds to the process engine; 1 when that is too much."""
    engines = ("process", "docker")
    options = {name: [f"--engine={name}", "--gateway=envoy", *extra] for name in engines}
    with tempfile.TemporaryDirectory() as folder:
        evidence = Path(folder)
        for name in engines:
            measure(evidence, 3, options[name])  # warms the caches and assembles the images
        pairs = [
            {name: measure(evidence, 3, options[name]) for name in engines} for _ in range(_RUNS)
        ]
    for pair in pairs:
        for name, session in pair.items():
            print(
                f"{name:>8}: {session.whole_s:6.2f} s in all, LIVE {session.ready_s:.2f}, beyond "
                f"the floor {session.beyond_floor_s:.2f}"
            )
    process_s, docker_s = (min(pair[name].whole_s for pair in pairs) for name in engines)
    print(
        f"the docker engine adds {docker_s - process_s:.2f} s (limit {_LIMIT_DOCKER_ADDS_S:g} s, "
        f"fastest of {_RUNS} each)"
    )
    return int(docker_s - process_s > _LIMIT_DOCKER_ADDS_S)


def main(extra: list[str]) -> int:
    """Measure, print, and return 1 when a limit is exceeded."""
    if "--side-by-side" in extra:
        return side_by_side([option for option in extra if option != "--side-by-side"])
    # The limits are the process engine's, unless another is named.
    if not any(option.startswith("--engine") for option in extra):
        extra = ["--engine=process", *extra]
    with tempfile.TemporaryDirectory() as folder:
        evidence = Path(folder)
        measure(evidence, 3, extra)  # warms the caches, not counted
        few = [measure(evidence, 3, extra) for _ in range(_RUNS)]
        many = measure(evidence, _MANY, extra)
    for session in [*few, many]:
        floor_s = session.ready_s + session.exchanges_s
        print(
            f"{session.cells:5} cells: {session.whole_s:6.2f} s in all, floor {floor_s:5.2f} s "
            f"(LIVE {session.ready_s:.2f}, exchanges {session.exchanges_s:.2f}), beyond it "
            f"{session.beyond_floor_s:5.2f} s, ratio {session.whole_s / floor_s:.2f}"
        )
    beyond_s = statistics.median(session.beyond_floor_s for session in few)
    base_s = statistics.median(session.whole_s - session.ready_s for session in few)
    per_cell_ms = 1e3 * (many.whole_s - many.ready_s - base_s) / (many.cells - few[0].cells)
    print(
        f"beyond the floor: {beyond_s:.2f} s (limit {_LIMIT_BEYOND_FLOOR_S:g} s, median of {_RUNS})"
    )
    print(f"each added cell: {per_cell_ms:.2f} ms (limit {_LIMIT_PER_CELL_MS:g} ms)")
    return int(beyond_s > _LIMIT_BEYOND_FLOOR_S or per_cell_ms > _LIMIT_PER_CELL_MS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
