"""A small vocabulary for writing TIR by hand: bindings, loops, branches, vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from math import ceil
from typing import Any

import tvm
from tvm import tirx

from runtime_ext.isa.isa import Estimate
from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.open_shapes import INDEX, prim_of_extent
from runtime_ext.kernels.spec import Encoding
from runtime_ext.kernels.transcendental import ROUNDING, Arithmetic, dividing
from tvm_ios.program.program import LINE
from tvm_ios.shapes.extent import Extent, Symbol, is_open, mapped

#: A Python int or an integer expression of TIR.
Index = Any
#: The least float32, with which a maximum begins.
LOWEST = -3.4028234663852886e38
#: The annotation of an allocation that TVM leaves on the stack.
ON_STACK = "disable_lower_builtin"
#: TIR has vectors of bfloat16 only in memory, so this function returns their bits.
_ROUND = """
define {bits} @{name}({floats} %value) {{
  %near = fptrunc {floats} %value to {halves}
  %bits = bitcast {halves} %near to {bits}
  ret {bits} %bits
}}
"""
#: TIR has no masked stores.
_STORE_FIRST = """
declare void @llvm.masked.store.v{lanes}f32.p0({floats}, ptr, i32, {bits})
define void @store_first_{lanes}(ptr %at, {bits} %mask, {floats} %value) {{
  call void @llvm.masked.store.v{lanes}f32.p0({floats} %value, ptr %at, i32 4, {bits} %mask)
  ret void
}}
"""


@dataclass(frozen=True, slots=True)
class EncodedBuffer:
    """A buffer whose elements are encoded; :func:`load` and :meth:`Code.store` make floats."""

    buffer: Any
    encoding: Encoding


class Code:
    """A sequence of TIR statements under construction.

    Statements are appended to one flat list; :meth:`loop` and :meth:`branch` open inner ones. The
    options tell which instructions exist: ``rounds`` one that rounds float32 to bfloat16,
    ``fuses`` a fused multiply-add, ``reciprocals`` those that estimate reciprocals of float32, by
    how many at once. ``index`` is the type of indices. The values of ``symbols`` are parameters;
    indices are then int64.
    """

    def __init__(
        self,
        *,
        rounds: bool = False,
        fuses: bool = False,
        reciprocals: Mapping[int, Estimate] | None = None,
        index: str = "int32",
        symbols: Sequence[Symbol] = (),
    ) -> None:
        self.index = INDEX if symbols else index
        self._scalars = {symbol.name: tirx.Var(symbol.name, INDEX) for symbol in symbols}
        self._extents: dict[Any, Any] = {}
        #: While it is set, store_statement stores so many elements of each vector.
        self.stored: Index | None = None
        self.fuses = fuses
        self._reciprocals = reciprocals or {}
        self._rounds = rounds
        self._statements: list[Any] = []
        self._open: list[list[Any]] = []
        self._imported: dict[str, None] = {}

    def append(self, statement: Any) -> None:
        """Add a statement."""
        self._statements.append(statement)

    def bind(self, name: str, value: Index) -> Index:
        """Give an index or a vector a name, so that it is computed once; an int needs none."""
        if isinstance(value, int):
            return value
        if isinstance(value, tirx.IntImm):
            # What TVM computed of ints has 32 bits, whatever the type of indices.
            return int(value)
        var = tirx.Var(name, value.ty)
        self.append(tirx.Bind(var, value))
        return var

    def extent(self, extent: int) -> Index:
        """Return an extent as an index; expressions are computed once, as the function begins."""
        if not isinstance(extent, Extent):
            return extent
        if extent.terms not in self._extents:
            value = prim_of_extent(extent, self._scalars)
            self._extents[extent.terms] = tirx.Bind(tirx.Var("extent", INDEX), value)
        return self._extents[extent.terms].var

    def access(self, access: Access) -> Access:
        """Return an access whose offset and strides are indices."""
        return mapped(access, self.extent) if self._scalars else access

    def keep(self, value: Any, lanes: int) -> Any:
        """Compute a float32 vector once, however often it is used.

        TVM's simplifier inlines bindings wherever they are used, so that the polynomials of an
        exponential would grow a thousandfold; a local buffer is not inlined and becomes a register
        as well.
        """
        (buffer,) = self.accumulators(1, lanes)
        self.store(buffer, 0, value, lanes)
        return load(buffer, 0, lanes)

    def keep_index(self, value: Index) -> Index:
        """Compute an index once, however often it is used; see :meth:`keep`."""
        (buffer,) = self.accumulators(1, 1, self.index)
        self.store(buffer, 0, integer(value, self.index), 1)
        return load(buffer, 0, 1)

    def arithmetic(self, lanes: int) -> Arithmetic:
        """Return the operations on float32 vectors of ``lanes`` lanes."""
        number, keep = partial(constant, lanes=lanes), partial(self.keep, lanes=lanes)
        if lanes not in self._reciprocals:
            return dividing(number, keep)
        return Arithmetic(number, keep, partial(self._reciprocal, lanes=lanes))

    def _reciprocal(self, value: Any, lanes: int) -> Any:
        """Return reciprocals of normal numbers, to a unit in the last place, without a division."""
        name, is_masked = self._reciprocals[lanes]
        operands = (value, tirx.IntImm("uint16", 0xFFFF)) if is_masked else ()
        estimate = self.keep(tirx.call_llvm_pure_intrin(value.ty, name, value, *operands), lanes)
        rest = self.keep(constant(1.0, lanes) - value * estimate, lanes)
        return estimate * rest + estimate

    def accumulators(self, count: int, lanes: int, dtype: str = "float32") -> list[Any]:
        """Allocate vectors that stay in registers.

        One buffer each: TVM moves a local buffer of 1 KiB or more from the stack to the heap.
        """
        buffers = [tirx.decl_buffer((lanes,), dtype, f"acc{i}") for i in range(count)]
        for buffer in buffers:
            self.append(tirx.AllocBuffer(buffer))
        return buffers

    def on_stack(self, elements: int) -> Any:
        """Allocate memory of any size, aligned to a cache line, on the stack for one call.

        TVM would allocate it from its runtime, which kernels must not depend on.
        """
        # Only memory that consists of such vectors is aligned to more than 16 bytes; a vector
        # across two cache lines takes twice as long.
        lines = ceil(elements / LINE)
        memory = tirx.decl_buffer((lines,), f"float32x{LINE}", "tile_memory")
        buffer = tirx.decl_buffer((lines * LINE,), "float32", "tile_memory", data=memory.data)
        self.append(tirx.AllocBuffer(memory, {ON_STACK: tirx.IntImm("bool", 1)}))
        self.append(tirx.DeclBuffer(buffer, data=memory.data))
        return buffer

    def store(
        self,
        buffer: Any,
        offset: Index,
        value: Any,
        lanes: int,
        stride: Index = 1,
        *,
        nearest: bool = False,
    ) -> None:
        """Store a vector at an element of a buffer; ``nearest`` rounds to integers."""
        if isinstance(buffer, EncodedBuffer):
            value = self.encoded(value, lanes, buffer.encoding, nearest=nearest)
            buffer = buffer.buffer
        self.append(tirx.BufferStore(buffer, value, element(buffer, vector(offset, lanes, stride))))

    def store_first(
        self,
        count: Index,
        buffer: Any,
        offset: Index,
        value: Any,
        lanes: int,
        stride: Index = 1,
        *,
        nearest: bool = False,
    ) -> None:
        """Store the first ``count`` elements of a vector; see :meth:`store`."""
        if not isinstance(buffer, EncodedBuffer) and isinstance(stride, int) and stride == 1:
            bits, floats = (f"<{lanes} x {kind}>" for kind in ("i1", "float"))
            self.import_llvm(_STORE_FIRST.format(lanes=lanes, bits=bits, floats=floats))
            place = tirx.address_of(tirx.BufferLoad(buffer, element(buffer, integer(offset))))
            mask = first_lanes(count, lanes)
            name = f"store_first_{lanes}"
            self.append(tirx.Evaluate(tirx.call_extern("void", name, place, mask, value)))
            return
        (kept,) = self.accumulators(1, lanes)
        self.store(kept, 0, value, lanes)
        for lane in range(lanes):
            with self.branch(lane < count):
                one = load(kept, lane, 1)
                self.store(buffer, offset + lane * stride, one, 1, nearest=nearest)

    def encoded(self, value: Any, lanes: int, encoding: Encoding, *, nearest: bool = False) -> Any:
        """Convert floats to a buffer's encoding; ``nearest`` rounds them to integers first."""
        if encoding.numbers == "bfloat16":
            return self.rounded(value, lanes)
        if nearest:
            # After adding ROUNDING, the unit in the last place is one: the float's last bits are
            # the integer's. Ties go to the even integer, so an odd shift is added afterwards.
            even = encoding.shift if encoding.shift % 2 == 0 else 0
            bits = tirx.reinterpret(
                vector_type("uint32", lanes), value + constant(ROUNDING + even, lanes)
            )
            if encoding.shift != even:
                bits = bits + broadcast(tirx.IntImm("uint32", encoding.shift), lanes)
            return tirx.Cast(vector_type(encoding.dtype, lanes), bits)
        if encoding.shift:
            value = value + constant(float(encoding.shift), lanes)
        return tirx.Cast(vector_type(encoding.dtype, lanes), value)

    def rounded(self, value: Any, lanes: int) -> Any:
        """Return the bits of the nearest bfloat16 of floats, ties to even.

        If an instruction does it, subnormal numbers become zeros.
        :func:`tvm_ios.program.bfloat16.bfloat16_bits` does the same with arrays.
        """
        if not self._rounds:
            return _rounded(value, lanes)
        name = f"round_to_bfloat16_{lanes}"
        one = lanes == 1
        types = (t if one else f"<{lanes} x {t}>" for t in ("i16", "float", "bfloat"))
        bits, floats, halves = types
        self.import_llvm(_ROUND.format(name=name, bits=bits, floats=floats, halves=halves))
        return tirx.call_pure_extern(vector_type("uint16", lanes), name, value)

    @contextmanager
    def loop(self, name: str, begin: Index, end: Index) -> Any:
        """Open a loop over ``[begin, end)``; the statements of the ``with`` block are its body."""
        var = tirx.Var(name, self.index)
        self._enter()
        yield var
        body = self._leave()
        first, extent = integer(begin, self.index), integer(end - begin, self.index)
        self.append(tirx.For(var, first, extent, tirx.ForKind.SERIAL, body))

    @contextmanager
    def branch(self, condition: Any) -> Any:
        """Open a branch: the statements run only if a condition holds; None stands for true."""
        if condition is None:
            yield
            return
        self._enter()
        yield
        self.append(tirx.IfThenElse(condition, self._leave(), None))

    def blocks(
        self, block: Index, extent: int, size: int, write: Callable[[Index, Index], None]
    ) -> None:
        """Write statements for one block of a range, of which the last may be shorter.

        ``block`` is the block's number, ``extent`` the range's elements, ``size`` those of a whole
        block; ``write`` is given the block's begin and size, of an open range an expression.
        """
        if is_open(extent):
            begin = self.bind("begin", block * size)
            write(begin, self.bind("count", tirx.min(size, self.extent(extent) - begin)))
            return
        last = -(-extent // size) - 1
        last_size = extent - last * size
        if last_size == size or not last:
            write(block * size if last else 0, last_size)
            return
        with self.branch(block < last):
            write(block * size, size)
        with self.branch(equal(block, last)):
            write(last * size, last_size)

    def steps(
        self, name: str, count: Index, step: int, write: Callable[[Index, int], None]
    ) -> None:
        """Write a loop over a range by ``step`` elements; ``write`` gets the first and how many."""
        whole = count // step if isinstance(count, int) else tirx.floordiv(count, step)
        with self.loop(name, 0, whole) as i:
            write(i * step, step)
        if not isinstance(count, int):
            if step > 1:
                with self.loop(name, whole * step, count) as i:
                    write(i, 1)
        elif count % step:
            write(whole * step, count % step)

    def side_by_side(self, writers: Iterable[Callable[[], None]]) -> None:
        """Interleave the statements of several independent writers: one of each in turn.

        A processor looks ahead some hundred instructions. In long sequences one after another it
        finds too few that need not wait for the one before.
        """
        sequences: list[list[Any]] = []
        for write in writers:
            self._enter()
            write()
            sequences.append(self._left())
        for statements in zip_longest(*sequences):
            self._statements += (statement for statement in statements if statement is not None)

    def vectors(self, count: int, lanes: int, write: Callable[[Index, int], None]) -> None:
        """Write statements for each vector of ``count`` elements: its begin, and its width."""
        if count >= lanes:
            with self.loop("c", 0, count // lanes) as c:
                write(c * lanes, lanes)
        if remainder := count % lanes:
            write(count - remainder, remainder)

    def fetch(self, buffer: Any, at: Index) -> None:
        """Prefetch a cache line to the second level; it may lie outside of the buffer."""
        place = tirx.address_of(tirx.BufferLoad(buffer, element(buffer, integer(at))))
        # The arguments of a prefetch of data for reading, into the second level.
        arguments = (tirx.IntImm("int32", n) for n in (0, 2, 1))
        self.append(tirx.Evaluate(tirx.call_intrin("void", "tirx.prefetch", place, *arguments)))

    def import_llvm(self, text: str) -> None:
        """Define functions for ``tirx.call_pure_extern`` by LLVM IR, which are inlined.

        For instructions whose types TIR lacks.
        """
        self._imported[text] = None

    def function(self, buffers: Sequence[Any], begin: Any, end: Any) -> Any:
        """Return the statements as a PrimFunc of its buffers, the symbols and a tile range."""
        body = sequence([*self._extents.values(), *self._statements])
        if self._imported:
            text = tvm.ir.StringImm("".join(self._imported))
            body = tirx.AttrStmt(integer(0), "pragma_import_llvm", text, body)
        function = tirx.PrimFunc([*buffers, *self._scalars.values(), begin, end], body)
        return function.with_attr("tirx.noalias", True)

    def _enter(self) -> None:
        self._open.append(self._statements)
        self._statements = []

    def _left(self) -> list[Any]:
        inner, self._statements = self._statements, self._open.pop()
        return inner

    def _leave(self) -> Any:
        return sequence(self._left())


def is_in_bytes(buffer: Any) -> bool:
    """Return whether a buffer holds the integers of a quantised model."""
    return isinstance(buffer, EncodedBuffer) and buffer.encoding.numbers != "bfloat16"


def load(buffer: Any, offset: Index, lanes: int, stride: Index = 1) -> Any:
    """Read a vector; stride 0 repeats one element."""
    if isinstance(buffer, EncodedBuffer):
        if is_number(stride, 0):
            return broadcast(load(buffer, offset, 1), lanes)
        return _decoded(load(buffer.buffer, offset, lanes, stride), lanes, buffer.encoding)
    if lanes == 1:
        return tirx.BufferLoad(buffer, element(buffer, integer(offset)))
    if is_number(stride, 0):
        return broadcast(tirx.BufferLoad(buffer, element(buffer, integer(offset))), lanes)
    return tirx.BufferLoad(buffer, element(buffer, vector(offset, lanes, stride)))


def element(buffer: Any, offset: Any) -> list[Any]:
    """Return the indices of an element counted from the start of the buffer, whatever its shape."""
    rank = len(buffer.ty.shape)
    return [integer(0)] * (rank - 1) + [offset] if rank else []


def vector(offset: Index, lanes: int, stride: Index = 1) -> Any:
    """Return the indices of a vector's elements."""
    first = integer(offset)
    if lanes == 1:
        return first
    return tirx.Ramp(first, integer(stride, str(first.ty.dtype)), integer(lanes))


def constant(value: float, lanes: int) -> Any:
    """Return a number in every lane."""
    return broadcast(tirx.FloatImm("float32", value), lanes)


def number(count: Index) -> Any:
    """Return a count as a float."""
    if isinstance(count, int):
        return tirx.FloatImm("float32", float(count))
    return tirx.Cast("float32", count)


def broadcast(value: Any, lanes: int) -> Any:
    """Return a scalar in every lane."""
    return value if lanes == 1 else tirx.Broadcast(value, integer(lanes))


def lanes_of(value: Any) -> int:
    """Return the lanes of a vector; 1 of a number."""
    return int(tvm.DataType(str(value.ty.dtype)).lanes)


def equal(a: Index, b: Index) -> Any:
    """Return the condition that two indices are the same."""
    dtype = next((str(index.ty.dtype) for index in (a, b) if not isinstance(index, int)), "int32")
    return tirx.EQ(integer(a, dtype), integer(b, dtype))


def widths(count: int, lanes: int) -> list[int]:
    """Return the widths of the vectors that hold ``count`` elements; the last may be shorter."""
    return [min(lanes, count - at) for at in range(0, count, lanes)]


def low_lanes(value: Any, lanes: int, of: int) -> Any:
    """Return the first ``lanes`` of the vector's ``of`` lanes."""
    if lanes == of:
        return value
    return tirx.Shuffle([value], [integer(i) for i in range(lanes)])


def first_lanes(count: Index, lanes: int) -> Any:
    """Return the condition of each lane of a vector to be one of the first ``count``."""
    # Numbers of 32 bits fill as many lanes of a register as floats do.
    return vector(0, lanes) < broadcast(tirx.Cast("int32", count), lanes)


def shuffle(vectors: Sequence[Any], places: Sequence[int]) -> Any:
    """Return the elements at these places of the concatenated vectors."""
    if len(places) == lanes_of(vectors[0]) == 1:
        return vectors[places[0]]
    return tirx.Shuffle(list(vectors), [integer(place) for place in places])


def sequence(statements: list[Any]) -> Any:
    """Combine statements into one."""
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)


def vector_type(dtype: str, lanes: int) -> str:
    """Return the type of a vector, or of one element."""
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def _rounded(value: Any, lanes: int) -> Any:
    def number(bits: int) -> Any:
        return broadcast(tirx.IntImm("uint32", bits), lanes)

    bits = tirx.reinterpret(vector_type("uint32", lanes), value)
    upper = tirx.shift_right(bits, number(16))
    near = tirx.shift_right(bits + number(0x7FFF) + tirx.bitwise_and(upper, number(1)), number(16))
    is_nan = tirx.bitwise_and(bits, number(0x7FFFFFFF)) > number(0x7F800000)
    chosen = tirx.Select(is_nan, tirx.bitwise_or(upper, number(0x40)), near)
    return tirx.Cast(vector_type("uint16", lanes), chosen)


def _decoded(value: Any, lanes: int, encoding: Encoding) -> Any:
    """Convert encoded elements to floats."""
    floats = vector_type("float32", lanes)
    if encoding.numbers == "bfloat16":
        bits = tirx.Cast(vector_type("uint32", lanes), value)
        upper = tirx.shift_left(bits, broadcast(tirx.IntImm("uint32", 16), lanes))
        return tirx.reinterpret(floats, upper)
    value = tirx.Cast(floats, value)
    return value - constant(float(encoding.shift), lanes) if encoding.shift else value


def integer(value: Index, dtype: str = "int32") -> Any:
    """Return an index as TIR; ``dtype`` is the type of a number."""
    return tirx.IntImm(dtype, value) if isinstance(value, int) else value


def is_number(index: Index, value: int) -> bool:
    """Return whether an index is surely this number."""
    return isinstance(index, int) and index == value
