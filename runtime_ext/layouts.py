"""How tensors lie in memory: images between units with their channels innermost."""

from __future__ import annotations

from tvm_ios.graph import OpGraph

#: As the module says, and channels last.
AS_IS, NHWC = "", "NHWC"


def tensor_layouts(graph: OpGraph) -> tuple[str, ...]:
    """For each tensor of a graph of units its physical layout.

    Vectors along the channels serve convolutions of any kernel and stride, depthwise ones,
    pools and element-wise operators alike. Inputs and outputs of the graph stay as the model
    has them.
    """
    outside = {*graph.inputs, *graph.outputs}
    return tuple(
        NHWC if len(t.shape) == 4 and not t.constant and i not in outside else AS_IS
        for i, t in enumerate(graph.tensors)
    )
