"""Options of optimising a model: the machine, the search, and the choice of the program to keep."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from tvm_ios.contest.outputs import Verify
from tvm_ios.contest.verdict import TVM
from tvm_ios.errors import UserError

if TYPE_CHECKING:
    from relay_passes.search_options import SearchOptions

#: The name of ONNX Runtime among peers.
ONNXRUNTIME = "onnxruntime"


class OptionsError(UserError):
    """Options that contradict each other; ``option`` is the field to leave out."""

    def __init__(self, sentence: str, option: str = "") -> None:
        super().__init__(sentence)
        self.option = option


def _default_search() -> SearchOptions:
    from relay_passes.search_options import SearchOptions

    return SearchOptions()


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of :func:`tvm_ios.api.optimize`.

    Attributes
    ----------
    search
        Lanes, target, tuned kernels, the device or fleet that times programs, and limits of the
        search. The time limit of its budget is that of all the work: half of it is for searching,
        and what can be left out is neither built, timed nor kept once it has passed. The sequential
        program is there in any case.
    policies
        The policies to try, by default all that the costs suffice for. ``sequential`` is always
        built, unless nothing is measured.
    schedule
        A schedule file to try too, as the policy ``given``; where nothing is measured, in the place
        of policies.
    cost
        A device's name or file, or a log (``.jsonl``) of measurements, by which schedules are
        searched. Without a device in ``search``, nothing is measured: the program with the least
        expected time is kept.
    memory_budget
        Bytes of the largest arena that the kept program may have. Policies that search over stages
        then look for schedules that fit, and ``memory`` is tried too; where the sequential program
        does not fit, the fastest that does is kept.
    fallback
        Other runtimes, ``tvm`` and ``onnxruntime``, whose build of the model is kept where it is
        faster than every program of ours beyond doubt. Not on GPUs, fleets and devices, nor within
        a memory budget or a deployment.
    beside_tvm
        Whether TVM's own build is compared and timed as well. If not, it is made only when no other
        reference outputs are available, and is no fallback.
    verify
        The source of the outputs that those of the programs are compared with.
    states
        A map of outputs, by name, to the inputs that take them in the next run; saved with the
        executable.
    sequential
        A path where the sequential program's executable is saved too, to compare with.
    tvm_build
        A path (``.so``) where TVM's own build is saved, to compare with.
    launches
        A folder for the launches of each policy's program, as a device times them.

    Raises
    ------
    UserError
        If they contradict each other.
    """

    search: SearchOptions = field(default_factory=_default_search)
    policies: Sequence[str] | None = None
    schedule: Path | None = None
    cost: str | None = None
    memory_budget: int | None = None
    fallback: Collection[str] = (TVM,)
    beside_tvm: bool = True
    verify: Verify = Verify.onnx
    states: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    sequential: Path | None = None
    tvm_build: Path | None = None
    launches: Path | None = None

    def __post_init__(self) -> None:
        search = self.search
        if self.cost is not None and search.fleet is not None:
            raise OptionsError(f"{self.cost} asks no machine: leave out one of them", "fleet")
        if search.device is None and self.launches is not None:
            raise OptionsError("it is for a --device", "launches")
        if search.device is not None and self.states:
            raise OptionsError("give it to `tvm-ios run`", "states")
        if not self.is_measured and self.schedule is not None and self.policies:
            raise UserError(
                f"without measuring only {self.schedule} would be compiled: "
                "leave out the schedule or the policies"
            )

    @property
    def is_measured(self) -> bool:
        """Whether programs are timed, here or elsewhere."""
        return self.cost is None or self.search.device is not None
