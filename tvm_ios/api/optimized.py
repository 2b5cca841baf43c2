"""What optimising a model came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.api.fallback import Faster
from tvm_ios.contest.pairs import PairedRatio
from tvm_ios.contest.verdict import PolicyResult
from tvm_ios.program.arena.planner import PlannedMemory

if TYPE_CHECKING:
    from runtime_ext.tuning_log.use import LogUse


@dataclass(frozen=True)
class Optimized:
    """What :func:`tvm_ios.api.optimize` did.

    Attributes
    ----------
    model
        The model's name.
    policies
        All that were built, measured side by side.
    outcomes
        For each policy that was tried, and for TVM's own build, what it gained over one unit after
        another, or why it did not, in half a sentence.
    kept
        The policy of the executable; where another runtime was faster, of the fastest of ours.
    faster
        The runtime whose build is kept in the place of an executable.
    reference
        Whose outputs those of the policies' programs were compared with; None if they were not.
    confirmed
        The kept one against ``sequential`` and ``tvm``, in pairs in fresh processes.
    memory
        Where the executable's intermediate buffers lie.
    executable
        Where it went.
    operators, units, blocks, blocks_searched
        How large the model is.
    states, transitions, candidates, stages_measured
        What the searches took; candidates are what a full search would have measured.
    complete
        False if a search's budget ended it before its optimum was proven.
    left_out
        Why programs were not tried that cannot be built, a sentence each.
    notes
        What does not apply of a schedule that was given, and what could not be compared, a sentence
        each.
    tuned
        Kernels that the tuning log has, that are used, and that it has not; None without a log.
    seconds
        The seconds of each part of the work.
    """

    model: str
    policies: tuple[PolicyResult, ...]
    outcomes: Mapping[str, str]
    kept: str
    faster: Faster | None
    reference: str | None
    confirmed: Mapping[str, PairedRatio]
    memory: PlannedMemory
    executable: Path
    operators: int
    units: int
    blocks: int
    blocks_searched: int
    states: int
    transitions: int
    candidates: int
    stages_measured: int
    complete: bool
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    tuned: LogUse | None
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class Compiled:
    """What :func:`tvm_ios.api.compile_unmeasured` did.

    Attributes
    ----------
    model
        The model's name.
    expected
        For each policy the seconds that the costs say.
    stages
        For each policy the number of stages of its schedule.
    kept
        The policy of the executable: the fastest by these.
    cost
        A device's description, or a log.
    target
        What the kernels are compiled for.
    memory
        Where the executable's intermediate buffers lie.
    executable
        Where it went.
    notes
        What does not apply of the kept schedule, a sentence each.
    """

    model: str
    expected: Mapping[str, float]
    stages: Mapping[str, int]
    kept: str
    cost: str
    target: str
    memory: PlannedMemory
    executable: Path
    notes: tuple[str, ...]

    @property
    def not_measured(self) -> str:
        """One sentence for people."""
        return (
            f"not measured, neither time nor results: nothing was run; times are those that "
            f"{self.cost} says for {self.target}"
        )
