"""Code of a thread that reads values, evaluates expressions and stores them by statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tvm import tirx

from runtime_ext.cuda.kernels.threads import ThreadCode
from runtime_ext.kernels.code import Index, constant, load
from runtime_ext.kernels.expression import ACC, Access, Expr, emit, loads, reads_nothing
from runtime_ext.kernels.spec import Statement, accesses
from runtime_ext.kernels.statements import divide, element_offset
from runtime_ext.kernels.transcendental import Arithmetic, dividing
from tvm_ios.costs.cuda_kernels.tile import WIDE

#: A pixel: image, row, column.
Pixel = tuple[Index, Index, Index]


def pixel_at(code: ThreadCode, number: Index, grid: tuple[int, int, int]) -> Pixel:
    """Return image, row and column of the pixel of a number."""
    batch, height, width = grid
    line, column = divide(code, "line", number, width, batch * height)
    image, row = divide(code, "image", line, height, batch)
    return image, row, column


def is_wide(at: Access) -> bool:
    """Return whether four channels can be accessed at once, from any multiple of four."""
    *outer, inner = at.strides
    return inner in (0, 1) and (inner == 0 or not any(x % WIDE for x in (at.offset, *outer)))


def statement_width(statement: Statement) -> int:
    """Return how many channels a thread can store at once: four, or one."""
    fit = all(map(is_wide, accesses([statement]))) and statement.target.strides[3] == 1
    return WIDE if fit and statement.count % WIDE == 0 else 1


def fetch(buffer: Any, offset: Index) -> Any:
    """Load an element as float32."""
    value = load(buffer, offset, 1)
    return value if str(buffer.ty.dtype) == "float32" else tirx.Cast("float32", value)


def put(code: ThreadCode, buffer: Any, offset: Index, value: Any) -> None:
    """Store a float32 value, cast to the buffer's type."""
    dtype = str(buffer.ty.dtype)
    code.store(buffer, offset, value if dtype == "float32" else tirx.Cast(dtype, value), 1)


def fetch_wide(code: ThreadCode, name: str, buffer: Any, offset: Index, width: int) -> Any:
    """Load neighbouring elements into registers of the buffer's type."""
    values = code.registers(name, width, str(buffer.ty.dtype))
    code.store(values, 0, load(buffer, offset, width), width)
    return values


def store_statement(
    code: ThreadCode,
    buffers: Sequence[Any],
    statement: Statement,
    pixel: Pixel,
    channel: Index,
    acc: Callable[[Index], Any],
    width: int,
) -> None:
    """Evaluate a statement for neighbouring channels of a pixel, and store the results.

    ``channel`` is the first one, counted from the statement's first; ``acc`` returns the anchor's
    value of each. ``width`` is 1, or a width that :func:`statement_width` allows.
    """

    def place(access: Access) -> Index:
        return code.bind("at", element_offset(access, pixel, channel))

    target = statement.target
    if width == 1:
        value = evaluate(
            code, statement.value, acc(0), lambda a: fetch(buffers[a.buffer], place(a))
        )
        put(code, buffers[target.buffer], place(target), value)
        return
    fetched = {
        a: fetch_wide(code, "read", buffers[a.buffer], place(a), width if a.strides[3] else 1)
        for a in dict.fromkeys(loads(statement.value))
    }
    stored = code.registers("made", width, str(buffers[target.buffer].ty.dtype))
    with code.unrolled("j", width) as j:
        value = evaluate(
            code,
            statement.value,
            acc(j),
            lambda a: fetch(fetched[a], j if a.strides[3] else 0),
        )
        put(code, stored, j, value)
    code.store(buffers[target.buffer], place(target), load(stored, 0, width), width)


def evaluate(
    code: ThreadCode, expr: Expr, acc: Any, read: Callable[[Access], Any] | None = None
) -> Any:
    """Return the float32 value of an expression, which may only load if ``read`` is given."""
    if expr == ACC:
        return acc
    uses = Counter(part for whole in _distinct(expr) for part in whole if isinstance(part, tuple))

    def keep(value: Any) -> Any:
        # TVM writes a binding out wherever it is used.
        (register,) = code.accumulators(1, 1)
        code.store(register, 0, value, 1)
        return load(register, 0, 1)

    return emit(
        expr,
        acc,
        read or reads_nothing,
        dividing(
            partial(constant, lanes=1),
            keep if any(n > 1 for n in uses.values()) else lambda value: value,
        ),
        _FUNCTIONS,
    )


def _distinct(expr: Expr) -> set[Expr]:
    expressions: set[Expr] = set()

    def visit(part: Expr) -> None:
        if part in expressions or part[0] in ("acc", "const", "load"):
            return
        expressions.add(part)
        for operand in part[1:]:
            if isinstance(operand, tuple):
                visit(operand)

    visit(expr)
    return expressions


def _sigmoid(x: Any, of: Arithmetic) -> Any:
    return of.reciprocal(of.constant(1.0) + tirx.exp(of.constant(0.0) - x))


#: CUDA's own functions; the polynomials of our other kernels serve vectors of a CPU.
_FUNCTIONS: dict[str, Callable[[Any, Arithmetic], Any]] = {
    "exp": lambda x, _: tirx.exp(x),
    "tanh": lambda x, _: tirx.tanh(x),
    "erf": lambda x, _: tirx.erf(x),
    "sigmoid": _sigmoid,
}
