"""A file's schedule beside the one that a search found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_ios.schedule.schedule import Schedule
    from tvm_ios.search import Search


@dataclass(frozen=True)
class GivenBeside:
    """A file's schedule with the seconds of its stages, to show beside one that was found.

    ``added`` are the names of units that the file lacks; they run at its end.
    """

    path: Path
    schedule: Schedule
    added: tuple[str, ...]

    def to_json(self, found: Schedule) -> dict[str, Any]:
        """Return the file's schedule for ``--json``, with its ratio to the found one."""
        return {
            "file": str(self.path),
            "policy": self.schedule.policy,
            "latency_ms": self.schedule.latency * 1e3,
            "ratio": self._ratio(found),
            "stages": len(self.schedule.stages),
            "added": list(self.added),
        }

    def text(self, found: Schedule) -> str:
        """Return a sentence on the file's schedule and its ratio to the found one."""
        ratio = self._ratio(found)
        beside = "" if ratio is None else f", {ratio:.3f} of the time of {found.policy}"
        added = f"; units that it lacks run at its end: {', '.join(self.added)}"
        return (
            f"{self.path} ({self.schedule.policy}): {len(self.schedule.stages)} stages, "
            f"{self.schedule.latency * 1e3:.3f} ms expected{beside}{added if self.added else ''}"
        )

    def _ratio(self, found: Schedule) -> float | None:
        return self.schedule.latency / found.latency if found.latency else None


def given_beside(path: Path, search: Search, precision: str | None = None) -> GivenBeside:
    """Read a file's schedule, and price its stages by the costs of a search.

    Raise ScheduleError if it does not fit the model or the precision, or runs in instances, and
    SearchError if the costs do not price stages.
    """
    from tvm_ios.errors import SearchError
    from tvm_ios.program.bfloat16 import require_precision
    from tvm_ios.schedule.published.imported import read_schedule
    from tvm_ios.schedule.schedule import ScheduleError

    units = search.problem.units
    given = read_schedule(path, units)
    if precision is not None:
        require_precision(given.schedule.policy, given.schedule.kernels.values(), precision)
    if given.schedule.instances is not None:
        raise ScheduleError(
            f"{path} runs sub-graphs in instances, whose latency is not the sum of stages: "
            "measure it with `tvm-ios optimize --schedule`"
        )
    priced = search.priced(search.costs.completed(given.schedule))
    if not priced.latencies:
        raise SearchError(f"the cost {search.costs.name!r} does not say what stages take")
    return GivenBeside(path, priced, tuple(units.operators[unit].name for unit in given.added))
