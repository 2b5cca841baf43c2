"""Compile units to CUDA kernels for a named architecture, on any machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import tvm

from runtime_ext.cuda.gemm_space import GemmSpace
from runtime_ext.cuda.kernels import gemm_tile
from runtime_ext.cuda.kernels.build import block_works, kernels_of
from runtime_ext.cuda.kernels.generic import dlight_schedule, no_cuda_code
from runtime_ext.cuda.machine_code.cubin_cache import CubinCache
from runtime_ext.cuda.machine_code.kernel import CudaKernel
from runtime_ext.cuda.machine_code.launchable import Launchable, LaunchedWork, write_kernels
from runtime_ext.cuda.machine_code.nvrtc import (
    Cubin,
    compile_cubin,
    compiler_version,
    has_compiler,
    machine_code_arch,
)
from runtime_ext.cuda.machine_code.packed_kernels import pack, unpack
from runtime_ext.cuda.machine_code.source import cuda_target, generate
from runtime_ext.cuda.persistent.fused_source import VOLATILE
from runtime_ext.cuda.persistent.rtask import rtask_function
from runtime_ext.cuda.persistent.rtask_function import RTaskFunction
from runtime_ext.cuda.persistent.stage_fuser import GpuStageFuser
from runtime_ext.cuda.stored_types import stored_as
from runtime_ext.kernels.artefact import Artefact, ArtefactCache, KernelPhase
from runtime_ext.kernels.generic import Generic, Scheduled
from runtime_ext.kernels.library_convolution import CUDNN, PRECISIONS, LibraryConvolution
from runtime_ext.kernels.spec import Contraction
from runtime_ext.kernels.tile_work import finer
from runtime_ext.tuning_log.log import TuningLog
from runtime_ext.units.plans import different, library_plan, plan_unit
from runtime_ext.units.unit import UnitPlan, UnitSource, Workload
from runtime_ext.units.unit_compiler import UnitCompiler
from tvm_ios.costs.cuda_kernels.block_work import BlockWork
from tvm_ios.costs.cuda_kernels.stream_estimate import moving_work
from tvm_ios.costs.cuda_kernels.target_gpu import gpu_of, target_gpu
from tvm_ios.costs.cuda_kernels.tile import GemmTile
from tvm_ios.costs.cuda_kernels.unit_kernels import estimate
from tvm_ios.costs.kernel_estimate import KernelEstimate
from tvm_ios.devices.device import DeviceDescription, largest_gpu
from tvm_ios.devices.occupancy import Footprint
from tvm_ios.errors import UnfusedError, UserError
from tvm_ios.measuring.timing_device import Persistence

#: Types in which the model's float32 tensors are stored and multiplied.
GpuPrecision = Literal["float32", "tf32", "float16"]
#: The first architecture with the instructions that we use.
_TENSOR_CORES = 80
#: Incremented whenever the generated code of a kernel changes.
_VERSION = 5


class CudaKernelCompiler(UnitCompiler):
    """A compiler of units to CUDA kernels, with a cache; it needs neither a GPU nor a driver.

    ``arch`` is an architecture like ``"sm_90"``, or ``"compute_90"`` for PTX. ``cache_dir`` may be
    shared by processes. ``precision`` is ``"float32"``; ``"tf32"``, which rounds the operands of
    convolutions and products to ten bits of fraction; or ``"float16"``, in which tensors and
    weights are stored, while sums are float32. ``database`` is a MetaSchedule database of tuned
    kernels, or its folder. ``cudnn`` says whether units have a form in which cuDNN computes their
    convolutions; schedules may name it in any case. ``device`` is the GPU that tile sizes are
    chosen for, by default the largest described one of the architecture; ``persistent`` says
    whether and how it runs persistent kernels; ``edge`` is the seconds from the end of a kernel to
    the begin of one that waits for it. Raise UserError if the architecture or the precision is
    unknown, or the database was made for another one.
    """

    def __init__(
        self,
        arch: str,
        cache_dir: str | os.PathLike[str],
        precision: GpuPrecision = "float32",
        database: Any | None = None,
        *,
        cudnn: bool = False,
        device: DeviceDescription | None = None,
        persistent: Persistence = True,
        edge: float | None = None,
    ) -> None:
        if precision not in PRECISIONS:
            raise UserError(f"GPUs compute in float32, tf32 or float16, not in {precision}")
        code_arch = machine_code_arch(arch)
        if precision != "float32" and int(code_arch.strip("sm_a")) < _TENSOR_CORES:
            raise UserError(f"{precision} needs tensor cores of sm_80 or later, not {arch}")
        self.arch, self.precision, self.cudnn = arch, precision, cudnn
        self._code_arch = code_arch
        self.target = cuda_target(code_arch)
        described = largest_gpu(code_arch)
        if device is not None:
            self.gpu = target_gpu(_compiled_for(device, code_arch), edge)
            self.device = _compiled_for(device, arch)
        else:
            self.gpu = gpu_of(code_arch)
            assert described is not None, "gpu_of has found it"
            self.device = described
        self.space = GemmSpace(self.gpu, precision)
        self._cache = ArtefactCache(cache_dir, suffix="cubins")
        #: The description and the cubin, by the workload's key and the symbol.
        self._compiled: dict[str, dict[str, tuple[CudaKernel, bytes]]] = {}
        self._scheduled: dict[str, Any] = {}
        self._fused: dict[str, Launchable] = {}
        self._library_calls: dict[str, LibraryConvolution] = {}
        log = None
        if database is not None:
            log = TuningLog(database, self.target, lambda f: dlight_schedule(f, code_arch))
            if log.has_functions and precision == "float16":
                raise UserError(
                    "the tuning log has functions of TVM's, which store float32: leave it out, or "
                    "leave out the precision float16"
                )
        self._rtasks: dict[str, RTaskFunction] = {}
        self._fused_cubins = CubinCache(Path(cache_dir) / "fused")
        name = f"{arch} {precision} {_VERSION} {compiler_version(arch)}"
        if device is not None:
            # GPUs of an architecture may differ in the figures by which tile sizes are chosen.
            name = f"{name} {self.gpu}"
        self._persistent = persistent
        only = None if persistent else ()
        self.fuser = GpuStageFuser(self, self.device, only, "the device runs no persistent ones")
        super().__init__(name, log)

    def kernel(self, symbol: str) -> CudaKernel:
        """Return the description of a compiled kernel with its TIR, or raise KeyError."""
        key = self._key_of_symbol(symbol)
        if symbol not in self._scheduled:
            phases = self._phases(self._workloads[key]).phases
            names = (phase.symbol for phase in self._artefacts[key].phases)
            self._scheduled.update(zip(names, (p.function for p in phases), strict=True))
        return replace(self._description(symbol), scheduled=self._scheduled[symbol])

    def function(self, symbol: str) -> LaunchedWork:
        """Return the kernel, or the library call, of a symbol, or raise KeyError."""
        if symbol in self._fused:
            return self._fused[symbol]
        if symbol in self._library_calls:
            return self._library_calls[symbol]
        kernel, cubin = self._compiled[self._key_of_symbol(symbol)][symbol]
        return kernel.launchable(cubin)

    def blocks(self, symbol: str) -> int:
        """Return the number of rTasks of a kernel; see :class:`RTaskLibrary`."""
        return self._description(symbol).blocks

    def footprint(self, symbol: str) -> Footprint:
        """Return the threads, registers and shared memory of a block of a kernel."""
        return self._description(symbol).footprint

    def estimates(self, symbols: Sequence[str], flops: int) -> list[KernelEstimate]:
        """Return the estimates of a unit's kernels.

        Those that are not cut by one move the bytes of their buffers, and if none of them is, do
        the unit's ``flops``.
        """
        kernels = [self._description(symbol) for symbol in symbols]
        works = [self._block_work(symbol) for symbol in symbols]
        moved = [sum(parameter.nbytes for parameter in kernel.parameters) for kernel in kernels]
        of_a_byte = 1 / 4 + (0.0 if any(works) else flops / 2 / max(1, sum(moved)))
        made: list[KernelEstimate] = []
        for kernel, work, nbytes in zip(kernels, works, moved, strict=True):
            each = nbytes / kernel.blocks
            moving = moving_work(kernel.footprint, each, each * of_a_byte / kernel.threads)
            cut = moving if work is None else replace(work, footprint=kernel.footprint)
            made.append(estimate(cut, kernel.blocks, nbytes, self.gpu))
        return made

    def _block_work(self, symbol: str) -> BlockWork | None:
        works = block_works(self.workload(symbol), self.precision, self.gpu)
        return works[int(symbol.rpartition("_")[2])] if works else None

    def rtasks(self, symbol: str) -> RTaskFunction:
        """Return a kernel as a function of its rTasks; raise UnfusedError if impossible."""
        if symbol not in self._rtasks:
            try:
                function = rtask_function(
                    self.kernel(symbol).scheduled, f"rtask_{symbol}", self._code_arch
                )
            except ValueError as error:
                raise UnfusedError(
                    f"kernel {symbol!r} is no function of rTasks: {error}"
                ) from error
            self._rtasks[symbol] = function
        return self._rtasks[symbol]

    def cubin(self, source: str, arch: str, entry: str) -> Cubin:
        """Return the machine code of a fused kernel."""
        if self._persistent == "volatile":
            source = f"#define {VOLATILE}\n{source}"
        return self._fused_cubins.cubin(source, arch, entry)

    def add(self, symbol: str, kernel: Launchable) -> None:
        """Add a kernel that is fused of several units' kernels."""
        self._fused[symbol] = kernel

    def _description(self, symbol: str) -> CudaKernel:
        return self._compiled[self._key_of_symbol(symbol)][symbol][0]

    def export(self, path: str | os.PathLike[str], symbols: Iterable[str]) -> None:
        """Write a file of kernels; see :mod:`runtime_ext.cuda.machine_code.launchable`."""
        write_kernels(Path(path), self.arch, {s: self.function(s) for s in symbols})

    def _plan(self, source: UnitSource) -> dict[str, UnitPlan]:
        default = plan_unit(source, self.space)
        plans = {**self._as_in_log(source, default, self.space), "default": default}
        return {name: self._stored(plan) for name, plan in plans.items()}

    def _named_plans(self, source: UnitSource) -> dict[str, UnitPlan]:
        plan = library_plan(source, self.space, self.precision)
        return {} if plan is None else {CUDNN: self._stored(plan)}

    def _measured_plans(self, source: UnitSource) -> dict[str, UnitPlan]:
        return self._named_plans(source) if self.cudnn else {}

    def _rkernel_plans(self, source: UnitSource) -> dict[str, UnitPlan]:
        def coarse(spec: Contraction) -> GemmTile | None:
            return gemm_tile.coarse_tile(spec, self.gpu, self.precision)

        def fine(spec: Contraction) -> GemmTile | None:
            return gemm_tile.fine_tile(spec, self.gpu, self.precision)

        narrow = plan_unit(source, self.space, fine)
        kernels = tuple(replace(k, spec=finer(k.spec)) for k in narrow.kernels)
        # cuDNN's calls have no rTasks, and functions of a log may have other numbers of threads.
        without_rtasks = (CUDNN, "tuned-functions")
        plans = {n: plan for n, plan in self._plan(source).items() if n not in without_rtasks}
        others = {
            "coarse": self._stored(plan_unit(source, self.space, coarse)),
            "fine": self._stored(replace(narrow, kernels=kernels)),
        }
        return different({"default": plans["default"], **plans, **others})

    def _stored(self, plan: UnitPlan) -> UnitPlan:
        return stored_as(plan, self.stored_dtype)

    @property
    def stored_dtype(self) -> str:
        """The type in which the model's float32 tensors are stored."""
        return "float16" if self.precision == "float16" else "float32"

    def _phases(self, workload: Workload) -> Any:
        return kernels_of(workload, self.precision, self.gpu)

    def _find(self, key: str) -> Artefact | None:
        workload = self._workloads[key]
        if isinstance(workload, LibraryConvolution):
            symbol = f"k{key}_0"
            self._library_calls[symbol] = workload
            return Artefact(key, (KernelPhase(symbol, 1, tuple(range(workload.buffers))),), ())
        artefact = self._cache.find(key)
        if artefact is None:
            return None
        self._compiled[key] = unpack(self._cache.code_file(key).read_bytes())
        return artefact

    def _build(self, key: str, workload: Workload) -> Artefact:
        phases = self._phases(workload)
        pipeline = "s_tir" if isinstance(workload, (Generic, Scheduled)) else "tirx"
        kernels: dict[str, tuple[CudaKernel, bytes]] = {}
        for number, phase in enumerate(phases.phases):
            symbol = f"k{key}_{number}"
            try:
                generated = generate(phase.function, symbol, self._code_arch, pipeline)
            except Exception as error:
                if isinstance(workload, Generic):
                    raise no_cuda_code(workload) from error
                is_logged = isinstance(workload, Scheduled)
                if not is_logged or not isinstance(error, (ValueError, tvm.error.InternalError)):
                    raise
                raise UserError(
                    f"a schedule of the tuning log is no CUDA kernel: {str(error).splitlines()[-1]}"
                ) from error
            try:
                cubin = compile_cubin(generated.source, self.arch)
            except UserError as error:
                if not isinstance(workload, Generic) or not has_compiler():
                    raise
                raise UserError(f"{error} (TVM's code for the operator {workload.name})") from error
            kernel = CudaKernel(
                symbol=symbol,
                **vars(generated),
                static_shared_bytes=cubin.static_shared_bytes,
                dynamic_shared_bytes=0,
                registers=cubin.registers,
                local_bytes=cubin.local_bytes,
            )
            kernels[symbol] = kernel, cubin.code
        kernel_phases = tuple(
            KernelPhase(symbol, 1, phase.arguments)
            for symbol, phase in zip(kernels, phases.phases, strict=True)
        )
        artefact = Artefact(key, kernel_phases, phases.scratch)
        self._cache.add(artefact, pack(kernels))
        self._compiled[key] = kernels
        return artefact


def _compiled_for(device: DeviceDescription, arch: str) -> DeviceDescription:
    """Return a GPU's description with another architecture to compile for, such as its PTX."""
    assert device.multiprocessor is not None, "it is a GPU"
    return replace(device, multiprocessor=replace(device.multiprocessor, arch=arch))
