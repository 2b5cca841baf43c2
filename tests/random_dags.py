"""Random graphs of units, as predecessor masks and as operator graphs."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.rammer.rprogram import RProgram
from tvm_ios.rammer.wavefront import co_schedule, with_placements
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage


@st.composite
def dags(draw: st.DrawFn, most: int = 8) -> tuple[int, ...]:
    """Predecessor masks of one to so many units in topological order; dense and sparse ones."""
    units = draw(st.integers(1, most))
    masks: list[int] = []
    for unit in range(units):
        mask = draw(st.integers(0, (1 << unit) - 1))
        if draw(st.booleans()):
            mask &= draw(st.integers(0, (1 << unit) - 1))
        masks.append(mask)
    return tuple(masks)


def all_on_one_lane(graph: OpGraph, schedule: Schedule) -> Schedule:
    """Placements for what is co-scheduled, so that the schedule can be validated."""
    kernel = RKernel("k", (1,), (1.0,), 1.0)

    def program(stage: Stage) -> RProgram:
        return co_schedule(graph, stage.units, lambda _: (kernel,), lanes=1)

    return with_placements(schedule, program, lambda _: (kernel,))


def graph_of(predecessors: Sequence[int], kinds: Sequence[str] | None = None) -> OpGraph:
    """One unit a number; units without predecessors read the graph's input."""
    tensors = [Tensor("input", (1, 4))]
    operators: list[Operator] = []
    for unit, mask in enumerate(predecessors):
        tensors.append(Tensor(f"t{unit}", (1, 4)))
        operators.append(
            Operator(
                name=f"u{unit}",
                kind=kinds[unit] if kinds else "conv2d",
                inputs=tuple(p + 1 for p in bits(mask)) or (0,),
                outputs=(unit + 1,),
                flops=8,
            )
        )
    read = {t for op in operators for t in op.inputs}
    return OpGraph(
        name="random",
        operators=tuple(operators),
        tensors=tuple(tensors),
        inputs=(0,),
        outputs=tuple(t for t in range(1, len(tensors)) if t not in read),
    )
