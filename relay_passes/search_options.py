"""Options of searching for schedules, which can be set before compilers and devices are loaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from runtime_ext.isa.isa import BYTES
from runtime_ext.machine.this_machine import available_lanes, cache_folder, host_target
from runtime_ext.target_architecture import cuda_arch
from tvm_ios.contest.tolerance import rounds
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import require_writable
from tvm_ios.measuring.timing_device import TimingDevice
from tvm_ios.policies.policy import Limits

if TYPE_CHECKING:
    from runtime_ext.fleet.device import FleetDevice


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The machine that schedules are searched for, the kernels, and the limits of the search.

    Attributes
    ----------
    lanes
        Threads; all that the process may use by default.
    target
        TVM target; this machine by default.
    database
        A MetaSchedule database (folder) of tuned kernels; for Relay an AutoTVM log (file).
    cache
        Folder of compiled kernels and measurement logs.
    precision
        The type in which a GPU computes: ``"float32"``, ``"tf32"`` or ``"float16"``. On a CPU
        ``"bfloat16"``: units with weights rounded to it are timed beside those in float32, and
        schedules name those that are faster so. By default float32.
    cudnn
        Whether units have a form in which cuDNN computes their convolutions, on a GPU; by default
        if both are found here.
    chains
        Whether units that read from each other may be computed by one kernel, where that is
        faster, on a CPU.
    winograd
        ``"auto"``: Winograd convolutions are timed beside the direct ones, on a CPU, and schedules
        name the units for which one is the fastest; ``"off"``: they are not.
    device
        A device that times programs instead of this machine; it determines the target.
    fleet
        Machines of one kind that time programs instead of this one; lanes and target are theirs.
    limits
        The extent of the search, and the end of measuring.
    dump_ir
        A folder for what stands between the phases, to be read: the module as TVMScript (of Relay
        as its text), else JSON.
    """

    lanes: int = field(default_factory=available_lanes)
    target: Any = None
    database: Path | None = None
    cache: Path = field(default_factory=cache_folder)
    precision: str = ""
    cudnn: bool | None = None
    chains: bool = True
    winograd: Literal["auto", "off"] = "auto"
    device: TimingDevice | None = None
    fleet: FleetDevice | None = None
    limits: Limits = field(default_factory=Limits)
    dump_ir: Path | None = None

    @property
    def without(self) -> tuple[str, ...]:
        """Kinds of implementations that are not measured."""
        return ("winograd",) if self.winograd == "off" else ()

    @property
    def resolved_target(self) -> Any:
        """The target, by default this machine's."""
        return self.target_for(())

    @property
    def is_for_gpu(self) -> bool:
        """Whether the target is a GPU."""
        # Without a target it is this machine's, a CPU, of which TVM need not be asked.
        is_given = self.device is not None or self.fleet is not None or bool(self.target)
        return is_given and cuda_arch(self.resolved_target) is not None

    def on_lanes(self, lanes: int) -> SearchOptions:
        """Return the options for another number of lanes, which the target of a CPU names too."""
        target = self.target
        data = target if target is None or isinstance(target, dict) else target.export()
        if data and "num-cores" in data:
            make: Any = type(target)
            target = make({**data, "num-cores": lanes})
        return replace(self, lanes=lanes, target=target)

    def target_for(self, kinds: Iterable[str]) -> Any:
        """Return the target for units of some kinds.

        By default it is this machine's, with the instructions that products of these kinds can use.
        """
        if self.device is not None:
            return {"kind": "cuda", "arch": self.device.arch.replace("compute_", "sm_")}
        if self.fleet is not None:
            return self.fleet.target
        if self.target:
            return self.target
        forms = [self.precision, *([BYTES] if rounds(kinds) else [])]
        return host_target(self.lanes, forms=forms)


def require_dump_folder(folder: Path | None) -> None:
    """Raise UserError if the IR cannot be written into a folder; None is no folder."""
    if folder is None:
        return
    try:
        require_writable(folder / "01_imported.py")
    except OSError as error:
        raise UserError(
            f"the IR cannot be written into {folder} ({error.strerror}): name another folder"
        ) from error
