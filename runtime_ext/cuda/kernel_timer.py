"""Time tile sizes of one contraction on a GPU, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from runtime_ext.cuda.compiler import CudaKernelCompiler
from runtime_ext.kernels.artefact import Artefact
from runtime_ext.kernels.spec import Contraction
from tvm_ios.measuring.device import Device
from tvm_ios.program.program import Buffer, BufferType, Launch, Program, Role

#: Rounds in which kernels take turns, so that changes of the clock affect all of them.
_ROUNDS = 3


class GpuKernelTimer:
    """A :class:`runtime_ext.tuning.tuner.Timer` of contractions on a GPU."""

    def __init__(self, compiler: CudaKernelCompiler, device: Device) -> None:
        self._compiler, self._device = compiler, device

    def measure(self, specs: Sequence[Contraction]) -> list[float]:
        """Return the seconds of each contraction's fastest sample, with the sum of split parts."""
        artefacts = self._compiler.compile_workloads(specs)
        programs = [self._program(*pair) for pair in zip(specs, artefacts, strict=True)]
        rounds = [
            [min(self._device.time_program(p, self._compiler.function)) for p in programs]
            for _ in range(_ROUNDS)
        ]
        return [min(samples) for samples in zip(*rounds, strict=True)]

    def _program(self, spec: Contraction, artefact: Artefact) -> Program:
        """Return a program of the kernels of a contraction, in sequence on one stream."""
        stored = self._compiler.stored_dtype
        buffers = [
            Buffer(
                f"b{i}",
                BufferType(shape, stored),
                Role.CONSTANT if i == spec.weight else Role.INPUT,
            )
            for i, shape in enumerate(spec.buffers)
        ]
        buffers += [
            Buffer(f"scratch{i}", BufferType(shape, dtype), Role.SCRATCH)
            for i, (shape, dtype) in enumerate(artefact.scratch)
        ]
        launches = tuple(
            Launch(number, phase.arguments, 0, phase.tiles, 0)
            for number, phase in enumerate(artefact.phases)
        )
        symbols = tuple(phase.symbol for phase in artefact.phases)
        return Program((launches,), symbols, tuple(buffers), ("kernel",))
