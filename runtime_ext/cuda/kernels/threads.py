"""A vocabulary for writing CUDA kernels in TIR: blocks, threads, shared memory, registers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import tvm
from tvm import tirx

from runtime_ext.kernels.code import Code, Index, integer, sequence
from runtime_ext.kernels.cut import THREADS


class ThreadCode(Code):
    """What each thread of a grid of ``blocks`` by ``threads`` does.

    Attributes
    ----------
    block, thread
        Which one this is.
    """

    def __init__(self, blocks: int, threads: int = THREADS) -> None:
        super().__init__()
        self.blocks, self.threads = blocks, threads
        self.block: Index = tirx.Var("block", "int32")
        self.thread: Index = tirx.Var("thread", "int32")

    def shared(self, name: str, elements: int) -> Any:
        """Memory of the whole block."""
        return self._allocate(name, elements, "float32", "shared")

    def registers(self, name: str, elements: int, dtype: str = "float32") -> Any:
        """Memory of the thread: registers where all its indices are known after unrolling."""
        return self._allocate(name, elements, dtype, "local")

    def accumulators(self, count: int, lanes: int, dtype: str = "float32") -> list[Any]:
        """Registers of the thread; see :meth:`runtime_ext.kernels.code.Code.accumulators`."""
        return [self.registers(f"acc{i}", lanes, dtype) for i in range(count)]

    def synchronise(self) -> None:
        """Wait until all threads of the block are here and see each other's shared memory."""
        self.append(tirx.Evaluate(tirx.call_intrin("int32", "tirx.tvm_storage_sync", "shared")))

    @contextmanager
    def unrolled(self, name: str, extent: int) -> Any:
        """Statements for each value below a small extent, written out by the CUDA compiler."""
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
        """The statements as a PrimFunc of its buffers."""
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
