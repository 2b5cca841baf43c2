"""What a unit is while it is cut into kernels: buffers, kernels, and what each variable holds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.relax_function import readers, results, static_shape
from runtime_ext.kernels.spec import Anchor, Encoding
from runtime_ext.units.kernel_draft import IMAGE, PLAIN, KernelDraft
from runtime_ext.units.values import (
    NHWC,
    Layout,
    Pending,
    Storage,
    Stored,
    Value,
    four,
    is_row_major,
    offset_in,
    physical_shape,
    run_in,
    strides_in,
)


class UnitDraft:
    """A unit while it is cut into kernels: its buffers, the kernels so far, its variables' values.

    Parameters
    ----------
    function
        The Relax function of the unit.
    layouts
        The layout of each data input and then of each output.
    in_place
        Which data inputs lie in the output of the unit's concatenation already.
    inline
        Whether kernels may activate what they read, which those of a library cannot.
    encodings
        As of :class:`runtime_ext.units.unit.UnitSource`.

    Attributes
    ----------
    storages
        The unit's buffers.
    drafts
        Its kernels, in the order in which they run.
    outputs
        The places in memory of its results.

    Raises
    ------
    ValueError
        If there is not a layout for each input and output.
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
            role = "input" if i < inputs else "constant"
            encoding = encodings[i] if i < inputs else None
            self._values[param] = self._new(
                role, i, static_shape(param.ty), str(param.ty.dtype), layout, encoding
            )
        for i, (var, item) in enumerate(returned):
            ty = var.ty if item is None else var.ty.fields[item]
            layout, encoding = layouts[inputs + i], encodings[inputs + i]
            home = self._new("output", i, static_shape(ty), str(ty.dtype), layout, encoding)
            self._homes.setdefault((var, item), home)
            self.outputs.append(home)

    def is_bound(self, var: Any) -> bool:
        """Whether the variable has a value."""
        return var in self._values

    def value_or_items(self, expr: Any) -> Value | list[Value]:
        """The value of a variable; of a tuple the value of each item."""
        return self._values[expr]

    def value(self, expr: Any) -> Value:
        """The value of a variable that is no tuple."""
        value = self._values[expr]
        assert not isinstance(value, list)
        return value

    def pieces(self, expr: Any) -> list[Value]:
        """The operands of a concatenation that another one is to write; else the value alone."""
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
        """Append a kernel; returns its number."""
        self.drafts.append(draft)
        return len(self.drafts) - 1

    def written(self, target: Stored, kernel: int) -> None:
        """Record that a kernel writes a buffer."""
        storage = self.storages[target.storage]
        storage.producer = max(storage.producer, kernel)

    def scratch(self, shape: tuple[int, ...], dtype: str = "float32", layout: str = "") -> Stored:
        """A new intermediate; images lie in NHWC unless a layout is given."""
        if not layout:
            layout = NHWC if len(shape) == 4 else ""
        return self._new("scratch", 0, shape, dtype, "" if layout == "plain" else layout)

    def weight(self, param: Any, shape: tuple[int, ...]) -> int:
        """A new storage for a packed form of a constant."""
        number = self.storages[self.constant(param)].number
        self.storages.append(Storage("constant", number, shape))
        return len(self.storages) - 1

    def constant(self, expr: Any) -> int:
        """The storage of a constant parameter, or -1 if the expression is none."""
        value = self._values.get(expr)
        if isinstance(value, Stored):
            storage = self.storages[value.storage]
            if storage.role == "constant" and storage.shape == value.shape and not value.offset:
                return value.storage
        return -1

    def in_place(self, value: Value) -> bool:
        """Whether the value is an input that lies in the output of the unit's concatenation."""
        if not isinstance(value, Stored):
            return False
        storage = self.storages[value.storage]
        return storage.role == "input" and storage.number in self._in_place

    def is_whole(self, value: Stored) -> bool:
        """True if a value is all of a buffer, its elements in their logical order and type."""
        storage = self.storages[value.storage]
        is_as_computed = storage.encoding is None and not value.offset
        return is_as_computed and storage.shape == value.shape and is_row_major(value)

    def home(self, var: Any) -> Stored | None:
        """The place in memory of a variable that is an output; None for others."""
        return self._homes.get((var, None))

    def only_reader(self, var: Any) -> tuple[Any, Any] | None:
        """The only binding (variable, expression) that reads a variable, if there is one."""
        bindings = self._readers.get(var, [])
        return bindings[0] if len(bindings) == 1 and (var, None) not in self._homes else None

    def axes(self, target: Stored) -> tuple[int, int, int, int]:
        """Grid axes that end with the one along which the target is contiguous."""
        if len(target.shape) == 4 and target.strides[1] == 1 and not is_row_major(target):
            return IMAGE
        return PLAIN

    def _new(
        self,
        role: str,
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
