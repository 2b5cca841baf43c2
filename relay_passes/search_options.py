"""How schedules of a module are searched, without the compilers and devices that do it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from runtime_ext.machine.this_machine import BYTES, available_lanes, cache_folder, host_target
from tvm_ios.contest.tolerance import rounds
from tvm_ios.measuring.timing_device import TimingDevice
from tvm_ios.policies.policy import Limits

if TYPE_CHECKING:
    from runtime_ext.fleet.device import FleetDevice


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """For what machine schedules are searched, with which kernels, and how far.

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
        In which a GPU computes: ``"float32"``, ``"tf32"`` or ``"float16"``. On a CPU
        ``"bfloat16"``: units with weights rounded to it are timed beside those in float32, and
        schedules name those that are faster so. By default float32.
    cudnn
        Whether units have a form in which cuDNN computes their convolutions, on a GPU; by default
        where both are found here.
    chains
        Whether units that read from each other may be computed by one kernel, where that is
        faster, on a CPU.
    winograd
        ``"auto"``: convolutions by Winograd's filtering are timed beside the direct ones, on a CPU,
        and schedules name the units for which one is the fastest; ``"off"``: they are not.
    device
        What times programs, in the place of what is here; the target is then what it takes.
    fleet
        What times programs, in the place of what is here: machines of one kind, whose lanes and
        target these are then.
    limits
        How far to search, and when measuring ends.
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

    @property
    def resolved_target(self) -> Any:
        """The target, this machine's where none is given."""
        return self.target_for(())

    def on_lanes(self, lanes: int) -> SearchOptions:
        """Return the options for another number of lanes, which the target of a CPU names too."""
        target = self.target
        data = target if target is None or isinstance(target, dict) else target.export()
        if data and "num-cores" in data:
            make: Any = type(target)
            target = make({**data, "num-cores": lanes})
        return replace(self, lanes=lanes, target=target)

    def target_for(self, kinds: Iterable[str]) -> Any:
        """The target for units of some kinds.

        This machine's, where none is given, with the instructions that their products can use.
        """
        if self.device is not None:
            return {"kind": "cuda", "arch": self.device.arch.replace("compute_", "sm_")}
        if self.fleet is not None:
            return self.fleet.target
        if self.target:
            return self.target
        forms = [self.precision, *([BYTES] if rounds(kinds) else [])]
        return host_target(self.lanes, forms=forms)
