"""Cut a unit into kernels: an anchor each, with what is element-wise before and after it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod
from typing import Any

from tvm import relax

from runtime_ext.kernels.expression import (
    ACC,
    Access,
    windows,
)
from runtime_ext.kernels.spec import Anchor, Statement
from runtime_ext.tuning.tuning_log import TunedStep
from runtime_ext.units.draft import IMAGE, PLAIN, Draft
from runtime_ext.units.generic import Scheduled, copy_whole, generic_rule, leaves, opaque
from runtime_ext.units.relax_function import (
    is_float,
    operator_name,
    readers,
    results,
    static_shape,
    tensor_types,
)
from runtime_ext.units.rules import shuffle, views
from runtime_ext.units.rules.fusing import element_wise_rule
from runtime_ext.units.rules.rules import RULES
from runtime_ext.units.values import (
    NHWC,
    Interleaved,
    Layout,
    Lazy,
    Padded,
    Pending,
    Storage,
    Stored,
    Value,
    Widened,
    access,
    four,
    is_row_major,
    offset_in,
    physical_shape,
    run_in,
    strides_in,
)


class Planner:
    """The kernels of one unit, in the order in which they run."""

    def __init__(
        self,
        function: Any,
        layouts: Sequence[Layout],
        in_place: Collection[int] = (),
        steps: Mapping[Any, TunedStep] | None = None,
        *,
        inline: bool = True,
    ) -> None:
        """Plan a function.

        ``steps`` are scheduled functions that compute some variables. With ``inline`` kernels may
        activate what they read, which those of a library cannot.
        """
        self.function = function
        self._steps = steps or {}
        self.inline = inline
        self._in_place = in_place
        self.storages: list[Storage] = []
        self.drafts: list[Draft] = []
        self._values: dict[Any, Value | list[Value]] = {}
        self._homes: dict[tuple[Any, int | None], Stored] = {}
        self._outputs: list[Stored] = []
        self._readers = readers(function)
        self.inputs = int((function.attrs or {}).get("num_input", len(function.params)))
        returned = results(function)
        if len(layouts) != self.inputs + len(returned):
            raise ValueError(
                f"a unit with {self.inputs} inputs and {len(returned)} outputs "
                f"got {len(layouts)} layouts; give one for each"
            )
        for i, param in enumerate(function.params):
            layout = layouts[i] if i < self.inputs else ""
            role = "input" if i < self.inputs else "constant"
            self._values[param] = self._new(
                role, i, static_shape(param.ty), str(param.ty.dtype), layout
            )
        for i, (var, item) in enumerate(returned):
            ty = var.ty if item is None else var.ty.fields[item]
            home = self._new("output", i, static_shape(ty), str(ty.dtype), layouts[self.inputs + i])
            self._homes.setdefault((var, item), home)
            self._outputs.append(home)
        for block in function.body.blocks:
            for binding in block.bindings:
                self._bind(binding.var, binding.value)
        for i, (var, item) in enumerate(returned):
            self._finish_output(self._outputs[i], var, item)

    # What the rules use.

    def value(self, expr: Any) -> Value:
        """What is known about a variable of the unit."""
        value = self._values[expr]
        assert not isinstance(value, list)
        return value

    def pieces(self, expr: Any) -> list[Value]:
        """What a variable is joined of, if another concatenation is to write that; or itself."""
        value = self._values[expr]
        return value if isinstance(value, list) else [value]

    def stored(self, value: Value) -> Stored:
        """The value in memory; whatever was to compute it now also stores it."""
        if isinstance(value, Stored):
            return value
        if value.stored is None:
            if isinstance(value, Interleaved):
                value.stored = shuffle.store_interleaved(self, value)
            elif isinstance(value, (Padded, Widened)):
                value.stored = views.store_padded(self, value)
            else:
                plain = isinstance(value, Pending) and self.drafts[value.kernel].axes == PLAIN
                layout = "plain" if plain else ""
                target = value.home or self.scratch(value.shape, layout=layout)
                self.store(value, target)
                value.stored = target
        return value.stored

    def store(self, value: Lazy | Pending | Stored, target: Stored) -> None:
        """Write a value to a place of its shape (or of its number of elements, in order)."""
        if isinstance(value, Stored):
            read = access(value, value.shape)
            assert read is not None
            value = Lazy(("load", read), value.shape)
        if len(value.shape) > 4:
            value, target = _image(value, target)
        place = Access(target.storage, target.offset, four(target.strides, 0))
        if isinstance(value, Pending):
            draft = self.drafts[value.kernel]
            count = four(value.shape, 1)[draft.channel_axis]
            draft.statements.append(Statement(value.expr, place, value.begin, count))
            number = value.kernel
        else:
            extents, axes = four(value.shape, 1), self.axes(target)
            windowed = any(windows(value.expr))
            # One channel, or one pixel, lies in both orders.
            if windowed and len(target.shape) == 4 and target.strides[1] == 1:
                axes = IMAGE
            if windowed and axes != IMAGE:
                # A window lies along the vectors, or its edges would need a loop of their own.
                between = self.scratch(value.shape)
                self.store(value, between)
                self.store(between, target)
                return
            statement = Statement(value.expr, place, 0, extents[axes[3]])
            number = self.add(Draft(None, extents, axes, [statement]))
        storage = self.storages[target.storage]
        storage.producer = max(storage.producer, number)

    def add(self, draft: Draft) -> int:
        """Append a kernel; its number."""
        self.drafts.append(draft)
        return len(self.drafts) - 1

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
        """True for an input that lies where the unit's concatenation wants it."""
        if not isinstance(value, Stored):
            return False
        storage = self.storages[value.storage]
        return storage.role == "input" and storage.number in self._in_place

    def is_whole(self, value: Stored) -> bool:
        """True if a value is all of a buffer, with its elements in their logical order."""
        storage = self.storages[value.storage]
        return not value.offset and storage.shape == value.shape and is_row_major(value)

    def home(self, var: Any) -> Stored | None:
        """Where the unit's caller wants a variable, if it is an output."""
        return self._homes.get((var, None))

    def only_reader(self, var: Any) -> tuple[Any, Any] | None:
        """The only binding (variable, expression) that reads a variable, if there is one."""
        found = self._readers.get(var, [])
        return found[0] if len(found) == 1 and (var, None) not in self._homes else None

    def bind_anchor(
        self,
        var: Any,
        anchor: Anchor,
        axes: tuple[int, int, int, int],
        phases: tuple[int, int] = (1, 1),
    ) -> None:
        """Add a kernel with an anchor; its value is pending."""
        shape = static_shape(var.ty)
        number = self.add(Draft(anchor, four(shape, 1), axes, phases=phases))
        self._values[var] = Pending(number, ACC, shape, 0, self.home(var))

    def bind(self, var: Any, value: Value | list[Value]) -> None:
        """Record what is known about a variable."""
        if isinstance(value, list):
            for i, item in enumerate(value):
                if not isinstance(item, Stored) and item.home is None:
                    item.home = self._homes.get((var, i))
        self._values[var] = value

    # The walk.

    def _new(
        self, role: str, number: int, shape: tuple[int, ...], dtype: str, layout: Layout
    ) -> Stored:
        physical, run = physical_shape(shape, layout), run_in(shape, layout)
        self.storages.append(Storage(role, number, physical, dtype, run=run))
        strides, offset = strides_in(shape, layout), offset_in(shape, layout)
        return Stored(len(self.storages) - 1, shape, strides, offset, dtype)

    def _bind(self, var: Any, expr: Any) -> None:
        if var in self._values:
            return  # with what it was made of
        if isinstance(expr, relax.Var):
            self._values[var] = self._values[expr]
            return
        if isinstance(expr, relax.Tuple):
            self._values[var] = [self.value(field) for field in expr.fields]
            return
        if isinstance(expr, relax.TupleGetItem):
            items = self._values[expr.tuple_value]
            assert isinstance(items, list)
            value = items[expr.index]
            if not isinstance(value, Stored) and value.home is None:
                value.home = self.home(var)
            self._values[var] = value
            return
        if var in self._steps:
            step = self._steps[var]
            opaque(self, var, step.arguments, lambda s: Scheduled(step.function, s))
            return
        name = operator_name(expr)
        types = [*tensor_types(var.ty), *(leaf.ty for leaf in leaves(expr))]
        # A product may widen what it reads; TVM's lowering of buffers wants one axis at least.
        if all(is_float(ty) for ty in types) and not self._has_number(var, expr):
            if element_wise_rule(self, var, name, expr):
                return
            rule: Callable[[Planner, Any, Any], bool] | None = RULES.get(name)
            if rule is not None and rule(self, var, expr):
                return
        generic_rule(self, var, expr)

    def _has_number(self, var: Any, call: Any) -> bool:
        """Whether the result or a variable that is read has no axes."""
        read = (leaf for leaf in leaves(call) if isinstance(leaf, relax.Var))
        types = [*tensor_types(var.ty), *(leaf.ty for leaf in read)]
        return not all(static_shape(ty) for ty in types)

    def axes(self, target: Stored) -> tuple[int, int, int, int]:
        """Grid axes that end with the one along which the target is contiguous."""
        if len(target.shape) == 4 and target.strides[1] == 1 and not is_row_major(target):
            return IMAGE
        return PLAIN

    def _finish_output(self, wanted: Stored, var: Any, item: int | None) -> None:
        value = self._values[var]
        if item is not None:
            assert isinstance(value, list)
            value = value[item]
        assert not isinstance(value, list)
        have = self.stored(value)
        if have.storage != wanted.storage:
            self.copy(have, wanted)

    def copy(self, value: Stored, target: Stored) -> None:
        """Write a stored value to a second place."""
        if value.dtype != "float32":
            copy_whole(self, value, target)
            return
        if len(value.shape) > 4:
            whole = is_row_major(value) and is_row_major(target)
            value, target = (_in_few_axes(stored, whole) for stored in (value, target))
        self.store(value, target)


def _in_few_axes(value: Stored, whole: bool) -> Stored:
    """The same elements in the same order, with no more than four axes; with one if it is whole."""
    if whole:
        return Stored(value.storage, (1, 1, 1, prod(value.shape)), (0, 0, 0, 1), value.offset)
    # Views of more than four axes are images with extents of 1 between.
    axes = [(e, s) for e, s in zip(value.shape, value.strides, strict=True) if e != 1]
    assert len(axes) <= 4
    shape, strides = (tuple(numbers) for numbers in zip(*axes, strict=True))
    return Stored(value.storage, shape, strides, value.offset)


def _image(value: Lazy | Pending, target: Stored) -> tuple[Lazy, Stored]:
    """An image with an axis of extent 1 after the batch, as an image."""
    assert isinstance(value, Lazy)
    assert len(value.shape) == 5
    shape = (value.shape[0], *value.shape[2:])
    strides = (target.strides[0], *target.strides[2:])
    return Lazy(value.expr, shape), Stored(target.storage, shape, strides, target.offset)
