"""The tasks of a sweep, each independent data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: The device that is the machine on which measured tasks run.
HERE = "here"
#: The prefix of the names of devices whose measurements a tracker's servers make.
FLEET = "fleet:"


@dataclass(frozen=True, slots=True)
class Workload:
    """A model, and how it is read.

    ``model`` is a name of the zoo or a file as the sweep's file names it, ``batch`` another batch
    size (None for the model's own), ``shapes`` the shapes of inputs with dynamic dimensions.
    """

    model: str
    batch: int | None = None
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def shapes_text(self) -> str:
        """The shapes in the form of the option ``--shape``."""
        return " ".join(f"{name}:{','.join(map(str, shape))}" for name, shape in self.shapes)

    def __str__(self) -> str:
        batch = "" if self.batch is None else f"batch {self.batch}"
        return ", ".join(filter(None, (self.model, batch, self.shapes_text)))


@dataclass(frozen=True, slots=True)
class SearchTask:
    """A task that searches a schedule and prices it.

    ``device`` is a described device, :data:`HERE`, or :data:`FLEET` and a key; ``pruning`` has the
    most units per group, and groups per stage.
    """

    workload: Workload
    device: str
    policy: str
    pruning: tuple[int, int]

    def __str__(self) -> str:
        r, s = self.pruning
        return f"{self.workload}, {self.device}, {self.policy}, r={r}, s={s}"


@dataclass(frozen=True, slots=True)
class CrossingTask:
    """A task that prices the schedule of a search for another workload or device (IOS, table 3)."""

    search: SearchTask
    workload: Workload
    device: str

    def __str__(self) -> str:
        return f"the schedule of ({self.search}) for {self.workload}, {self.device}"


@dataclass(frozen=True, slots=True)
class MemoryTask:
    """A task that orders a model's operators for the least peak memory.

    ``scheduler`` is one of :data:`tvm_ios.memory.schedulers.MEMORY_SCHEDULERS`.
    """

    workload: Workload
    scheduler: str

    def __str__(self) -> str:
        return f"{self.workload}, {self.scheduler}"


Task = SearchTask | CrossingTask | MemoryTask


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimits:
    """Limits of each task.

    ``max_block`` is the most units of a block. ``time_limit`` is in seconds, for a search that
    measures and for a memory scheduler (None: no limit, but 30 s for memory schedulers).
    ``max_measurements`` is the most stages that a search measures, ``lanes`` the threads of
    measured programs (None: all CPUs).
    """

    max_block: int = 40
    time_limit: float | None = None
    max_measurements: int = 400
    lanes: int | None = None


def is_measured(device: str) -> bool:
    """Return whether a device's times are measured rather than computed from a description."""
    return device == HERE or device.startswith(FLEET)


def columns_of(task: Task) -> dict[str, Any]:
    """Return the columns that identify a task in tables and files, the same for all kinds."""
    search = task if isinstance(task, SearchTask) else None
    made_for = None
    if isinstance(task, CrossingTask):
        search = made_for = task.search
    return {
        "kind": _KINDS[type(task)],
        "model": task.workload.model,
        "batch": task.workload.batch,
        "shapes": task.workload.shapes_text,
        "device": None if isinstance(task, MemoryTask) else task.device,
        "policy": None if search is None else search.policy,
        "r": None if search is None else search.pruning[0],
        "s": None if search is None else search.pruning[1],
        "scheduler": task.scheduler if isinstance(task, MemoryTask) else None,
        "made_for_batch": None if made_for is None else made_for.workload.batch,
        "made_for_shapes": None if made_for is None else made_for.workload.shapes_text,
        "made_for_device": None if made_for is None else made_for.device,
    }


_KINDS: dict[type, str] = {SearchTask: "search", CrossingTask: "crossing", MemoryTask: "memory"}
