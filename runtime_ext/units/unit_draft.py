"""The state of a unit being planned: buffers, kernels, and the value of each variable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from tvm import relax

from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.relax_function import readers, results, static_shape
from runtime_ext.kernels.spec import Anchor, Encoding
from runtime_ext.units.kernel_draft import IMAGE, PLAIN, KernelDraft
from runtime_ext.units.placed import Placed
from runtime_ext.units.unit import Workload
from runtime_ext.units.values import (
    NHWC,
    Layout,
    Pending,
    Storage,
    Stored,
    Value,
    four,
    in_vectors,
    is_row_major,
    offset_in,
    physical_shape,
    run_in,
    strides_in,
)
from tvm_ios.program.program import Role


class UnitDraft:
    """A unit being cut into kernels: its buffers, the kernels so far, its variables' values.

    ``layouts`` has one for each data input and then each output, else ValueError is raised;
    ``in_place`` are the data inputs that are already inside the output of the unit's concatenation.
    With ``inline`` kernels may apply an activation to their input, which a library's cannot.
    ``storages`` are the unit's buffers, ``drafts`` its kernels in the order in which they run,
    ``outputs`` the places in memory of its results.
    """

    def __init__(
        self,
        function: Any,
        layouts: Sequence[Layout],
        in_place: Collection[int],
        inline: bool,
        encodings: Sequence[Encoding | None] = (),
    ) -> None:
        self.function = function
        self.inline = inline
        self.storages: list[Storage] = []
        self.drafts: list[KernelDraft] = []
        self.outputs: list[Stored] = []
        self._in_place = in_place
        self._values: dict[Any, Value | list[Value]] = {}
        self._homes: dict[tuple[Any, int | None], Stored] = {}
        self._readers = readers(function)
        inputs = int((function.attrs or {}).get("num_input", len(function.params)))
        returned = results(function)
        if len(layouts) != inputs + len(returned):
            raise ValueError(
                f"a unit with {inputs} inputs and {len(returned)} outputs "
                f"got {len(layouts)} layouts; give one for each"
            )
        encodings = encodings or (None,) * len(layouts)
        for i, param in enumerate(function.params):
            layout = layouts[i] if i < inputs else ""
            role = Role.INPUT if i < inputs else Role.CONSTANT
            encoding = encodings[i] if i < inputs else None
            self._values[param] = self._new(
                role, i, static_shape(param.ty), str(param.ty.dtype), layout, encoding
            )
        for i, (var, item) in enumerate(returned):
            ty = var.ty if item is None else var.ty.fields[item]
            layout, encoding = layouts[inputs + i], encodings[inputs + i]
            home = self._new(Role.OUTPUT, i, static_shape(ty), str(ty.dtype), layout, encoding)
            self._homes.setdefault((var, item), home)
            self.outputs.append(home)

    def is_bound(self, var: Any) -> bool:
        """Return whether the variable has a value."""
        return var in self._values

    def value_or_items(self, expr: Any) -> Value | list[Value]:
        """Return the value of a variable; for a tuple the value of each item."""
        return self._values[expr]

    def value(self, expr: Any) -> Value:
        """Return the value of a variable that is no tuple."""
        value = self._values[expr]
        assert not isinstance(value, list)
        return value

    def pieces(self, expr: Any) -> list[Value]:
        """Return the operands of a concatenation deferred to its reader, else the value alone."""
        value = self.value_or_items(expr)
        return value if isinstance(value, list) else [value]

    def bind(self, var: Any, value: Value | list[Value]) -> None:
        """Record the value of a variable."""
        if isinstance(value, list):
            for i, item in enumerate(value):
                if not isinstance(item, Stored) and item.home is None:
                    item.home = self._homes.get((var, i))
        self._values[var] = value

    def bind_view(self, var: Any, value: Value) -> None:
        """Record that a variable is a view of a value, to be stored at the variable's home."""
        if not isinstance(value, Stored) and value.home is None:
            value.home = self.home(var)
        self.bind(var, value)

    def bind_anchor(
        self,
        var: Any,
        anchor: Anchor,
        axes: tuple[int, int, int, int],
        phases: tuple[int, int] = (1, 1),
    ) -> None:
        """Add a kernel with an anchor; its value is pending."""
        shape = static_shape(var.ty)
        number = self.add(KernelDraft(anchor, four(shape, 1), axes, phases=phases))
        self._values[var] = Pending(number, ACC, shape, 0, self.home(var))

    def add(self, draft: KernelDraft) -> int:
        """Append a kernel; return its number."""
        self.drafts.append(draft)
        return len(self.drafts) - 1

    def add_placed(
        self, spec: Workload, storages: Iterable[int], axes: tuple[int, int, int, int]
    ) -> int:
        """Append a complete kernel, whose buffers are these storages; return its number."""
        placed = Placed(spec, tuple(storages), self.storages)
        return self.add(KernelDraft(None, (1, 1, 1, 1), axes, placed=placed))

    def written(self, target: Stored, kernel: int) -> None:
        """Record that a kernel writes a buffer."""
        storage = self.storages[target.storage]
        storage.producer = max(storage.producer, kernel)

    def scratch(
        self, shape: tuple[int, ...], dtype: str = "float32", layout: Layout | None = None
    ) -> Stored:
        """Add an intermediate buffer; images lie in NHWC unless a layout is given."""
        if layout is None:
            layout = in_vectors(shape, NHWC if len(shape) == 4 else "")
        return self._new(Role.SCRATCH, 0, shape, dtype, layout)

    def weight(self, param: Any, shape: tuple[int, ...]) -> int:
        """Add a storage for a packed form of a constant; return its number."""
        number = self.storages[self.constant(param)].number
        self.storages.append(Storage(Role.CONSTANT, number, shape))
        return len(self.storages) - 1

    def constant(self, expr: Any) -> int:
        """Return the storage of a constant parameter, or -1 if the expression is none."""
        value = self._values.get(expr)
        if isinstance(value, Stored):
            storage = self.storages[value.storage]
            if storage.role is Role.CONSTANT and storage.shape == value.shape and not value.offset:
                return value.storage
        return -1

    def in_place(self, value: Value) -> bool:
        """Return whether a value is an input already inside the concatenation's output."""
        if not isinstance(value, Stored):
            return False
        storage = self.storages[value.storage]
        return storage.role is Role.INPUT and storage.number in self._in_place

    def is_whole(self, value: Stored) -> bool:
        """Return whether a value is all of a buffer, in logical order and not encoded."""
        storage = self.storages[value.storage]
        is_as_computed = storage.encoding is None and not value.offset
        return is_as_computed and storage.shape == value.shape and is_row_major(value)

    def home(self, var: Any) -> Stored | None:
        """Return the output buffer of a variable; None if it is no output."""
        return self._homes.get((var, None))

    def home_of_item(self, var: Any, item: int) -> Stored | None:
        """Return the output buffer of an item of a tuple; None if it is no output."""
        fields = (
            self.home(reader)
            for reader, expr in self._readers.get(var, [])
            if isinstance(expr, relax.TupleGetItem) and expr.index == item
        )
        found = next((home for home in fields if home is not None), None)
        return found or self._homes.get((var, item))

    def only_reader(self, var: Any) -> tuple[Any, Any] | None:
        """Return the only binding (variable, expression) that reads a variable, or None."""
        bindings = self._readers.get(var, [])
        return bindings[0] if len(bindings) == 1 and (var, None) not in self._homes else None

    def axes(self, target: Stored) -> tuple[int, int, int, int]:
        """Return grid axes that end with the one along which the target is contiguous."""
        if len(target.shape) == 4 and target.strides[1] == 1 and not is_row_major(target):
            return IMAGE
        return PLAIN

    def _new(
        self,
        role: Role,
        number: int,
        shape: tuple[int, ...],
        dtype: str,
        layout: Layout,
        encoding: Encoding | None = None,
    ) -> Stored:
        physical, run = physical_shape(shape, layout), run_in(shape, layout)
        there = dtype if encoding is None else encoding.dtype
        self.storages.append(Storage(role, number, physical, there, run=run, encoding=encoding))
        strides, offset = strides_in(shape, layout), offset_in(shape, layout)
        return Stored(len(self.storages) - 1, shape, strides, offset, dtype)
