"""A unit before compilation: what it computes, and a plan that cuts it into kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm_ffi import StructuralKey

from runtime_ext.kernels.chain import Chained
from runtime_ext.kernels.generic import Generic, Scheduled
from runtime_ext.kernels.library_convolution import LibraryConvolution
from runtime_ext.kernels.packed_contraction import PackedKernel
from runtime_ext.kernels.spec import Encoding, Spec, extents
from runtime_ext.kernels.winograd_convolution import WinogradKernel
from runtime_ext.units.integers import Bounds
from runtime_ext.units.values import Layout, SliceLayout
from tvm_ios.program.compiled_unit import ConstantUse
from tvm_ios.program.program import BufferType

#: What a kernel computes, or a library in the place of one.
Workload = Spec | Chained | WinogradKernel | PackedKernel | Generic | Scheduled | LibraryConvolution


@dataclass(frozen=True)
class UnitSource:
    """What a unit computes and how its tensors lie in memory.

    Attributes
    ----------
    function
        A Relax function of high-level operators on NCHW images. Its attribute ``num_input``
        says how many leading parameters are data; the others are constants.
    layouts
        For each data input and then each output ``"NHWC"`` or ``""`` (as in the function), or
        which slice of a wider tensor it is.
    in_place
        Which data inputs of a concatenation lie in its output already.
    integers
        For each parameter the integers that it is known to hold; empty if nothing is known.
    encodings
        For each data input and then each output how it lies in memory; None for one that lies as
        the function has it. Empty if all do.
    """

    function: Any
    layouts: tuple[Layout, ...]
    in_place: frozenset[int] = frozenset()
    integers: tuple[Bounds | None, ...] = ()
    encodings: tuple[Encoding | None, ...] = ()

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Equal for units that have equal plans, whatever their variables are called."""
        function = StructuralKey(self.function)
        return function, self.layouts, self.in_place, self.integers, self.encodings

    @property
    def alone(self) -> UnitSource:
        """The unit if none of its tensors lay in a wider one, or encoded."""
        orders = (x.order if isinstance(x, SliceLayout) else x for x in self.layouts)
        return UnitSource(self.function, tuple(orders))


@dataclass(frozen=True)
class PlannedKernel:
    """A kernel of a unit and which of the unit's buffers its own buffers are."""

    spec: Workload
    buffers: tuple[int, ...]


@dataclass(frozen=True)
class UnitPlan:
    """A unit cut into kernels; buffers are data inputs, constants, outputs, scratch.

    ``tuned`` names what of it a tuning log has; ``name`` is the rKernel that a schedule has to name
    for it, see :class:`tvm_ios.program.compiled_unit.CompiledUnit`.

    Raises
    ------
    ValueError
        If a kernel of ours takes a buffer of another shape than the unit has: its code does not
        check.
    """

    inputs: tuple[BufferType, ...]
    constants: tuple[ConstantUse, ...]
    constant_types: tuple[BufferType, ...]
    outputs: tuple[BufferType, ...]
    scratch: tuple[BufferType, ...]
    kernels: tuple[PlannedKernel, ...]
    tuned: frozenset[str] = frozenset()
    name: str = ""

    def __post_init__(self) -> None:
        given = (*self.inputs, *self.constant_types, *self.outputs, *self.scratch)
        for kernel in self.kernels:
            if isinstance(kernel.spec, (Generic, Scheduled, LibraryConvolution)):
                continue
            shapes = [extents(shape) for shape in kernel.spec.buffers]
            if shapes != (of_unit := [given[b].shape for b in kernel.buffers]):
                name = type(kernel.spec).__name__
                raise ValueError(f"{name} takes buffers of {shapes}, and is given {of_unit}")
