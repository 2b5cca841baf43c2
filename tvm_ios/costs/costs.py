"""The interface of costs: execution times on a device, as a search asks for them."""

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
    """The kinds of execution times that costs may offer to a policy."""

    STAGES = "how long stages take"
    RTASKS = "how long rTasks take"
    PROGRAMS = "how long whole programs take"


@dataclass(frozen=True)
class Costs:
    """Execution times on a device."""

    #: The name by which users choose them, such as ``"measured"`` or ``"v100"``.
    name: str
    #: The device's name, as schedules have it.
    device: str
    #: Returns the seconds of stages, or None where they are not known.
    stages: CostModel | None = None
    #: Measures the few stages that may matter; None where any stage's seconds may be asked for.
    measuring: StageMeasuring | None = None
    #: Returns the seconds of rKernels and rPrograms, or None where they are not known.
    rtasks: RTaskCosts | None = None
    #: Builds and times whole programs, or None where none can run.
    programs: ProgramCosts | None = None
    #: Returns a schedule together with what these costs know of its units.
    completed: Callable[[Schedule], Schedule] = lambda schedule: schedule
    #: Whether two stages take the same time if exchanging equal branches
    #: (:mod:`tvm_ios.graph.equal_branches`) turns one into the other: only what units compute and
    #: how they are wired decides, and neither names and numbers nor the order of inputs. This does
    #: not hold for measured costs: two such stages may have different keys.
    branches_alike: bool = False

    @property
    def offers(self) -> frozenset[Offer]:
        """The kinds of execution times that a policy may ask these costs for."""
        parts = {
            Offer.STAGES: self.stages,
            Offer.RTASKS: self.rtasks,
            Offer.PROGRAMS: self.programs,
        }
        return frozenset(offer for offer, part in parts.items() if part is not None)


#: Costs without any times, for policies that need none.
NO_COSTS = Costs("none", "")


def costs_of_model(model: CostModel) -> Costs:
    """Return the costs of a cost model, which knows stages alone."""
    return Costs(model.name, model.name, model)


class StageMeasuring(Protocol):
    """Measures a few stages, after lower bounds of all stages have shown which ones may matter."""

    def bounds(self, progress: Progress) -> CostModel:
        """Return a cost model of optimistic seconds, composed from those of units alone."""
        ...

    def stage_key(self, graph: OpGraph, stage: Stage) -> str:
        """Return a key that is equal for stages that need only one measurement."""
        ...

    def latencies(self, graph: OpGraph, stages: Iterable[Stage]) -> Iterator[float]:
        """Yield the measured seconds of stages, in their order; infinite for one that cannot run.

        Several stages are measured at once where the device can. Stages are taken from the iterable
        no sooner than they are measured.
        """
        ...


class RTaskCosts(Protocol):
    """Execution times of rTasks, the tiles of units (Rammer, section 3.2)."""

    @property
    def lanes(self) -> int:
        """The number of lanes that rTasks are placed on: threads of a CPU, or vEUs of a GPU."""
        ...

    @property
    def measuring(self) -> RProgramMeasuring | None:
        """Measures rPrograms; None where they are simulated."""
        ...

    def on_streams(self, graph: OpGraph, stage: Stage) -> float | None:
        """Return the seconds of a concurrent stage, to compare with those of persistent kernels.

        None where lanes share rPrograms, or the two cannot be compared.
        """
        ...

    def prepare(self, progress: Progress) -> None:
        """Profile the rKernels of all units at once, which takes less time than one by one."""
        ...

    def kernels(self, graph: OpGraph, unit: int) -> tuple[RKernel, ...]:
        """Return the rKernels that compute a unit; the first is the one it has in other stages."""
        ...

    def program(self, graph: OpGraph, stage: Stage) -> RProgram:
        """Return the rProgram of a co-scheduled stage."""
        ...

    def seconds(self, graph: OpGraph, programs: Sequence[RProgram]) -> Sequence[float]:
        """Return the predicted seconds of rPrograms."""
        ...


class RProgramMeasuring(Protocol):
    """Measures rPrograms."""

    def require_any(self) -> None:
        """Raise UnfusedError if only rPrograms that were compiled ahead can be built."""
        ...

    def can_run(self, program: RProgram) -> bool:
        """Return whether an rProgram can be built here."""
        ...

    def seconds(self, programs: Iterable[RProgram]) -> Iterator[float]:
        """Yield the seconds of rPrograms, in their order; infinite for one that cannot run."""
        ...


class ProgramCosts(Protocol):
    """Builds the programs of schedules on this machine, and times them in turn."""

    @property
    def lanes(self) -> int:
        """The number of lanes that programs have."""
        ...

    @property
    def hierarchy(self) -> MemoryHierarchy:
        """The caches of these lanes."""
        ...

    def refusal(self, schedule: Schedule) -> str:
        """Return in one sentence why a schedule has no program; an empty string if it has one."""
        ...

    def contest(
        self, schedules: Mapping[str, Schedule], limits: Rules, report: Callable[[int], None]
    ) -> Mapping[str, Sequence[float]]:
        """Return the seconds of each run of several schedules' programs, which run in turn.

        Parameters
        ----------
        schedules
            The schedules, by any names.
        limits
            How many runs of each.
        report
            Called with the number of rounds done.
        """
        ...

    def profile(
        self, schedules: Sequence[Schedule], report: Callable[[int, int], None]
    ) -> list[tuple[float, ...]]:
        """Return for each schedule the seconds of each of its segments.

        Segments are those of :func:`tvm_ios.policies.mixing.segments_of`.

        Parameters
        ----------
        schedules
            The schedules, whose programs run in turn.
        report
            Called with the number of rounds done, and of all rounds.
        """
        ...
