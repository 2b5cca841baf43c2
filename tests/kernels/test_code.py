"""What is written by the vocabulary of kernels, as text."""

from __future__ import annotations

from functools import partial

import tvm
from tvm import tirx

from runtime_ext.cpu.kernels.pooling import pooling
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.x86 import AVX512
from runtime_ext.kernels.code import Code, load
from runtime_ext.kernels.expression import ACC, Access, Expr
from runtime_ext.kernels.spec import Encoded, Encoding, Pooling, Statement, Window

UNIT = AVX512
BYTES = Encoding("uint8", 128)


def test_memory_of_a_kernel_begins_with_a_cache_line() -> None:
    code = TileCode([(200,)], UNIT)
    with code.tiles(200) as tile:
        memory = code.on_stack(200)
        (result,) = code.buffers
        with code.loop("i", 0, 200) as i:
            code.store(memory, i, load(result, i, 1), 1)
        code.store(result, 0, load(memory, tile, 1), 1)
    function = code.kernel()[0].with_attr("global_symbol", "kernel")
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v4"})
    text = tvm.compile(tvm.IRModule({"kernel": function}), target).mod.inspect_source("ll")
    allocations = [line for line in text.splitlines() if "alloca [13 x <16 x float>]" in line]
    assert [line.partition(",")[2].split(",")[0].strip() for line in allocations] == ["align 64"]


def test_side_by_side_is_one_statement_of_each_in_turn() -> None:
    code = Code()
    buffer = tirx.decl_buffer((8,), "float32", "b")

    def write(first: int, count: int) -> None:
        for i in range(count):
            code.store(buffer, first + i, tirx.FloatImm("float32", 0.0), 1)

    code.side_by_side([partial(write, 0, 2), partial(write, 4, 3)])
    function = code.function([buffer], tirx.Var("begin", "int32"), tirx.Var("end", "int32"))
    assert [int(store.indices[0]) for store in function.body.seq] == [0, 4, 1, 5, 6]


def pool(value: Expr, result: Encoding) -> str:
    """The text of a 2x2 pool of bytes."""
    window = Window((4, 4), (2, 2), (2, 2), (2, 2), (0, 0), (1, 1))
    data, target = Access(0, 0, (256, 64, 16, 1)), Access(1, 0, (64, 32, 16, 1))
    buffers = Encoded((256,), BYTES), Encoded((64,), result)
    statement = Statement(value, target, 0, 16)
    spec = Pooling(buffers, "max", 1, window, 16, data, ACC, None, (statement,))
    return pooling(spec, UNIT)[0].script()


def test_the_largest_of_bytes_is_a_byte() -> None:
    assert "float32" not in pool(ACC, BYTES)


def test_other_pools_of_bytes_are_of_floats() -> None:
    assert "float32" in pool(ACC, Encoding("uint8", 0))
    assert "float32" in pool(("max", ACC, ("const", 0.0)), BYTES)
