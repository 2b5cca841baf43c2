"""Jobs that hold devices, and a check that each had its device for itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from tvm_ios.sweep.content import Jobs
from tvm_ios.sweep.runners.runner import Runner
from tvm_ios.sweep.tasks import HERE, SearchTask, TaskLimits, Workload

#: By the batch that tells jobs apart.
HELD = {1: None, 2: "fleet:a", 3: HERE, 4: "fleet:a", 5: "fleet:b", 6: None, 7: HERE}


def check_that_devices_are_held(runner: Runner, notes: Path) -> None:
    """Run jobs that nap, and require that none napped beside one of the same device."""
    jobs = Jobs(Path(), TaskLimits(), {})
    for batch, held in HELD.items():
        task = SearchTask(Workload("lstm_small", batch), "v100", "naps", (3, 8))
        runner.start(replace(jobs.job(task), holds=held), None)
    for _ in HELD:
        _, outcome = runner.next()
        assert "error" not in outcome, outcome
    naps: dict[str | None, list[tuple[float, float]]] = {}
    for line in (notes / "naps").read_text().splitlines():
        batch, begin, end = line.split()
        naps.setdefault(HELD[int(batch)], []).append((float(begin), float(end)))
    assert sum(map(len, naps.values())) == len(HELD)
    # All others keep clear of what is measured here.
    for times in (naps["fleet:a"], *([here, nap] for here in naps[HERE] for nap in _all(naps))):
        for (_, end), (begin, _) in pairwise(sorted(set(times))):
            assert end <= begin


def _all(naps: dict[str | None, list[tuple[float, float]]]) -> list[tuple[float, float]]:
    return [nap for times in naps.values() for nap in times]
