"""The result of optimising a model, as one record and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.api.fallback import Faster
from tvm_ios.api.served import Served
from tvm_ios.contest.pairs import PairedRatio
from tvm_ios.contest.verdict import PolicyResult
from tvm_ios.program.arena.planner import PlannedMemory

if TYPE_CHECKING:
    from runtime_ext.tuning_log.use import LogUse


@dataclass(frozen=True)
class SearchSummary:
    """The size of a model, and the work of the searches for its schedules.

    Attributes
    ----------
    operators, units, blocks, blocks_searched
        The size of the model; equal blocks are searched once.
    states, transitions, candidates, stages_measured
        Counts over all searches; candidates are the stages that a full search would measure.
    complete
        False if a search's budget ended it before its optimum was proven.
    left_out
        For each program that cannot be built and was not tried, a sentence why.
    tuned
        How many kernels the tuning log has, are used, and are missing from it; None without a log.
    """

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
    tuned: LogUse | None


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of :func:`tvm_ios.api.optimize`.

    Attributes
    ----------
    model
        The model's name.
    target
        The architecture that the kernels are compiled for.
    cost
        The device or log by which schedules were searched; None if stages were measured.
    timed_on
        Where programs were timed: ``here``, the name of a fleet, or a device's name and version;
        None if their times are those that the cost says.
    policies
        All programs that were compared, with TVM's own build where that ran.
    outcomes
        For each policy that was tried its gain over one unit after another, or why it has none, in
        half a sentence.
    kept
        The policy of the executable; where another runtime was faster, of the fastest of ours.
    faster
        The runtime whose build is kept instead of our program, if any.
    reference
        The framework whose outputs those of the programs were compared with; None if nothing was
        compared.
    not_verified
        A sentence why nothing was compared although it was asked for; else empty.
    confirmed
        The kept program against ``sequential`` and ``tvm``, in pairs in fresh processes.
    memory
        The memory plan of the kept program's intermediate buffers.
    executable
        The path of what was saved; None if nothing was.
    schedule
        The path of its schedule, which is saved too if programs were timed on a device.
    search
        The size of the model, and the work of the searches.
    notes
        Sentences for the user.
    seconds
        The seconds of each phase of the work.
    served
        The ways to serve many requests that were compared, if throughput was the objective.
    """

    model: str
    target: str
    cost: str | None
    timed_on: str | None
    policies: tuple[PolicyResult, ...]
    outcomes: Mapping[str, str]
    kept: str
    faster: Faster | None = None
    reference: str | None
    not_verified: str = ""
    confirmed: Mapping[str, PairedRatio]
    memory: PlannedMemory
    executable: Path | None
    schedule: Path | None = None
    search: SearchSummary
    notes: tuple[str, ...]
    seconds: Mapping[str, float]
    served: Served | None = None

    @property
    def saved(self) -> str:
        """The policy or the runtime whose program was saved."""
        return self.kept if self.faster is None else self.faster.runtime

    @property
    def not_measured(self) -> str:
        """One sentence for people if nothing was timed; else empty."""
        if self.timed_on is not None:
            return ""
        times = f"times are those that {self.cost} says for {self.target}"
        if self.reference is not None:
            return f"not measured: results were compared with those of {self.reference}, {times}"
        return f"not measured, neither time nor results: nothing was run; {times}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data, with milliseconds."""
        return {
            "model": self.model,
            "target": self.target,
            "cost": self.cost,
            "timed_on": self.timed_on,
            "policies": [row.to_json() for row in self.policies],
            "outcomes": dict(self.outcomes),
            "kept": self.saved,
            "fastest": self.kept,
            "faster": None if self.faster is None else asdict(self.faster),
            "reference": self.reference,
            "not_verified": self.not_verified,
            "not_measured": self.not_measured,
            "confirmed": {name: ratio.to_json() for name, ratio in self.confirmed.items()},
            "search": asdict(self.search),
            "memory": {
                "arena_bytes": self.memory.plan.nbytes,
                "bound_bytes": self.memory.bound,
                "unshared_bytes": self.memory.unshared,
                "proven": self.memory.proven,
            },
            "notes": list(self.notes),
            "seconds": dict(self.seconds),
            "executable": None if self.executable is None else str(self.executable),
            **({} if self.schedule is None else {"schedule": str(self.schedule)}),
            **({} if self.served is None else {"served": self.served.to_json()}),
        }
