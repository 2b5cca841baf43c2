"""Small ONNX graphs with a schedule each, which both dialects have to write the same way."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from relay_passes import MemorySchedule
from relay_passes.pipeline import apply_schedule, prepare
from tests.onnx_sketch import Sketch
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.units import form_units
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.schedule.instance_plan import InstancePlan, PlacedInstance, SplitSubGraph
from tvm_ios.schedule.schedule import UNROLLED_FROM, Schedule
from tvm_ios.schedule.stage import Stage, Strategy

#: The numbers of the units that a call computes, and its stage and group.
Place = tuple[tuple[int, ...], int, int]
#: The same with the units' names, as a dialect has them, joined by ``+``.
Call = tuple[str, int, int]


@dataclass(frozen=True)
class SharedGraph:
    """A model and how it is to be scheduled."""

    #: The ONNX model, which both dialects import.
    model: Any
    #: Of its units, by their numbers.
    kinds: tuple[str, ...]
    #: Of its schedule.
    stages: tuple[Stage, ...]
    #: Whether ``MemorySchedule`` has to find them, given the same stages in the units' order.
    by_memory: bool = False
    #: What the schedule runs in instances, of which ``main`` then calls the units.
    instances: InstancePlan | None = None

    def schedule(self, units: OpGraph) -> Schedule:
        """The schedule, for the units that a dialect formed."""
        without_instances = Schedule(units.fingerprint, self.stages, "by hand", batch=units.batch)
        return replace(without_instances, instances=self.instances)

    def scheduled(self, import_onnx: Callable[[Any], Any]) -> tuple[OpGraph, Any]:
        """The units and the scheduled module, by a dialect's importer."""
        prepared = prepare(import_onnx(self.model))
        schedule = self.schedule(prepared.units)
        if not self.by_memory:
            return prepared.units, apply_schedule(prepared, schedule)
        stages = tuple(sorted(self.stages, key=lambda stage: stage.mask))
        given = apply_schedule(prepared, replace(schedule, stages=stages))
        return prepared.units, MemorySchedule()(given)

    def attribute(self) -> dict[str, Any]:
        """What the module attribute has to say, told by the model alone; see :func:`unnamed`."""
        units = form_units(graph_from_onnx(self.model))
        return unnamed(json.dumps(self.schedule(units).to_json(units)))

    def require_units(self, units: OpGraph, attached: Any, calls: Sequence[Call]) -> None:
        """Units, the schedule and the calls are those of the model, in whichever dialect."""
        assert tuple(op.kind for op in units.operators) == self.kinds
        assert unnamed(json.dumps(attached)) == self.attribute()
        number = {op.name: i for i, op in enumerate(units.operators)}
        assert self.places() == [
            (tuple(number[name] for name in names.split("+")), stage, group)
            for names, stage, group in calls
        ]

    def require_unrolled(self, attached: Any) -> None:
        """The schedule of the units of instances says which one it was made of."""
        assert unnamed(json.dumps(attached[UNROLLED_FROM])) == self.attribute()

    def places(self) -> list[Place]:
        """The calls of ``main``, in order."""
        calls: list[Place] = []
        for number, stage in enumerate(self.stages):
            if stage.strategy is Strategy.MERGE:
                calls.append((tuple(unit for (unit,) in stage.groups), number, 0))
                continue
            for group, members in enumerate(stage.groups):
                calls += [((unit,), number, group) for unit in members]
        return calls


def unnamed(text: str) -> dict[str, Any]:
    """The JSON of a schedule without its units' names, which each importer invents."""
    schedule = json.loads(text)
    del schedule["units"]
    return schedule


def _concurrent(*groups: tuple[int, ...]) -> Stage:
    return Stage(Strategy.CONCURRENT, groups)


def _branches(*stages: Stage) -> SharedGraph:
    """A 3x3 and a 1x1 convolution of the input, concatenated."""
    sketch = Sketch(1, 3, 8, 8)
    wide = sketch.op("Relu", sketch.conv("x", 3, 4))
    narrow = sketch.op("Relu", sketch.conv("x", 3, 6, kernel=1))
    model = sketch.model(sketch.op("Concat", wide, narrow, axis=1))
    return SharedGraph(model, ("conv2d+relu", "conv2d+relu", "concat"), stages)


def _two_outputs() -> SharedGraph:
    """An output that two units read, whose results are outputs before and after it."""
    sketch = Sketch(1, 4, 8, 8)
    inner = sketch.op("Relu", sketch.conv("x", 4, 8))
    pool = sketch.op("MaxPool", inner, kernel_shape=[2, 2], strides=[2, 2])
    head = sketch.op("Sigmoid", sketch.conv(inner, 8, 2, kernel=1))
    return SharedGraph(
        sketch.model(pool, inner, head),
        ("conv2d+relu", "max_pool2d", "conv2d+sigmoid"),
        (_concurrent((0,)), _concurrent((2,), (1,))),
    )


def _residual() -> SharedGraph:
    """Two equal convolutions in a chain, the input added to them, and an element-wise operator."""
    sketch = Sketch(1, 4, 8, 8)
    y = "x"
    for _ in range(2):
        y = sketch.op("Relu", sketch.conv(y, 4, 4))
    return SharedGraph(
        sketch.model(sketch.op("Sigmoid", sketch.op("Add", y, "x"))),
        ("conv2d+relu", "conv2d+relu", "add+sigmoid"),
        tuple(_concurrent((unit,)) for unit in range(3)),
    )


def _wide_then_narrow() -> SharedGraph:
    """A branch of 16 channels, and one of 64 that ends in one, which had better run first."""
    sketch = Sketch(1, 3, 8, 8)
    first = sketch.op("Relu", sketch.conv("x", 3, 16))
    wide = sketch.op("Sigmoid", sketch.conv("x", 3, 64))
    joined = sketch.op("Concat", first, sketch.op("Tanh", sketch.conv(wide, 64, 1)), axis=1)
    return SharedGraph(
        sketch.model(sketch.op("Softmax", joined, axis=1)),
        ("conv2d+relu", "conv2d+sigmoid", "conv2d+tanh", "concat+softmax"),
        tuple(_concurrent((unit,)) for unit in (1, 2, 0, 3)),
        by_memory=True,
    )


def _stacked(batch: int) -> Any:
    """A model of two convolutions, one after another."""
    sketch = Sketch(batch, 3, 8, 8)
    inner = sketch.op("Relu", sketch.conv("x", 3, 4))
    return sketch.model(sketch.op("Relu", sketch.conv(inner, 4, 6)))


#: Rows of one image in two parts, the second one first.
SPLIT_GRAPH = SharedGraph(
    _stacked(1),
    ("conv2d+relu", "conv2d+relu"),
    tuple(_concurrent((unit,)) for unit in range(2)),
    instances=InstancePlan(
        (SplitSubGraph((0, 1), 2, (2,)),), (PlacedInstance(0, 1, 0), PlacedInstance(0, 0, 1))
    ),
)

#: Of two images, one of which takes 3,328 bytes at its peak.
PARTITIONED_MODEL, PARTITION_CAPACITY = _stacked(2), 3_328

SHARED_GRAPHS = {
    "concurrent": _branches(_concurrent((0,), (1,)), _concurrent((2,))),
    "merged": _branches(Stage(Strategy.MERGE, ((0,), (1,))), _concurrent((2,))),
    "sequential": _branches(*(_concurrent((unit,)) for unit in range(3))),
    "outputs": _two_outputs(),
    "residual": _residual(),
    "memory": _wide_then_narrow(),
}
