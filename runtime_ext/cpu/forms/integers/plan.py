"""Contractions of integers in 8 or 16 bits: which fit, and the two kernels of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from runtime_ext.cpu.forms.integers.spec import IntegerContraction
from runtime_ext.cpu.forms.packs.plan import INT8, INT16, in_packs
from runtime_ext.cpu.forms.packs.spec import MatrixContraction, in_matrices
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.isa import BYTES
from runtime_ext.kernels.cutter import Cutter
from runtime_ext.kernels.expression import ACC, Expr
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.encodings import in_bytes
from runtime_ext.units.integers import RULES, Bounds
from runtime_ext.units.placed import Placed
from runtime_ext.units.unit import FormKernel
from runtime_ext.units.values import Storage
from tvm_ios.program.constant_transform import channel_sums
from tvm_ios.program.program import Role

#: The largest factor in 16 bits and the largest sum in 32 bits, both signed.
_FACTOR, _SUM = 32767, 2**31 - 1
#: The largest signed number in 8 bits.
_SIGNED = 127


def by_integers(
    kernel: Placed[Contraction],
    bounds: Sequence[Bounds | None],
    space: VectorSpace,
    name: str,
    matrices: Cutter | None = None,
) -> list[Placed[FormKernel]] | None:
    """Return a kernel that narrows the data and one that multiplies integers, ``name`` their type.

    Return None if data or weights are not known to be small integers. ``kernel`` is not cut yet;
    the unit's storages gain the narrow data. ``bounds`` has the range of each parameter's integers.
    Data of 8 bits are shifted to be unsigned, and multiplied less 128 where instructions take
    signed ones; to correct ``(x + shift) * w``, sums begin with ``-shift * w``. ``matrices`` cuts
    for a processor that multiplies matrices of bytes.
    """
    spec = kernel.spec
    if not spec.has_known_channels:
        return None
    source, weight = kernel.storage(spec.data.buffer), kernel.storage(spec.weight)
    factors = _factors(spec, source, weight, bounds)
    if factors is None:
        return None
    products = space.isa.products[name]
    space = space.of_products(products)
    if name != BYTES:
        pack = replace(INT16, channels=products.channels)
        if spec.groups > 1 and spec.channels % pack.channels:
            return None
        before, pairs = in_packs(kernel, space, pack)
        return [*before, pairs.beside(IntegerContraction(pairs.spec), pairs.places)]
    (low, high), (least, most) = factors
    # Zeros around an image are data, too.
    encoding = in_bytes(low, high)
    if encoding is None or least < -_SIGNED - 1 or most > _SIGNED:
        return None
    of_matrices = matrices is not None and in_matrices(spec)
    cutter, pack = space, replace(INT8, channels=products.channels)
    if matrices is not None and of_matrices:
        cutter, pack = matrices, INT8
    if spec.groups > 1 and spec.channels % pack.channels:
        return None
    shape = weight.shape
    before, packed = in_packs(kernel, cutter, pack, encoding.shift, matrices=of_matrices)
    fours, places = packed.spec, packed.places
    shift = encoding.shift - (_SIGNED + 1 if products.signed and not of_matrices else 0)
    sums = channel_sums(shape, -shift, fours.parts, cutter.width(fours.blocking))
    starts = Storage(Role.CONSTANT, weight.number, sums.shape(shape), "int32", transform=sums)
    fours = replace(fours, buffers=(*fours.buffers, starts.shape))
    kind = MatrixContraction if of_matrices else IntegerContraction
    return [*before, kernel.beside(kind(fours, len(places)), (*places, kernel.add(starts)))]


def _factors(
    spec: Contraction, source: Storage, weight: Storage, bounds: Sequence[Bounds | None]
) -> tuple[Bounds, Bounds] | None:
    """Return the ranges of integer data and weights; None if unknown or not small enough."""
    if not bounds or source.role is not Role.INPUT or weight.role is not Role.CONSTANT:
        return None
    if weight.transform.steps:
        return None
    data = bounds[source.number]
    values = None if data is None else _after(spec.prologue, data)
    factors = bounds[weight.number]
    if values is None or factors is None:
        return None
    largest = [max(map(abs, pair)) for pair in (values, factors)]
    terms = spec.channels * prod(spec.window.kernel)
    fits = max(largest) <= _FACTOR and prod(largest) * terms <= _SUM
    return (values, factors) if fits else None


def _after(expr: Expr, value: Bounds) -> Bounds | None:
    """Return the range of integers after a prologue; None if its results are not integers."""
    if expr == ACC:
        return value
    if expr[0] == "const":
        number = float(expr[1])
        return (number, number) if number.is_integer() else None
    rule = RULES.get(_RULE_OF.get(expr[0], ""))
    if rule is None:
        return None
    operands = [_after(operand, value) for operand in expr[1:]]
    return None if None in operands else rule(*operands)


_RULE_OF = {
    "add": "relax.add",
    "max": "relax.maximum",
    "min": "relax.minimum",
    "sub": "relax.subtract",
}
