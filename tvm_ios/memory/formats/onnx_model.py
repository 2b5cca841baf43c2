"""An ONNX model whose own nodes are ordered, and written in another order."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.files.atomic import temporary_folder, write_atomically
from tvm_ios.graph.elements import GraphError
from tvm_ios.memory.formats.onnx_bands import find_bands, multiplications, write_bands
from tvm_ios.memory.formats.onnx_rewriting import split_concatenations
from tvm_ios.memory.ordering import Node, TensorGraph, order
from tvm_ios.models.load import read_model, simplified
from tvm_ios.models.source import Form, ModelSource
from tvm_ios.onnx.as_written import with_static_inputs
from tvm_ios.onnx.cut import computed_operators, names_read
from tvm_ios.onnx.file import read_without_weights, weight_files
from tvm_ios.onnx.inputs import free_inputs
from tvm_ios.onnx.known_shapes import known_shapes
from tvm_ios.onnx.shape_inference import infer_shapes

#: Operators whose result is the input's bytes in another shape.
_VIEWS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})
#: Element-wise operators, whose result may be written over an input.
_OVER = frozenset(
    {
        *("Abs", "Add", "And", "Ceil", "Celu", "Clip", "Cos", "Div", "Elu", "Erf", "Exp", "Floor"),
        *("Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Max", "Min", "Mish", "Mul"),
        *("Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid"),
        *("Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Tanh", "Where", "Xor"),
    }
)


@dataclass(frozen=True)
class WrittenModel:
    """An ONNX model as its file has it, and the graph of its nodes.

    Operators that depend on no input's values are computed before a run, by whichever runtime:
    their results count as weights, which take no memory of the arena. Views lie in what they show.

    Attributes
    ----------
    source
        The model as it was named.
    model
        The model, without weights that lie in other files.
    sizes
        The bytes of the values whose sizes are known.
    data
        The names of files in the model's folder that hold its weights.
    """

    source: ModelSource
    model: Any
    sizes: Mapping[str, int]
    data: tuple[str, ...]

    @staticmethod
    def read(source: ModelSource) -> WrittenModel:
        """Read a network of the zoo or a file.

        Raise ModelError if it is not ONNX, malformed or needs shapes, as
        :func:`tvm_ios.models.load.read_model`.
        """
        source.require_onnx("be written in another order")
        if source.batch is not None or source.random_seed is not None:
            raise ModelError("a model is written as it is: leave out --batch and --random-seed")
        read = read_model(source)
        sizes = _sizes(source, _static(source, read))
        if source.form is Form.ZOO:
            return WrittenModel(source, read, sizes, ())
        own = read_without_weights(source.path)
        return WrittenModel(source, own, sizes, weight_files(source.path))

    def rewritten(self) -> RewrittenModel:
        """Return the model after SERENITY's identity rewriting, with all its weights inside."""
        work: Any = ir.serde.deserialize_model(self._whole())
        infer_shapes(work)
        convolutions, sums = split_concatenations(work)
        model: Any = ir.serde.serialize_model(work)
        sizes = _sizes(self.source, _static(self.source, model))
        additions = sum(int(sizes.get(v.name, 0) // v.dtype.itemsize) for v in sums)
        total = sum(map(multiplications, work.graph))
        written = WrittenModel(self.source, model, sizes, ())
        return RewrittenModel(written, convolutions, additions / max(total, 1))

    def _whole(self) -> Any:
        """Return the model with all its weights."""
        return read_model(self.source) if self.data else self.model

    def banded(self, seconds: float) -> RewrittenModel:
        """Return the model with parts of it in bands of rows, with all its weights inside.

        Its inputs have their shapes then. Parts are chosen one after another where the peak lies,
        as long as it falls, in so many seconds.
        """
        until = time.perf_counter() + seconds
        model, segments, work = self, 0, 0
        ir_model: Any = ir.serde.deserialize_model(_static(self.source, self._whole()))
        infer_shapes(ir_model)
        total = sum(map(multiplications, ir_model.graph))
        while (left := until - time.perf_counter()) > 0:
            best = order(model.graph, time_limit=max(left / 4, 0.1)).order
            banded = find_bands(ir_model, model.graph, best, until)
            if banded is None:
                break
            segments, work = segments + 1, work + banded.more_work
            write_bands(ir_model, banded)
            infer_shapes(ir_model)
            proto: Any = ir.serde.serialize_model(ir_model)
            model = WrittenModel(self.source, proto, _sizes(self.source, proto), ())
        return RewrittenModel(model, segments, work / max(total, 1))

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the model's graph, as they stand."""
        return tuple(
            Node(
                node.name or f"{node.op_type} {number}",
                tuple(sorted(names_read(node))),
                tuple(name for name in node.output if name),
                over=tuple(node.input) if node.op_type in _OVER else (),
            )
            for number, node in enumerate(self.model.graph.node)
        )

    @cached_property
    def _computed(self) -> frozenset[str]:
        """The values that depend on the inputs' values."""
        nodes = self.model.graph.node
        made = (name for n in computed_operators(self.model) for name in nodes[n].output if name)
        return frozenset({value.name for value in free_inputs(self.model)}.union(made))

    @property
    def unknown(self) -> tuple[str, ...]:
        """The values whose sizes depend on the data: they count as nothing."""
        read = {name for node in self.nodes for name in (*node.inputs, *node.outputs)}
        return tuple(sorted((read & self._computed) - self.sizes.keys()))

    @cached_property
    def graph(self) -> TensorGraph:
        """The nodes and the sizes of the values that take memory while the model runs."""
        outputs = [value.name for value in self.model.graph.output]
        views = {
            node.output[0]: node.input[0]
            for node in self.model.graph.node
            if node.op_type in _VIEWS
            and node.output[0] not in outputs
            and {node.input[0], node.output[0]} <= self._computed
        }
        sizes = {name: size for name, size in self.sizes.items() if name in self._computed}
        return TensorGraph(self.nodes, sizes, outputs, views)

    def write(self, path: Path, nodes: Sequence[int]) -> None:
        """Write the model with its nodes in another order, and all else as it is.

        Weights in other files go along to another folder. Raise ModelError if there is another file
        of their name.
        """
        written: Any = onnx.ModelProto()
        written.CopyFrom(self.model)
        del written.graph.node[:]
        written.graph.node.extend(self.model.graph.node[number] for number in nodes)
        for name in self.data:
            _copy_beside(self.source.path.parent / name, path.parent / name)
        write_atomically(path, written.SerializeToString())


@dataclass(frozen=True)
class RewrittenModel:
    """A model that was rewritten.

    Attributes
    ----------
    model
        The result.
    places
        How many convolutions or segments were rewritten.
    more_work
        The multiplications and additions that this took, as a part of the multiplications of the
        model's convolutions.
    """

    model: WrittenModel
    places: int
    more_work: float


def _static(source: ModelSource, model: Any) -> Any:
    """Return a model with the input shapes that its user gives or that follow from it."""
    return with_static_inputs(model, known_shapes(source.name, model, source.shapes))


def _sizes(source: ModelSource, static: Any) -> dict[str, int]:
    """Return the bytes of a static model's values, as far as they can be inferred."""
    work: Any = ir.serde.deserialize_model(static)
    infer_shapes(work)
    values = [*work.graph.inputs, *(value for node in work.graph for value in node.outputs)]
    if any(_size(value) is None for value in values):
        # Shapes may be computed by operators, or be those of another domain's.
        try:
            folded: Any = ir.serde.deserialize_model(simplified(source, static).model)
        except GraphError:
            pass
        else:
            known = {value.name: value for node in folded.graph for value in node.outputs}
            for value in values:
                if _size(value) is None and value.name in known:
                    value.shape, value.dtype = known[value.name].shape, known[value.name].dtype
            infer_shapes(work)
    sizes = {value.name: _size(value) for value in values}
    return {name: size for name, size in sizes.items() if size is not None}


def _size(value: Any) -> int | None:
    """Return the bytes of an ``onnx_ir`` value, or None if its type or shape is not known."""
    dtype, shape = value.dtype, value.shape
    if dtype in (None, ir.DataType.STRING) or shape is None or not shape.is_static():
        return None
    return math.ceil(math.prod(shape.numpy()) * dtype.itemsize)


def _copy_beside(source: Path, target: Path) -> None:
    """Copy a file of weights, unless the same is there."""
    if target.exists():
        if os.path.samefile(source, target):
            return
        raise ModelError(
            f"{target} is in the way of the model's weights, which lie in a file of this name: "
            "write the model into an empty folder"
        )
    with temporary_folder(target.parent, f".{target.name}.") as folder:
        shutil.copyfile(source, folder / "new")
        os.replace(folder / "new", target)
