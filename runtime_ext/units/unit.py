"""A unit before compilation: its function, and a plan that cuts it into kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from tvm_ffi import StructuralKey

from runtime_ext.kernels.chain import Chained
from runtime_ext.kernels.generic import Generic, Scheduled
from runtime_ext.kernels.library_convolution import LibraryConvolution
from runtime_ext.kernels.relax_function import static_shape
from runtime_ext.kernels.spec import Encoding, PhysicalShape, Spec, extents
from runtime_ext.units.integers import Bounds
from runtime_ext.units.values import Layout, SliceLayout
from tvm_ios.program.compiled_unit import ConstantUse
from tvm_ios.program.program import BufferType
from tvm_ios.shapes.extent import symbols_in


class FormKernel(Protocol):
    """A kernel, as plain data, that only forms have; its form's folder has the writer."""

    @property
    def buffers(self) -> tuple[PhysicalShape, ...]:
        """Physical shapes of the function's buffers."""
        ...


#: The work of a kernel, or of a library call in its place.
Workload = Spec | Chained | FormKernel | Generic | Scheduled | LibraryConvolution


@dataclass(frozen=True)
class UnitSource:
    """The function of a unit, and how its tensors are stored."""

    #: A Relax function of high-level operators on NCHW images. Its attribute ``num_input`` says how
    #: many leading parameters are data; the others are constants.
    function: Any
    #: For each data input and then each output ``"NHWC"`` or ``""`` (as in the function), or its
    #: slice of a wider tensor.
    layouts: tuple[Layout, ...]
    #: The data inputs of a concatenation that are already inside its output.
    in_place: frozenset[int] = frozenset()
    #: For each parameter the range of integers that it holds, or None; empty if nothing is known.
    integers: tuple[Bounds | None, ...] = ()
    #: For each data input and then each output its encoding; None if it is stored as in the
    #: function. Empty if all are.
    encodings: tuple[Encoding | None, ...] = ()

    @cached_property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for units of equal plans, whatever their variables are called."""
        function = StructuralKey(self.function)
        # Functions that differ in the names of variables alone have one key, and other symbols.
        symbols = repr(self._shapes) if self.is_open else ""
        return function, symbols, self.layouts, self.in_place, self.integers, self.encodings

    @property
    def is_open(self) -> bool:
        """Whether extents of its tensors depend on the shape."""
        return bool(symbols_in(self._shapes))

    @property
    def _shapes(self) -> tuple[PhysicalShape, ...]:
        return tuple(static_shape(param.ty) for param in self.function.params)

    @property
    def alone(self) -> UnitSource:
        """Return the unit with each tensor stored by itself, in the function's data type."""
        orders = (x.order if isinstance(x, SliceLayout) else x for x in self.layouts)
        return UnitSource(self.function, tuple(orders))


@dataclass(frozen=True)
class PlannedKernel:
    """A kernel of a unit; ``buffers`` maps its buffers to the unit's."""

    spec: Workload
    buffers: tuple[int, ...]


@dataclass(frozen=True)
class UnitPlan:
    """A unit cut into kernels; buffers are data inputs, constants, outputs, scratch.

    ``tuned`` names the records of a tuning log that it uses; ``name`` is the rKernel by which a
    schedule selects it, see :class:`tvm_ios.program.compiled_unit.CompiledUnit`.

    Raises
    ------
    ValueError
        If the shape of a buffer differs between the unit and a kernel of ours, whose code does not
        check it.
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
