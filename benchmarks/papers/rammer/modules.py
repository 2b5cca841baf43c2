"""The cells of NAS-Bench-101 as graphs of units, without the weights that an ONNX model has."""

from __future__ import annotations

from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.zoo.cells.nasbench import Cell, vertex_channels

#: Channels and extent of the images in the three stacks of the published networks.
STACKS = ((128, 32), (256, 16), (512, 8))


def cell_graph(cell: Cell, channels: int, size: int) -> OpGraph:
    """The units of :func:`tvm_ios.zoo.cells.nasbench.build_cell`.

    Convolutions have their normalisation and activation.
    """
    maker = _Maker(channels, size)
    widths = vertex_channels(cell, channels)
    value: dict[int, int] = {}
    for vertex, operation in enumerate(cell.operations, start=1):
        terms = [
            maker.first_channels(value[source], widths[vertex])
            if source
            else maker.operator("conv1x1", 0, widths[vertex])
            for source in cell.sources(vertex)
        ]
        joined = maker.joined("add", terms, widths[vertex])
        value[vertex] = maker.operator(operation, joined, widths[vertex])
    leading = [value[source] for source in cell.sources(cell.output) if source]
    result = maker.joined("concat", leading, channels)
    if (0, cell.output) in cell.edges:
        projected = maker.operator("conv1x1", 0, channels)
        result = maker.joined("add", [result, projected], channels)
    return OpGraph("cell", tuple(maker.operators), tuple(maker.tensors), (0,), (result,))


class _Maker:
    """Appends units; the first tensor is the input."""

    def __init__(self, channels: int, size: int) -> None:
        self._size = size
        self.tensors = [Tensor("input", (1, channels, size, size))]
        self.operators: list[Operator] = []

    def operator(self, operation: str, source: int, channels: int) -> int:
        """A convolution or a pooling."""
        window = int(operation[-1])
        if operation == "maxpool3x3":
            return self._unit("max_pool2d", (source,), channels, window * window, window)
        read = self.tensors[source].shape[1]
        shape = (channels, read, window, window)
        self.tensors.append(Tensor(f"weight{len(self.tensors)}", shape, constant=True))
        # The bias and the activation are an operation each.
        inputs, flops = (source, len(self.tensors) - 1), 2 * read * window * window + 2
        return self._unit("conv2d+bias_add+relu", inputs, channels, flops, window)

    def first_channels(self, source: int, channels: int) -> int:
        """So many channels of a tensor, which may be all."""
        if self.tensors[source].shape[1] == channels:
            return source
        return self._unit("slice", (source,), channels, 0)

    def joined(self, kind: str, sources: list[int], channels: int) -> int:
        """A sum or a concatenation; one tensor is itself."""
        if len(sources) == 1:
            return sources[0]
        additions = len(sources) - 1
        if kind == "add":
            return self._unit("+".join(["add"] * additions), tuple(sources), channels, additions)
        return self._unit(kind, tuple(sources), channels, 0)

    def _unit(
        self, kind: str, inputs: tuple[int, ...], channels: int, flops: int, window: int = 0
    ) -> int:
        shape = (1, channels, self._size, self._size)
        self.tensors.append(Tensor(f"t{len(self.tensors)}", shape))
        attributes = {"kernel": (window, window), "strides": (1, 1), "group": 1} if window else {}
        self.operators.append(
            Operator(
                f"u{len(self.operators)}",
                kind,
                inputs,
                (len(self.tensors) - 1,),
                attrs=attributes,
                flops=flops * channels * self._size * self._size,
            )
        )
        return len(self.tensors) - 1
