"""Co-scheduled stages in measured searches on a GPU, where each becomes one kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from runtime_ext.cuda.persistent.co_schedule import MOST_KERNELS, fused_stages
from runtime_ext.cuda.persistent.fused_kernel import vdevice
from runtime_ext.cuda.persistent.rtask_library import RTaskLibrary
from runtime_ext.cuda.persistent.rtask_times import contended_rkernel, profiled_rkernel
from tvm_ios.devices.device import DeviceDescription
from tvm_ios.errors import UnfusedError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.measuring.stage_fuser import FusedStages
from tvm_ios.program.program import Part, UnitCode
from tvm_ios.program.program_builder import NO_PARTS, ConstantName
from tvm_ios.rammer.rprogram import RProgram
from tvm_ios.rammer.wavefront import RKernels, co_schedule
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage


class GpuStageFuser:
    """A builder of co-scheduled stages: it places rTasks on vEUs and fuses kernels.

    ``library`` has the units' kernels. If no kernel can be compiled, ``only`` lists the units of
    the stages whose kernels were compiled before, of the default rKernels, and ``why`` is the
    reason as part of a sentence; None means that a kernel can be made of any stage.
    """

    def __init__(
        self,
        library: RTaskLibrary,
        device: DeviceDescription,
        only: Collection[tuple[int, ...]] | None = None,
        why: str = "there is no CUDA compiler here: install nvidia-cuda-nvrtc",
    ) -> None:
        self.refusal = "" if only is None else why
        self._library = library
        self._device = device
        self._only = None if only is None else {tuple(sorted(units)) for units in only}

    def can_fuse(self, code: Mapping[int, UnitCode]) -> bool:
        """Return whether a stage of some units, with this code, may become one kernel."""
        symbols = {call.symbol for of_unit in code.values() for call in of_unit.calls}
        has_kernel = self._only is None or tuple(sorted(code)) in self._only
        return has_kernel and len(symbols) <= MOST_KERNELS

    def lanes(self, codes: Iterable[UnitCode]) -> int:
        """Return the number of the GPU's vEUs for some units' kernels (Rammer, section 4.1.2)."""
        symbols = {call.symbol for code in codes for call in code.calls}
        if not symbols:
            return self._device.processors
        return vdevice(map(self._library.footprint, sorted(symbols)), self._device)

    def rkernel(
        self, name: str, code: UnitCode, phases: Sequence[float], overhead: float
    ) -> RKernel:
        """Return an rKernel from the seconds of its kernels alone, ``phases``, and of a launch.

        See :func:`profiled_rkernel`.
        """
        library = self._library
        blocks, footprint = library.blocks, library.footprint
        return profiled_rkernel(name, code, phases, blocks, footprint, self._device, overhead)

    def contended(self, kernel: RKernel, code: UnitCode, veus: int) -> RKernel:
        """Return a profiled rKernel as it is among others; see :func:`contended_rkernel`."""
        return contended_rkernel(kernel, code, self._library.footprint, self._device, veus)

    def share(self, kernel: RKernel, code: UnitCode) -> float:
        """Return the seconds of all rTasks of an rKernel if they fill the whole GPU."""
        counts = zip(code.calls, kernel.tasks, kernel.task_seconds, strict=True)
        return sum(
            count * each / vdevice([self._library.footprint(call.symbol)], self._device)
            for call, count, each in counts
        )

    def rprogram(
        self,
        graph: OpGraph,
        units: Sequence[int],
        rkernels: RKernels,
        code: Callable[[int, str], UnitCode],
        *,
        profiled: bool = True,
    ) -> RProgram:
        """Return some units as one rProgram, on as many vEUs as its kernels leave room for.

        The first parameters are as for :func:`tvm_ios.rammer.wavefront.co_schedule`; ``code``
        returns the code of a unit's rKernel by name. ``profiled`` means that rTasks were profiled
        alone, so that they are slower beside others.
        """
        choices = {unit: rkernels(unit) for unit in units}
        if self.refusal:
            choices = {unit: candidates[:1] for unit, candidates in choices.items()}
        veus = self.lanes(code(u, kernel.name) for u in units for kernel in choices[u])
        while True:
            placed = choices
            if profiled:
                placed = {
                    unit: tuple(self.contended(k, code(unit, k.name), veus) for k in candidates)
                    for unit, candidates in choices.items()
                }
            program = co_schedule(graph, units, placed.__getitem__, veus)
            chosen = {
                unit: tuple(k for k in choices[unit] if k.name == program.kernels[unit].name)
                for unit in units
            }
            veus_of_chosen = self.lanes(code(u, kernel.name) for u, (kernel,) in chosen.items())
            if veus_of_chosen <= veus:
                return program
            # Kernels that were not chosen had limited the vEUs: place the chosen ones on more.
            choices, veus = chosen, veus_of_chosen

    def fused(
        self,
        graph: OpGraph,
        stages: Sequence[Stage],
        code: Mapping[int, UnitCode],
        constant_name: ConstantName | None = None,
        parts: Mapping[int, Part] = NO_PARTS,
    ) -> FusedStages:
        """Return the code of co-scheduled stages; see :func:`fused_stages`.

        Raise UnfusedError if one cannot be a kernel.
        """
        if stages and self._only is not None and not self._only:
            raise UnfusedError(f"a co-scheduled stage is a persistent kernel, and {self.refusal}")
        return fused_stages(graph, stages, code, self._library, self._device, constant_name, parts)
