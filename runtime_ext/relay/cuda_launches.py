"""Read the CUDA kernels that functions of ``relay.build`` launch, after TVM's host-device split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm

from runtime_ext.cuda.machine_code.kernel import LaunchExtents, grid_and_block
from tvm_ios.errors import UserError
from tvm_ios.program.program import BufferType, PhaseCall


class RelayKernelError(UserError):
    """A function is not a sequence of CUDA kernel launches; the message is one sentence."""


@dataclass(frozen=True)
class KernelLaunch:
    """One launch of a kernel."""

    #: Name of the kernel's function in the generated source.
    kernel: str
    #: Numbers of the launching function's buffers, and after these of its scratch buffers.
    arguments: tuple[int, ...]

    grid: LaunchExtents
    block: LaunchExtents
    #: Dynamic shared memory of a block.
    shared_bytes: int


@dataclass(frozen=True)
class KernelLaunches:
    """All launches of a function in order, and the scratch buffers that connect them."""

    launches: tuple[KernelLaunch, ...]
    scratch: tuple[BufferType, ...] = ()

    def calls(self, symbol: str, buffers: int) -> tuple[PhaseCall, ...]:
        """Return the launches as phases of one tile each."""
        return tuple(PhaseCall(launch.kernel, 1, launch.arguments) for launch in self.launches)


def launches_of(module: tvm.IRModule) -> dict[str, KernelLaunches]:
    """Return the launches of each function of a module after the pass ``tir.SplitHostDevice``.

    There, functions of buffers call kernels, which take pointers. Raise RelayKernelError if a
    function does anything else.
    """
    functions = {variable.name_hint: f for variable, f in module.functions.items()}
    kernels = {name: f for name, f in functions.items() if not f.buffer_map}
    return {
        name: _Reader(name, function, kernels).read()
        for name, function in functions.items()
        if name not in kernels
    }


class _Reader:
    def __init__(self, name: str, function: Any, kernels: Mapping[str, Any]) -> None:
        self.name, self.body, self.kernels = name, function.body, kernels
        data = [function.buffer_map[parameter].data for parameter in function.params]
        self.number = {variable: place for place, variable in enumerate(data)}
        self.scratch: list[BufferType] = []

    def read(self) -> KernelLaunches:
        launches = tuple(map(self._launch, self._calls()))
        return KernelLaunches(launches, tuple(self.scratch))

    def _calls(self) -> Iterator[Any]:
        pending = [self.body]
        while pending:
            node = pending.pop()
            if isinstance(node, tvm.tir.SeqStmt):
                pending.extend(reversed(list(node.seq)))
            elif isinstance(node, tvm.tir.Allocate):
                self.number[node.buffer_var] = len(self.number)
                self.scratch.append(BufferType((_allocated_bytes(node),), "uint8"))
                pending.append(node.body)
            elif isinstance(node, tvm.tir.DeclBuffer | tvm.tir.AttrStmt):
                pending.append(node.body)
            elif isinstance(node, tvm.tir.Evaluate) and isinstance(node.value, tvm.tir.Call):
                yield node.value
            elif not isinstance(node, tvm.tir.Evaluate):
                raise self._refusal(f"has a {type(node).__name__} on the host")

    def _launch(self, call: Any) -> KernelLaunch:
        name = getattr(call.op, "name_hint", "")
        if name not in self.kernels:
            raise self._refusal(f"calls {name or call.op.name} on the host")
        if not all(argument in self.number for argument in call.args):
            raise self._refusal(f"gives {name} something that is no buffer")
        arguments = tuple(self.number[argument] for argument in call.args)
        grid, block, shared = _extents(self.kernels[name].body)
        return KernelLaunch(name, arguments, grid, block, shared)

    def _refusal(self, what: str) -> RelayKernelError:
        return RelayKernelError(
            f"{self.name} {what}, and a program for a GPU only launches kernels: leave this "
            "operator out of the model, or build it for a CPU"
        )


def _extents(kernel: Any) -> tuple[LaunchExtents, LaunchExtents, int]:
    """Return the grid, the block and the bytes of dynamic shared memory."""
    threads: dict[str, int] = {}
    shared: list[int] = []

    def visit(node: Any) -> None:
        if isinstance(node, tvm.tir.AttrStmt) and node.attr_key == "thread_extent":
            threads[str(node.node.thread_tag)] = int(node.value)
        elif isinstance(node, tvm.tir.Allocate) and _scope(node) == "shared.dyn":
            shared.append(_allocated_bytes(node))

    tvm.tir.stmt_functor.post_order_visit(kernel, visit)

    # TVM lays all of it into one block of memory later, which is not larger.
    return *grid_and_block(threads), sum(shared)


def _scope(node: Any) -> str:
    return node.buffer_var.type_annotation.storage_scope


def _allocated_bytes(node: Any) -> int:
    dtype = tvm.DataType(node.dtype)
    return prod(int(e) for e in node.extents) * ((dtype.bits * dtype.lanes + 7) // 8)
