"""Write the kernels of a bundle, and the facts that a reader needs of them."""

from __future__ import annotations

import gzip
import platform
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from runtime_ext.bundle.contents import KERNELS, PACKAGES
from runtime_ext.bundle.rtasks import BundledRTasks
from runtime_ext.bundle.unit_forms import UnitForms
from runtime_ext.bundle.writing.model import ModelToBundle
from runtime_ext.cuda.compiler import CudaKernelCompiler
from runtime_ext.cuda.persistent.co_schedule import co_scheduled
from runtime_ext.cuda.persistent.fused_kernel import FusedKernel
from runtime_ext.cuda.persistent.rtask_function import RTaskFunction
from runtime_ext.machine.cpu_features import required_features
from runtime_ext.native_library import native_library_path
from runtime_ext.target_architecture import machine_of
from tvm_ios.costs.persistent import rkernel
from tvm_ios.devices.occupancy import Footprint
from tvm_ios.errors import UnfusedError
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.ios.promising import promising_stages
from tvm_ios.program.program import UnitCode
from tvm_ios.progress import Progress
from tvm_ios.rammer.wavefront import co_schedule
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage

#: Bytes of the kernels of stages compiled ahead, at most.
_FUSED_BYTES = 4 << 20


def write_kernels(
    model: ModelToBundle, forms: UnitForms, folder: Path, max_fused: int, progress: Progress
) -> dict[str, Any]:
    """Write the kernels of some code into a bundle's folder; return facts for ``bundle.json``.

    ``max_fused`` is as of :func:`runtime_ext.bundle.writing.write.write_bundle`.
    """
    if model.backend.executor == "cuda":
        return _cuda_kernels(model, forms, folder, max_fused, progress)
    compiler, kernels = model.backend.compiler, folder / "kernels.so"
    compiler.export(kernels, forms.symbols)
    libraries, machine = [kernels], machine_of(compiler.target)
    # There is no executor for another machine here: it comes with tvm-ios-runtime there.
    if machine == platform.machine():
        library = native_library_path()
        packages = folder / PACKAGES / "runtime_ext"
        packages.mkdir(parents=True)
        libraries.append(Path(shutil.copyfile(library, packages / library.name)))
    return {
        "kind": "cpu",
        "machine": machine,
        "features": required_features(compiler.target),
        "glibc": _glibc(*libraries),
    }


def _cuda_kernels(
    model: ModelToBundle, forms: UnitForms, folder: Path, max_fused: int, progress: Progress
) -> dict[str, Any]:
    """Write the kernels for a GPU, also as rTasks, and kernels of promising stages of these."""
    compiler = model.backend.compiler
    assert isinstance(compiler, CudaKernelCompiler)
    rtasks: dict[str, tuple[Footprint, RTaskFunction]] = {}
    for done, symbol in enumerate(forms.unit_symbols):
        progress("making rTasks", done, len(forms.unit_symbols))
        # A kernel that cannot be rTasks is refused later, when a stage needs it.
        with suppress(UnfusedError):
            rtasks[symbol] = compiler.footprint(symbol), compiler.rtasks(symbol)
    progress("making rTasks", len(forms.unit_symbols), len(forms.unit_symbols))
    device, code = compiler.device, {u: of_unit[-1].code for (u,), of_unit in forms.alone.items()}
    candidates = promising_stages(model.graph, model.blocks, device, model.pruning)
    fused: dict[str, FusedKernel] = {}
    stages: list[tuple[int, ...]] = []
    nbytes = 0
    for candidate in candidates:
        progress("compiling stages", len(fused), max_fused)
        if len(fused) >= max_fused or nbytes >= _FUSED_BYTES:
            break
        with suppress(UnfusedError):
            stage_kernel = _fused(model, candidate.twins[0], code)
            if stage_kernel.kernel.entry not in fused:
                nbytes += len(stage_kernel.cubin)
            fused[stage_kernel.kernel.entry] = stage_kernel
            stages += [stage.units for stage in candidate.twins]
    progress("compiling stages", max_fused, max_fused)
    figures = {
        entry: (kernel.registers, kernel.local_bytes, kernel.static_shared_bytes)
        for entry, kernel in ((entry, stage_kernel.kernel) for entry, stage_kernel in fused.items())
    }
    BundledRTasks(device, rtasks, figures, stages).save(folder)
    for entry, stage_kernel in fused.items():
        compiler.add(entry, stage_kernel.launchable)
    with temporary_folder() as room:
        compiler.export(room / "kernels", (*forms.symbols, *fused))
        # Machine code of GPUs shrinks to a fifth.
        packed = gzip.compress((room / "kernels").read_bytes(), mtime=0)
    (folder / KERNELS).write_bytes(packed)
    return {"kind": "cuda", "fused": len(fused)}


def _fused(model: ModelToBundle, stage: Stage, code: Mapping[int, UnitCode]) -> FusedKernel:
    """Return the kernel of a stage of default kernels, which serves any placement of them.

    It is placed by estimates. Raise UnfusedError if the stage has nothing to launch.
    """
    compiler, graph = model.backend.compiler, model.graph
    assert isinstance(compiler, CudaKernelCompiler)
    device, fuser = compiler.device, compiler.fuser
    assert fuser is not None, "CUDA kernels are fused"
    veus = fuser.lanes(code[unit] for unit in stage.units)

    def estimated(unit: int) -> tuple[RKernel, ...]:
        flops = graph.operators[unit].flops
        symbols = [call.symbol for call in code[unit].calls]
        return (rkernel("default", compiler.estimates(symbols, flops), device, veus),)

    program = co_schedule(graph, stage.units, estimated, veus)
    placed = replace(stage, placement=program.placement)
    fused = co_scheduled(graph, placed, code, compiler, device, model.parts).fused
    if fused is None:
        raise UnfusedError("the units of the stage have nothing to launch")
    return fused


def _glibc(*libraries: Path) -> str:
    """Return the newest version of glibc that some libraries need."""
    versions = {
        tuple(map(int, version.split(b".")))
        for library in libraries
        for version in re.findall(rb"GLIBC_([0-9]+\.[0-9]+)\x00", library.read_bytes())
    }
    return ".".join(map(str, max(versions, default=())))
