"""The machine that a bundle runs on: its device, the loaded kernels, sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from runtime_ext.bundle.contents import KERNELS, Bundle, BundleError
from tvm_ios.files.array_files import Array
from tvm_ios.measuring.device import Device
from tvm_ios.measuring.stage_fuser import StageFuser
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Program

if TYPE_CHECKING:
    from runtime_ext.execution.ports import Port


class RunningSession(Protocol):
    """A program with its memory, ready to run."""

    def run(self, /, **inputs: Any) -> None:
        """Run once; inputs set before stay."""
        ...

    def get_output(self, which: int = 0) -> Array:
        """A copy of an output of the last run."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class OpenSession(Protocol):
    """Makes a session of a program."""

    def __call__(
        self,
        program: Program,
        constants: Mapping[str, Array],
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        plan: MemoryPlan,
    ) -> RunningSession:
        """A new session; constants by the names of their buffers."""
        ...


@dataclass(frozen=True)
class Place:
    """Where a bundle runs.

    Attributes
    ----------
    device
        Times programs.
    function
        What a symbol of the bundle's kernels is.
    open_session
        Makes sessions.
    facts
        Of the machine, for the results: driver, clocks.
    fuser
        On a GPU what makes kernels of co-scheduled stages.
    without_cudnn
        Why cuDNN is not called here; empty if it is.
    """

    device: Device
    function: Callable[[str], Any]
    open_session: OpenSession
    facts: Mapping[str, Any]
    fuser: StageFuser | None = None
    without_cudnn: str = "it is for GPUs"


def open_place(bundle: Bundle, lanes: int | None, cache: Path, *, cudnn: bool = True) -> Place:
    """Load a bundle's kernels on this machine.

    Parameters
    ----------
    bundle
        Made for a CPU or a GPU like that of this machine.
    lanes
        Threads or streams; None for as many as the bundle says, and on a CPU no more than there
        are.
    cache
        A folder for what is compiled here.
    cudnn
        Whether cuDNN may be called, where it is found and the bundle has such forms.

    Raises
    ------
    BundleError
        If they cannot run here; says why.
    """
    if bundle.about["kind"] == "cuda":
        return _open_cuda(bundle, lanes or int(bundle.about["lanes"]), cache, cudnn)
    return _open_cpu(bundle, lanes)


def _open_cpu(bundle: Bundle, lanes: int | None) -> Place:
    try:
        import tvm_ffi
    except ImportError as error:
        wanted = bundle.about["versions"]["apache-tvm-ffi"]
        raise BundleError(
            f"running this bundle needs the Python package apache-tvm-ffi=={wanted}: install it"
        ) from error
    from runtime_ext.cpu.device import CpuDevice
    from runtime_ext.execution.session import Session
    from runtime_ext.machine.cpu_features import missing_features
    from runtime_ext.machine.this_machine import available_lanes

    missing = missing_features(tuple(bundle.about["features"]))
    if missing:
        raise BundleError(
            f"{bundle.folder} was made for {bundle.about['target']} and this CPU lacks "
            f"{', '.join(missing)}: bundle the model with a lower --arch"
        )
    path = bundle.folder / "kernels.so"
    try:
        library: Any = tvm_ffi.load_module(str(path))
    except (RuntimeError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise BundleError(f"{path} cannot be loaded: {reason}") from error
    functions: dict[str, Any] = {}

    def function(symbol: str) -> Any:
        if symbol not in functions:
            functions[symbol] = library.get_function(symbol)
        return functions[symbol]

    def open_session(
        program: Program,
        constants: Mapping[str, Array],
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        plan: MemoryPlan,
    ) -> RunningSession:
        code = {symbol: function(symbol) for symbol in program.kernels}
        return Session(program, code, constants, inputs, outputs, plan=plan)

    count = lanes or min(int(bundle.about["lanes"]), available_lanes())
    return Place(CpuDevice(count), function, open_session, {})


def _open_cuda(bundle: Bundle, streams: int, cache: Path, with_cudnn: bool) -> Place:
    from runtime_ext.bundle.rtasks import bundle_fuser, compiler_here
    from runtime_ext.cuda.machine_code.launchable import read_kernels
    from runtime_ext.cuda.measure import GpuDevice
    from runtime_ext.cuda.nvidia import cudnn
    from runtime_ext.cuda.nvidia.clocks import clocks
    from runtime_ext.cuda.nvidia.driver import call, open_device
    from runtime_ext.execution.session import Session

    arch, kernels = read_kernels(bundle.folder / KERNELS)
    device = open_device()
    device.require(arch)

    def open_session(
        program: Program,
        constants: Mapping[str, Array],
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        plan: MemoryPlan,
    ) -> RunningSession:
        return Session(program, kernels, constants, inputs, outputs, plan=plan, executor="cuda")

    rtasks = bundle.rtasks
    assert rtasks is not None
    found, without = "", "it was left out: drop --no-cudnn"
    if with_cudnn:
        try:
            found, without = cudnn.usable_version(device), ""
        except cudnn.CudnnError as error:
            without = f"it cannot be used here ({error})"
    facts = {
        "arch": arch,
        "cuda": call("cuDriverGetVersion"),
        "clocks": clocks(device),
        "compiler": compiler_here(rtasks),
        "cudnn": found or f"none; {without}",
    }
    fuser = bundle_fuser(rtasks, kernels, device, cache)
    return Place(GpuDevice(lanes=streams), kernels.__getitem__, open_session, facts, fuser, without)
