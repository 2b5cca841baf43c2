"""Generate CUDA C++, the launch and the parameters of a kernel's TIR; needs no GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from runtime_ext.cuda.machine_code.kernel import LaunchExtents, grid_and_block
from runtime_ext.cuda.machine_code.prelude import (
    AWAIT_EARLIER,
    CACHE_LINE,
    FETCH_WEIGHTS,
    PRELUDE,
    WEIGHTS,
)
from tvm_ios.devices.engine import launches_early
from tvm_ios.program.program import BufferType

#: The end of the prefix that TVM's code generator writes before the kernel's own code.
END_OF_PREFIX = "#define ushort unsigned short\n#endif\n"


@dataclass(frozen=True)
class GeneratedKernel:
    """CUDA C++ of one kernel, with fields as in ``CudaKernel``.

    See :class:`runtime_ext.cuda.machine_code.kernel.CudaKernel`.
    """

    entry: str
    source: str
    grid: LaunchExtents
    block: LaunchExtents
    parameters: tuple[BufferType, ...]
    written: tuple[int, ...]


@lru_cache
def cuda_target(arch: str) -> Any:
    """Return TVM's target of an architecture such as ``"sm_90"``."""
    return tvm.target.Target(
        {
            "kind": "cuda",
            "arch": arch,
            "max_threads_per_block": 1024,
            "max_shared_memory_per_block": 49152,
            "thread_warp_size": 32,
        },
        host={"kind": "llvm"},
    )


def generate(scheduled: Any, entry: str, arch: str, pipeline: str = "tirx") -> GeneratedKernel:
    """Generate CUDA C++ of a thread-bound PrimFunc, whose parameters are its buffers.

    ``pipeline`` names TVM's passes: ``"tirx"``, or ``"s_tir"`` for schedules of blocks. Raises
    ValueError if it does not become exactly one kernel, or uses dynamic shared memory.
    """
    module = tvm.IRModule({entry: scheduled.with_attr("global_symbol", entry)})
    built = tvm.tirx.build(module, target=cuda_target(arch), pipeline=pipeline)
    cuda_modules = [m for m in built.imports if m.kind == "cuda"]
    text = cuda_modules[0].inspect_source("cuda") if cuda_modules else ""
    names = re.findall(r"^extern \"C\" __global__ .*?(\w+)\([^()]*\) \{$", text, re.MULTILINE)
    if len(names) != 1:
        raise ValueError(f"TVM made {len(names)} CUDA kernels of {entry}; one was to come of it")
    if "extern __shared__" in text:
        raise ValueError(f"the CUDA kernel {entry} takes shared memory that its launch must give")
    code = text[text.index(END_OF_PREFIX) + len(END_OF_PREFIX) :]
    code = re.sub(r"^extern \"C\" __global__ .*\);\n", "", code, flags=re.MULTILINE)
    code = _with_all_parameters(re.sub(rf"\b{names[0]}\b", entry, code), entry, scheduled)
    grid, block = launch_extents(scheduled)
    parameters = tuple(
        BufferType(tuple(int(e) for e in p.ty.shape), str(p.ty.dtype)) for p in scheduled.params
    )
    if launches_early(arch):
        code = _awaiting(code, entry, parameters, scheduled.attrs.get(WEIGHTS))
    return GeneratedKernel(
        entry, PRELUDE + code, grid, block, parameters, written_parameters(scheduled)
    )


def launch_extents(scheduled: Any) -> tuple[LaunchExtents, LaunchExtents]:
    """Return the grid and the block that a function is bound to."""
    extents: dict[str, int] = {}

    def attribute(node: Any) -> None:
        if node.attr_key == "thread_extent":
            extents[str(node.node.thread_tag)] = int(node.value)

    def loop(node: Any) -> None:
        if node.thread_binding is not None:
            extents[str(node.thread_binding.thread_tag)] = int(node.extent)

    tvm_ffi.structural_walk(scheduled.body, [(tirx.AttrStmt, attribute), (tirx.For, loop)])
    return grid_and_block(extents)


def written_parameters(scheduled: Any) -> tuple[int, ...]:
    """Return the numbers of the parameters to which a function stores."""
    written: list[Any] = []
    tvm_ffi.structural_walk(
        scheduled.body, (tirx.BufferStore, lambda node: written.append(node.buffer))
    )
    return tuple(
        i for i, p in enumerate(scheduled.params) if any(p.same_as(buffer) for buffer in written)
    )


def _awaiting(code: str, entry: str, parameters: Sequence[BufferType], weights: int | None) -> str:
    """Return the code of a kernel that may be launched early; ``weights`` is of a parameter.

    What it reads may still be written when it begins, so nothing may be loaded through the cache of
    constants. The compiler does that only for parameters that do not alias.
    """
    signature = re.search(rf"\b{entry}\(([^()]*)\) \{{", code)
    assert signature is not None
    begins = f"{signature[0].replace('__restrict__ ', '')}\n  "
    if weights is not None:
        first = signature[1].split(",")[weights].split()[-1]
        lines = ceil(parameters[weights].nbytes / CACHE_LINE)
        begins += f"{FETCH_WEIGHTS.format(first=first, lines=lines)}\n  "
    begins += AWAIT_EARLIER
    return code[: signature.start()] + begins + code[signature.end() :]


def _with_all_parameters(code: str, entry: str, scheduled: Any) -> str:
    """Return the code with all parameters of the TIR function in order; TVM drops unused ones."""
    signature = re.search(rf"\b{entry}\(([^()]*)\) \{{", code)
    assert signature is not None
    declared = {p.split()[-1]: p.strip() for p in signature.group(1).split(",") if p.strip()}
    parameters = [
        declared.pop(f"{p.name}_ptr", f"const void* unused_{i}")
        for i, p in enumerate(scheduled.params)
    ]
    if declared:
        raise ValueError(f"TVM gave {entry} the parameters {', '.join(declared)} of its own")
    return f"{code[: signature.start(1)]}{', '.join(parameters)}{code[signature.end(1) :]}"
