"""An AutoTVM task of a model, and the configuration that TVM chooses without a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.autotvm.task.space import FallbackConfigEntity

from runtime_ext.relay.tuning_log import BLOCK_KNOBS


@dataclass(frozen=True)
class AutotvmTask:
    """A tunable operator, once for all its occurrences in the model."""

    #: The name of the first unit, or of merged units joined by ``+``, that has it.
    name: str

    task: Any
    #: The number of times that a run of the model computes it.
    weight: int
    #: The number of merge candidates that it could compute.
    merged: int

    @property
    def flops(self) -> int:
        """Floating-point operations, as the template counts them."""
        return int(self.task.flop)

    @property
    def text(self) -> str:
        """The template's name and the shapes of its tensors, for people."""
        shapes = ["x".join(map(str, a[1])) for a in self.task.args if a and a[0] == "TENSOR"]
        return f"{self.task.name} {', '.join(shapes)}"


def default_index(task: Any) -> int | None:
    """Return the index in a task's space of the configuration that TVM takes without a log.

    Return None if the template's default is outside of the space that it defines.
    """
    default = FallbackConfigEntity()
    with task.target:
        task.instantiate(default)
    knob: list[int] = []
    for name, space in task.config_space.space_map.items():
        default_value = _value(default[name])
        places = [i for i, entity in enumerate(space.entities) if _value(entity) == default_value]
        if not places:
            return None
        knob.append(places[0])
    index = int(task.config_space.knob2point(knob))
    return index if task.config_space.is_index_valid(index) else None


def keep_layout(task: Any, default: int) -> None:
    """Restrict a task's space to the data layouts of TVM's default configuration.

    On CPUs a configuration determines the channel blocks that a convolution reads and writes.
    Between neighbours that differ data are transformed, which takes longer than most of these
    configurations save, and trials of a single operator do not measure it.
    """
    blocks = {
        name: _value(space.entities[knob])
        for (name, space), knob in zip(
            task.config_space.space_map.items(),
            task.config_space.point2knob(default),
            strict=True,
        )
        if name in BLOCK_KNOBS
    }
    if blocks:
        task.config_space.multi_filter(
            lambda entities: all(_value(entities[name]) == block for name, block in blocks.items())
        )


def free_layout(task: Any) -> None:
    """Remove the restriction that :func:`keep_layout` put on a task's space."""
    task.config_space.multi_filter(None)


def _value(entity: Any) -> Any:
    """Return an entity's choice: of a split all extents but the first, which follows from them."""
    if hasattr(entity, "size"):
        return tuple(entity.size[1:])
    return getattr(entity, "val", None) if hasattr(entity, "val") else repr(entity)
