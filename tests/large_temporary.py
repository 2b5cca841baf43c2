"""A kernel that calls TVM's runtime, because its temporary is too large for the stack."""

from __future__ import annotations

from tvm.script import tirx as T


@T.prim_func
def with_a_large_temporary(
    x: T.Buffer((2, 50), "float32"), y: T.Buffer((2, 50), "float32"), begin: T.int32, end: T.int32
):
    T.func_attr({"global_symbol": "curve", "tirx.noalias": True})
    large = T.alloc_buffer((50, 1000), "float32")
    for i in T.serial(end - begin):
        for j, k in T.grid(50, 1000):
            large[j, k] = x[begin + i, j]
        for j in T.serial(50):
            y[begin + i, j] = large[49 - j, 999]
