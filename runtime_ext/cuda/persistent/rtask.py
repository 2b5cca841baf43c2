"""Rewrite a kernel as a function that a thread block of another kernel calls for one rTask.

A kernel's blocks are its rTasks (Rammer, section 4.1.4). After TVM's lowering, before it is printed
as C++, block and thread indices are replaced by expressions of an rTask's number and a linear
thread number. Its shared memory becomes pointers into an arena of the caller, so that operators
that run in turn use the same bytes. Its barriers become barriers of only the threads that it needs,
because the others have left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.build import split_host_device_mods

from runtime_ext.cuda.kernels.guard import guarded, is_barrier
from runtime_ext.cuda.machine_code.source import END_OF_PREFIX, cuda_target
from runtime_ext.cuda.persistent.rtask_function import BARRIER, RTaskFunction
from tvm_ios.devices.device import WARP

#: The largest alignment that TVM gives shared memory.
_ALIGNMENT = 128


def rtask_function(scheduled: Any, name: str, arch: str) -> RTaskFunction:
    """Rewrite a thread-bound PrimFunc as a function ``name`` of its rTasks.

    Raise ValueError if TVM makes several kernels of it, or its barriers allow no additional
    threads.
    """
    kernel = _lowered(scheduled, name, arch)
    body, bound = _unbound(kernel.body)
    task, thread = tirx.Var("task", "int32"), tirx.Var("thread", "int32")
    tasks, block_indices = _axes("blockIdx", bound, task)
    threads, thread_indices = _axes("threadIdx", bound, thread)
    padded = -(-threads // WARP) * WARP
    if padded > threads:
        body = guarded(body, thread < threads)
    body, shared = _in_arena(body)
    body = _rewritten(body, {**block_indices, **thread_indices}, padded)
    pointers = (pointer for pointer, _ in shared)
    function = tirx.PrimFunc([*kernel.params, *pointers, task, thread], body, attrs=kernel.attrs)
    # Not ``__restrict__``: the compiler would take buffers that are only read for constant and load
    # them through a cache that does not see other blocks' stores.
    function = function.with_attr({"calling_conv": 0, "tirx.noalias": False})
    called, code = _code(function, name, arch)
    parameter_number = {f"{p.name}_ptr": i for i, p in enumerate(scheduled.params)}
    if len(parameter_number) < len(scheduled.params):
        raise ValueError(f"two buffers of the kernel {name} have one name")
    offsets, total = [], 0
    for _, nbytes in shared:
        offsets.append(total)
        total += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
    return RTaskFunction(
        name=name,
        called=called,
        source=code,
        tasks=tasks,
        threads=padded,
        arguments=tuple(parameter_number[p.name] for p in kernel.params),
        shared=tuple(offsets),
        shared_bytes=total,
    )


def _lowered(scheduled: Any, name: str, arch: str) -> Any:
    """Return the kernel after TVM's passes, before it is printed as C++."""
    blocks: list[Any] = []
    tvm_ffi.structural_walk(scheduled.body, (tvm.s_tir.SBlock, blocks.append))
    pipeline: Any = tirx.get_tir_pipeline("s_tir" if blocks else "tirx")
    passes, _, finalize = pipeline
    target = cuda_target(arch)
    module = tvm.IRModule({name: scheduled.with_attr("global_symbol", name)})
    with target:
        module = passes(tirx.transform.BindTarget(target)(module))
        _, devices = split_host_device_mods(module)
        kernels = [f for device in devices.values() for f in finalize()(device).functions.values()]
    if len(kernels) != 1:
        raise ValueError(f"TVM made {len(kernels)} CUDA kernels of {name}; one was to come of it")
    return kernels[0]


def _unbound(body: Any) -> tuple[Any, dict[str, tuple[list[Any], int]]]:
    """Remove the bindings to blocks and threads; return the body, and each axis's extent.

    Each axis also has the variables that were bound to it.
    """
    bound: dict[str, tuple[list[Any], int]] = {}

    def attribute(node: Any) -> Any:
        if node.attr_key != "thread_extent":
            return node
        variables, _ = bound.setdefault(str(node.node.thread_tag), ([], int(node.value)))
        variables.append(node.node.var)
        return node.body

    return tvm_ffi.structural_map(body, (tirx.AttrStmt, attribute)), bound


def _axes(
    which: str, bound: Mapping[str, tuple[list[Any], int]], number: Any
) -> tuple[int, dict[Any, Any]]:
    """Return the number of blocks or threads, and each axis as an expression of their number."""
    indices: dict[Any, Any] = {}
    tags = [f"{which}.{axis}" for axis in "xyz" if f"{which}.{axis}" in bound]
    total, stride = prod(bound[tag][1] for tag in tags), 1
    for tag in tags:
        variables, extent = bound[tag]
        coordinate = number if stride == 1 else tirx.truncdiv(number, tirx.const(stride, "int32"))
        stride *= extent
        if stride < total:
            coordinate = tirx.truncmod(coordinate, tirx.const(extent, "int32"))
        for variable in variables:
            index = tirx.const(0, "int32") if extent == 1 else coordinate
            indices[variable] = index.astype(str(variable.ty.dtype))
    return total, indices


def _in_arena(body: Any) -> tuple[Any, list[tuple[Any, int]]]:
    """Make shared buffers parameters; return the body, and each buffer's pointer and bytes."""
    shared: list[tuple[Any, int]] = []

    def allocation(node: Any) -> Any:
        buffer = node.buffer
        if not str(buffer.scope()).startswith("shared"):
            return node
        dtype = tvm.DataType(str(buffer.dtype))
        pointed = tvm.ir.PointerType(tvm.ir.PrimType(str(dtype)), buffer.scope())
        pointer = tirx.Var(f"{buffer.name}_at_{len(shared)}", pointed)
        nbytes = prod(int(extent) for extent in buffer.shape) * dtype.bits * dtype.lanes // 8
        shared.append((pointer, nbytes))
        return tirx.DeclBuffer(buffer, data=pointer)

    return tvm_ffi.structural_map(body, (tirx.AllocBuffer, allocation)), shared


def _rewritten(body: Any, places: Mapping[Any, Any], threads: int) -> Any:
    """Return the body with indices substituted, and barriers of ``threads`` threads."""

    def variable(node: Any) -> Any:
        return next(
            (index for variable_of_axis, index in places.items() if variable_of_axis.same_as(node)),
            node,
        )

    def call(node: Any) -> Any:
        return tirx.call_extern("int32", BARRIER, threads) if is_barrier(node) else node

    return tvm_ffi.structural_map(body, [(tirx.Var, variable), (tvm.ir.Call, call)])


def _code(function: Any, name: str, arch: str) -> tuple[str, str]:
    """Return C++ of the functions that it calls (tensor-core instructions, say), and its own."""
    generate = tvm.get_global_func("target.build.cuda")
    module = tvm.IRModule({name: function.with_attr("global_symbol", name)})
    text = generate(module, cuda_target(arch)).inspect_source("cuda")
    code = text[text.index(END_OF_PREFIX) + len(END_OF_PREFIX) :]
    declared = rf'^extern "C" __device__ void {name}\('
    code = re.sub(rf"{declared}[^()]*\);\n", "", code, flags=re.MULTILINE)
    parts = re.split(declared, code, flags=re.MULTILINE)
    if len(parts) != 2 or "__syncthreads" in code or "__shared__" in code:
        raise ValueError(f"TVM did not make a function of rTasks of {name}")
    inlined = f"static __device__ __forceinline__ void {name}("
    return parts[0].strip(), f"{inlined}{parts[1].rstrip()}\n"
