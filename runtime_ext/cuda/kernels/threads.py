"""A builder of CUDA kernels in TIR: blocks, threads, shared memory, registers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import tvm
from tvm import tirx

from runtime_ext.kernels.code import Code, Index, integer, sequence
from tvm_ios.costs.cuda_kernels.tile import THREADS


class ThreadCode(Code):
    """The code of each thread of a grid of ``blocks`` by ``threads``.

    Attributes ``block`` and ``thread`` are the indices of this block and thread.
    """

    def __init__(self, blocks: int, threads: int = THREADS) -> None:
        super().__init__()
        self.blocks, self.threads = blocks, threads
        self.block: Index = tirx.Var("block", "int32")
        self.thread: Index = tirx.Var("thread", "int32")

    def shared(self, name: str, elements: int) -> Any:
        """Allocate float32 memory shared by the block."""
        return self._allocate(name, elements, "float32", "shared")

    def registers(self, name: str, elements: int, dtype: str = "float32") -> Any:
        """Allocate memory of the thread: registers if all indices are known after unrolling."""
        return self._allocate(name, elements, dtype, "local")

    def accumulators(self, count: int, lanes: int, dtype: str = "float32") -> list[Any]:
        """Allocate registers; see :meth:`runtime_ext.kernels.code.Code.accumulators`."""
        return [self.registers(f"acc{i}", lanes, dtype) for i in range(count)]

    def synchronise(self) -> None:
        """Wait for all threads of the block, whose shared memory is visible afterwards."""
        self.append(tirx.Evaluate(tirx.call_intrin("int32", "tirx.tvm_storage_sync", "shared")))

    @contextmanager
    def unrolled(self, name: str, extent: int) -> Any:
        """Open a small loop that the CUDA compiler unrolls; its variable is 0 for extent 1."""
        if extent == 1:
            yield 0
            return
        var = tirx.Var(name, "int32")
        self._enter()
        yield var
        body = self._leave()
        # TVM itself would write a register tile's thousand products into the source.
        annotations = {"pragma_unroll_explicit": False}
        self.append(
            tirx.For(
                var, integer(0), integer(extent), tirx.ForKind.UNROLLED, body, None, annotations
            )
        )

    def kernel(self, buffers: Sequence[Any]) -> Any:
        """Return the statements as a PrimFunc of the buffers."""
        body = sequence(self._statements)
        for var, tag, extent in (
            (self.thread, "threadIdx.x", self.threads),
            (self.block, "blockIdx.x", self.blocks),
        ):
            axis = tirx.IterVar(tvm.ir.Range(0, extent), var, tirx.IterVar.ThreadIndex, tag)
            body = tirx.AttrStmt(axis, "thread_extent", integer(extent), body)
        return tirx.PrimFunc(list(buffers), body).with_attr("tirx.noalias", True)

    def _allocate(self, name: str, elements: int, dtype: str, scope: str) -> Any:
        buffer = tirx.decl_buffer((elements,), dtype, name, scope=scope)
        self.append(tirx.AllocBuffer(buffer))
        return buffer
