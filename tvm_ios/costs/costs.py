"""How long things take on a device: what a search asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from tvm_ios.contest.rules import Rules
from tvm_ios.costs.model import CostModel
from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.progress import Progress
from tvm_ios.rammer.rprogram import RProgram
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage


class Offer(Enum):
    """What costs may know."""

    STAGES = "how long stages take"
    RTASKS = "how long rTasks take"
    PROGRAMS = "how long whole programs take"


@dataclass(frozen=True)
class Costs:
    """How long things take on a device.

    Attributes
    ----------
    name
        How people ask for it, such as ``"measured"`` or ``"v100"``.
    device
        The device's name, as schedules have it.
    stages
        Tells the seconds of stages, or None where they are not known.
    measuring
        Tells which few stages to measure; None where any stage's seconds may be asked for.
    rtasks
        Tells the seconds of rKernels and rPrograms, or None where they are not known.
    programs
        Builds and times whole programs, or None where none can run.
    completed
        Adds to a schedule what these costs know of its units.
    branches_alike
        Whether stages take the same time that exchanging equal branches
        (:mod:`tvm_ios.graph.equal_branches`) turns into each other: what units compute and how
        they are wired decides, and neither names and numbers nor the order of inputs. Not so what
        is measured: two such stages may have different keys.
    """

    name: str
    device: str
    stages: CostModel | None = None
    measuring: StageMeasuring | None = None
    rtasks: RTaskCosts | None = None
    programs: ProgramCosts | None = None
    completed: Callable[[Schedule], Schedule] = lambda schedule: schedule
    branches_alike: bool = False

    @property
    def offers(self) -> frozenset[Offer]:
        """What a policy may ask these costs for."""
        parts = {
            Offer.STAGES: self.stages,
            Offer.RTASKS: self.rtasks,
            Offer.PROGRAMS: self.programs,
        }
        return frozenset(offer for offer, part in parts.items() if part is not None)


#: For policies that need no costs.
NO_COSTS = Costs("none", "")


def costs_of_model(model: CostModel) -> Costs:
    """The costs of a cost model, which knows stages alone."""
    return Costs(model.name, model.name, model)


class StageMeasuring(Protocol):
    """How few stages are measured: those that optimistic costs say may matter."""

    def bounds(self, progress: Progress) -> CostModel:
        """Optimistic seconds of stages, from the units measured alone."""
        ...

    def stage_key(self, graph: OpGraph, stage: Stage) -> str:
        """Equal for stages that need one measurement only."""
        ...

    def latencies(self, graph: OpGraph, stages: Iterable[Stage]) -> Iterator[float]:
        """True seconds of stages, in their order; infinite for one that cannot run.

        Several are measured at once where the device can; a stage is asked for no sooner.
        """
        ...


class RTaskCosts(Protocol):
    """How long rTasks take, the tiles of units (Rammer, section 3.2)."""

    @property
    def lanes(self) -> int:
        """How many lanes rTasks are placed on: threads of a CPU, or vEUs of a GPU."""
        ...

    @property
    def measuring(self) -> RProgramMeasuring | None:
        """Measures rPrograms; None where they are simulated."""
        ...

    def on_streams(self, graph: OpGraph, stage: Stage) -> float | None:
        """Seconds of a concurrent stage, to compare with those of rPrograms as persistent kernels.

        None where lanes share rPrograms, or the two cannot be compared.
        """
        ...

    def prepare(self, progress: Progress) -> None:
        """Find out all rKernels at once, which takes less time than one by one."""
        ...

    def kernels(self, graph: OpGraph, unit: int) -> tuple[RKernel, ...]:
        """The ways to compute a unit; the first is what it has in other stages."""
        ...

    def program(self, graph: OpGraph, stage: Stage) -> RProgram:
        """What a co-scheduled stage runs."""
        ...

    def seconds(self, graph: OpGraph, programs: Sequence[RProgram]) -> Sequence[float]:
        """Predicted seconds of rPrograms."""
        ...


class RProgramMeasuring(Protocol):
    """How rPrograms are measured."""

    def require_any(self) -> None:
        """Refuse where only those can be built that were compiled ahead.

        Raises
        ------
        UnfusedError
            If that is so.
        """
        ...

    def can_run(self, program: RProgram) -> bool:
        """Whether an rProgram can be built here."""
        ...

    def seconds(self, programs: Iterable[RProgram]) -> Iterator[float]:
        """Seconds of rPrograms, in their order; infinite for one that cannot run."""
        ...


class ProgramCosts(Protocol):
    """Builds the programs of schedules on this machine, and times them in turn."""

    @property
    def lanes(self) -> int:
        """How many lanes programs have."""
        ...

    @property
    def hierarchy(self) -> MemoryHierarchy:
        """The caches of these lanes."""
        ...

    def refusal(self, schedule: Schedule) -> str:
        """Why there is no program of a schedule, in one sentence; empty if there is one."""
        ...

    def contest(
        self,
        schedules: Mapping[str, Schedule],
        limits: Rules,
        report: Callable[[int], None],
    ) -> Mapping[str, Sequence[float]]:
        """Seconds of runs of some schedules' programs, which run in turn.

        Parameters
        ----------
        schedules
            The schedules, by any names.
        limits
            How many runs of each.
        report
            Called with the rounds done.
        """
        ...

    def profile(
        self, schedules: Sequence[Schedule], report: Callable[[int, int], None]
    ) -> list[tuple[float, ...]]:
        """Seconds of each segment (:func:`tvm_ios.policies.mixing.segments_of`) of schedules.

        Parameters
        ----------
        schedules
            Whose programs run in turn.
        report
            Called with the rounds done, and how many there are.
        """
        ...
