"""What a target brings: its compiler, the device that runs its code, and how sessions are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from runtime_ext.machine.this_machine import host_target
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.measuring.device import NO_CONSTANTS, Device, Function
from tvm_ios.program.program import Program

if TYPE_CHECKING:
    from runtime_ext.cpu.compiler import KernelCompiler
    from runtime_ext.cuda.compiler import CudaKernelCompiler

#: What to do without the GPU that something is compiled for.
_WITHOUT_GPU = "give --cost a device or a log, or make a bundle and run it there"


class NotMeasured(UserError):
    """Something can only be measured on a device that is not here."""


@dataclass(frozen=True)
class Backend:
    """A compiler and where its code runs.

    Attributes
    ----------
    compiler
        Of units.
    device
        Times programs.
    executor
        Which one runs them.
    here
        Whether there is such a device on this machine.
    cudnn
        Whether units have a form that calls cuDNN, which is measured beside the others.
    """

    compiler: KernelCompiler | CudaKernelCompiler
    device: Device
    executor: Literal["native", "cuda"]
    here: bool
    cudnn: bool = False

    def require_here(self, doing: str) -> None:
        """Refuse to do something with a device that is not here.

        Raises
        ------
        NotMeasured
            If there is none.
        """
        if isinstance(self.device, AbsentGpu):
            raise NotMeasured(
                f"{doing} needs an {self.device.name} GPU, and here is none ({self.device.why}): "
                "do it where there is one"
            )


def backend(
    target: Any,
    lanes: int,
    cache: Path,
    *,
    database: Path | None = None,
    precision: str = "",
    cudnn: bool | None = None,
) -> Backend:
    """The backend of a target.

    Parameters
    ----------
    target
        A TVM target, or what makes one, of kind llvm or cuda; None for this machine.
    lanes
        Threads, or streams.
    cache
        Folder of compiled kernels.
    database
        A MetaSchedule database of tuned kernels, for this target.
    precision
        In which a GPU computes: float32, tf32 or float16; a CPU in float32 only.
    cudnn
        Whether units have a form that calls cuDNN; by default where a GPU and cuDNN are.

    Raises
    ------
    UserError
        If the target is unknown, or the database, precision or library is none of it.
    """
    arch = cuda_arch(target)
    if arch is not None:
        return _cuda(arch, lanes, cache, precision or "float32", database, cudnn)
    if cudnn:
        raise UserError("cuDNN is for NVIDIA GPUs: give --target cuda, or leave out --cudnn")
    if precision not in ("", "float32"):
        raise UserError(f"CPUs compute in float32, not in {precision}: leave out --precision")
    from runtime_ext.cpu.compiler import KernelCompiler
    from runtime_ext.cpu.device import CpuDevice

    compiler = KernelCompiler(target or host_target(lanes), lanes, cache, database=database)
    return Backend(compiler, CpuDevice(lanes), "native", True)


def cuda_arch(target: Any) -> str | None:
    """The architecture of a CUDA target; None for another one."""
    if isinstance(target, Mapping):
        return str(target.get("arch", "sm_90")) if target.get("kind") == "cuda" else None
    if target is None or isinstance(target, str) or target.kind.name != "cuda":
        return None
    return str(target.attrs["arch"])


def _cuda(
    arch: str,
    lanes: int,
    cache: Path,
    precision: Any,
    database: Path | None,
    wanted: bool | None,
) -> Backend:
    from runtime_ext.cuda.compiler import CudaKernelCompiler
    from runtime_ext.cuda.nvidia import cudnn

    device = cuda_device(arch, lanes)
    here = not isinstance(device, AbsentGpu)
    if here and wanted is None:
        try:
            cudnn.version()
        except cudnn.CudnnError:
            wanted = False
    called = wanted is not False if here else bool(wanted)
    compiler = CudaKernelCompiler(arch, cache, precision, database, cudnn=called)
    return Backend(compiler, device, "cuda", here, called)


def cuda_device(arch: str, lanes: int, otherwise: str = _WITHOUT_GPU) -> Device:
    """The GPU here, or what stands for one of an architecture that is not here.

    Parameters
    ----------
    arch
        Of the kernels.
    lanes
        Streams.
    otherwise
        What to do without it, for the refusal to measure.
    """
    from runtime_ext.cuda.measure import GpuDevice
    from runtime_ext.cuda.nvidia.driver import open_device, runs_on
    from runtime_ext.native_errors import CudaError

    try:
        found = open_device()
    except CudaError as error:
        return AbsentGpu(arch, lanes, str(error), otherwise)
    if not runs_on(arch, found.compute_capability):
        return AbsentGpu(arch, lanes, f"the GPU here is {found.name}", otherwise)
    return GpuDevice(lanes=lanes)


@dataclass(frozen=True)
class AbsentGpu:
    """A GPU that code is compiled for and that is not here; see :class:`Device`."""

    name: str
    lanes: int
    why: str
    otherwise: str
    splits: bool = False

    def time_program(
        self, program: Program, function: Function, constants: Mapping[str, Array] = NO_CONSTANTS
    ) -> list[float]:
        """Refuse.

        Raises
        ------
        NotMeasured
            Always.
        """
        raise NotMeasured(
            f"stages can only be measured on an {self.name} GPU, and here is none ({self.why}): "
            f"{self.otherwise}"
        )

    def profile_phases(self, program: Program, function: Function) -> list[list[float]]:
        """Refuse, as :meth:`time_program`."""
        return [self.time_program(program, function)]
