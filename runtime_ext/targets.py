"""Create the backend of a target."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime_ext.backend import AbsentGpu, Backend
from runtime_ext.machine.this_machine import host_target
from runtime_ext.target_architecture import cuda_arch
from tvm_ios.errors import UserError
from tvm_ios.measuring.device import Device
from tvm_ios.measuring.timing_device import TimingDevice
from tvm_ios.program.bfloat16 import FORM

if TYPE_CHECKING:
    from runtime_ext.fleet.device import FleetDevice

#: What to do without the GPU that something is compiled for.
_WITHOUT_GPU = "give --cost a device or a log, or make a bundle and run it there"


def target_backend(
    target: Any,
    lanes: int,
    cache: Path,
    *,
    database: Path | None = None,
    precision: str = "",
    cudnn: bool | None = None,
    without: Collection[str] = (),
    device: TimingDevice | None = None,
    fleet: FleetDevice | None = None,
) -> Backend[Any]:
    """Return the backend of a target for Relax modules.

    ``target`` is a TVM target of kind llvm or cuda, or the data of one; None for this machine.
    ``lanes`` are threads, or streams; ``database`` is a MetaSchedule database for this target.
    ``precision`` is float32, tf32 or float16 on a GPU; on a CPU float32, or bfloat16, to which the
    weights of units are rounded if that is faster. ``cudnn`` says whether units have an
    implementation that calls cuDNN, by default if a GPU and cuDNN are here. ``without`` are kinds
    of implementations that are not measured on a CPU (``winograd``). ``device`` times programs
    instead of the GPU here, and kernels are compiled for its architecture; ``fleet`` times them
    instead of the CPU here, with its own target and lanes. Raise UserError if the target is
    unknown, or the database, precision or library does not fit it.
    """
    arch = cuda_arch(target)
    if device is not None:
        return _plugged_backend(device, lanes, cache, precision or "float32", database, cudnn)
    if arch is not None:
        return _cuda_backend(arch, lanes, cache, precision or "float32", database, cudnn)
    if cudnn:
        raise UserError("cuDNN is for NVIDIA GPUs: give --target cuda, or leave out --cudnn")
    precision = precision or "float32"
    if precision not in ("float32", FORM):
        raise UserError(
            f"CPUs compute in float32 or {FORM}, not in {precision}: leave out --precision"
        )
    if fleet is not None:
        compiler = fleet.compiler(cache, database, without, precision)
        return Backend(compiler, fleet, "native", has_named_forms=True)
    from runtime_ext.cpu.compiler import KernelCompiler
    from runtime_ext.cpu.device import CpuDevice

    compiler = KernelCompiler(
        target or host_target(lanes),
        lanes,
        cache,
        database=database,
        without=without,
        precision=precision,
    )
    return Backend(compiler, CpuDevice(lanes), "native", has_named_forms=True)


def _plugged_backend(
    device: TimingDevice,
    lanes: int,
    cache: Path,
    precision: Any,
    database: Path | None,
    cudnn: bool | None,
) -> Backend[Any]:
    from runtime_ext.cuda.compiler import CudaKernelCompiler
    from runtime_ext.cuda.plugged_device import PluggedDevice

    if cudnn:
        raise UserError(f"the device {device.name!r} has no cuDNN: leave out --cudnn")
    compiler = CudaKernelCompiler(
        device.arch,
        cache,
        precision,
        database,
        device=device.gpu,
        persistent=device.persistent,
        edge=device.timing.edge,
    )
    return Backend(compiler, PluggedDevice(device, lanes), "cuda")


def cuda_device(arch: str, lanes: int, otherwise: str = _WITHOUT_GPU) -> Device:
    """Return the GPU here, or an :class:`AbsentGpu` if none here runs code of the architecture.

    ``otherwise`` says what to do without the GPU, for the refusal to measure.
    """
    from runtime_ext.cuda.measure import GpuDevice
    from runtime_ext.cuda.nvidia.driver import open_device, runs_on
    from runtime_ext.native_errors import CudaError

    try:
        opened = open_device()
    except CudaError as error:
        return AbsentGpu(arch, lanes, str(error), otherwise)
    if not runs_on(arch, opened.compute_capability):
        return AbsentGpu(arch, lanes, f"the GPU here is {opened.name}", otherwise)
    return GpuDevice(lanes=lanes)


def _cuda_backend(
    arch: str,
    lanes: int,
    cache: Path,
    precision: Any,
    database: Path | None,
    cudnn_asked: bool | None,
) -> Backend[Any]:
    from runtime_ext.cuda.compiler import CudaKernelCompiler
    from runtime_ext.cuda.nvidia import cudnn

    device = cuda_device(arch, lanes)
    has_gpu = not isinstance(device, AbsentGpu)
    if has_gpu and cudnn_asked is None:
        try:
            cudnn.version()
        except cudnn.CudnnError:
            cudnn_asked = False
    uses_cudnn = cudnn_asked is not False if has_gpu else bool(cudnn_asked)
    compiler = CudaKernelCompiler(arch, cache, precision, database, cudnn=uses_cudnn)
    return Backend(compiler, device, "cuda", uses_cudnn)
