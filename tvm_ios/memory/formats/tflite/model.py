"""A ``.tflite`` file, read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from tvm_ios.errors import ModelError
from tvm_ios.memory.formats.tflite.flatbuffer import MalformedError, Table, Vector, root_of
from tvm_ios.memory.formats.tflite.schema import (
    IDENTIFIER,
    PLAN_HEADER,
    PLAN_NAME,
    SCHEMA,
    BufferField,
    CodeField,
    GraphField,
    MetadataField,
    ModelField,
    Operation,
    OperatorField,
    TensorField,
    TensorType,
)

#: An offset that leaves the place of a tensor to the device.
ONLINE = -1
#: Offsets are numbers of 32 bits.
_MOST_BYTES = (1 << 31) - 1
#: For each operator that runs subgraphs the fields of its options that name them.
_CALLS = {Operation.IF: (0, 1), Operation.WHILE: (0, 1), Operation.CALL_ONCE: (0,)}


@dataclass(frozen=True)
class Tensor:
    """A tensor of a subgraph."""

    name: str
    type: TensorType
    shape: tuple[int, ...]
    #: Whether its bytes lie in the file, or with the operator that makes it.
    constant: bool
    #: Whether it keeps its bytes from run to run.
    variable: bool

    @property
    def elements(self) -> int:
        """The number of the tensor's elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Its bytes in the arena."""
        return self.elements * self.type.nbytes


@dataclass(frozen=True)
class Operator:
    """An operator of a subgraph: tensors by number, -1 is one left out; subgraphs that it runs."""

    code: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    calls: tuple[int, ...]


@dataclass(frozen=True)
class Subgraph:
    """A subgraph: its operators in their order, and the vector of the file that lists them."""

    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]
    listed: Vector


@dataclass(frozen=True)
class TfliteModel:
    """A model with its file; the first subgraph is what runs."""

    data: bytes = field(repr=False)
    subgraphs: tuple[Subgraph, ...]
    #: The offsets that the file's plan has for the tensors of all subgraphs, if it has one.
    plan: tuple[int, ...] | None

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors of all subgraphs, as plans number them."""
        return tuple(tensor for graph in self.subgraphs for tensor in graph.tensors)

    @property
    def starts(self) -> tuple[int, ...]:
        """For each subgraph the number of its first tensor among all."""
        counts = (len(graph.tensors) for graph in self.subgraphs)
        return tuple(accumulate(counts, initial=0))[:-1]


def read_tflite(data: bytes) -> TfliteModel:
    """Return the model that a ``.tflite`` file holds.

    Raises
    ------
    ModelError
        If it is damaged, or nothing that TensorFlow Lite Micro can run.
    """
    if data[4:8] != IDENTIFIER:
        raise ModelError("this is no TensorFlow Lite model: the identifier TFL3 is missing")
    try:
        return _read(data)
    except MalformedError as error:
        raise ModelError(f"the TensorFlow Lite model is damaged or cut off: {error}") from error


def _read(data: bytes) -> TfliteModel:
    root = root_of(data)
    root.require_whole("Model", SCHEMA)
    if root.vector(ModelField.EXTERNAL_BUFFERS).count:
        raise ModelError(_OUTSIDE)
    buffers = root.vector(ModelField.BUFFERS).tables()
    if any(buffer.number(BufferField.OFFSET, "Q") > 1 for buffer in buffers):
        raise ModelError(_OUTSIDE)
    filled = tuple(buffer.vector(BufferField.DATA).count > 0 for buffer in buffers)
    codes = tuple(
        max(code.number(CodeField.OLD_CODE, "b"), code.number(CodeField.CODE, "i"))
        for code in root.vector(ModelField.OPERATOR_CODES).tables()
    )
    graphs = tuple(
        _subgraph(table, codes, filled) for table in root.vector(ModelField.SUBGRAPHS).tables()
    )
    if not graphs:
        raise MalformedError("it has no subgraph")
    for operator in (operator for graph in graphs for operator in graph.operators):
        _require(operator.calls, len(graphs), "subgraph", least=0)
    place = plan_vector(root)
    return TfliteModel(data, graphs, None if place is None else place.numbers("i")[PLAN_HEADER:])


_OUTSIDE = (
    "the model keeps weights outside of its FlatBuffer, which TensorFlow Lite Micro cannot read"
)


def _subgraph(table: Table, codes: tuple[int, ...], filled: tuple[bool, ...]) -> Subgraph:
    tensors = tuple(_tensor(each, filled) for each in table.vector(GraphField.TENSORS).tables())
    listed = table.vector(GraphField.OPERATORS)
    operators = tuple(_operator(each, codes) for each in listed.tables())
    if any(at < listed.at + 4 * listed.count for at in listed.targets()):
        raise MalformedError("an operator lies within the list of operators")
    inputs = table.vector(GraphField.INPUTS).numbers("i")
    outputs = table.vector(GraphField.OUTPUTS).numbers("i")
    _require((*inputs, *outputs), len(tensors), "tensor", least=0)
    for operator in operators:
        _require(operator.inputs, len(tensors), "tensor", least=-1)
        _require(operator.outputs, len(tensors), "tensor", least=0)
    handles = {t for op in operators if op.code == Operation.VAR_HANDLE for t in op.outputs}
    tensors = tuple(
        replace(tensor, constant=tensor.constant or number in handles)
        for number, tensor in enumerate(tensors)
    )
    return Subgraph(tensors, inputs, outputs, operators, listed)


def _tensor(table: Table, filled: tuple[bool, ...]) -> Tensor:
    name, shape = table.text(TensorField.NAME), table.vector(TensorField.SHAPE).numbers("i")
    buffer, kind = table.number(TensorField.BUFFER, "I"), table.number(TensorField.TYPE, "b")
    _require((buffer,), len(filled), "buffer", least=0)
    if table.number(TensorField.EXTERNAL_BUFFER, "I"):
        raise ModelError(_OUTSIDE)
    if kind not in list(TensorType):
        raise ModelError(
            f"tensor {name!r} is of type {kind}, which TensorFlow Lite Micro has no memory for"
        )
    if min(shape, default=0) < 0:
        raise ModelError(
            f"tensor {name!r} has an unknown dimension: TensorFlow Lite Micro plans fixed sizes"
        )
    variable = bool(table.number(TensorField.IS_VARIABLE, "?"))
    tensor = Tensor(name, TensorType(kind), shape, filled[buffer], variable)
    if tensor.nbytes > _MOST_BYTES:
        raise ModelError(f"tensor {name!r} has {tensor.nbytes} bytes, more than an arena can have")
    return tensor


def _operator(table: Table, codes: tuple[int, ...]) -> Operator:
    number = table.number(OperatorField.CODE, "I")
    _require((number,), len(codes), "operator code", least=0)
    if table.number(OperatorField.LARGE_OPTIONS_OFFSET, "Q") > 1:
        raise ModelError(_OUTSIDE)
    code = codes[number]
    named = _CALLS.get(Operation(code), ()) if code in list(Operation) else ()
    options = table.table(OperatorField.OPTIONS) if named else table
    return Operator(
        code,
        table.vector(OperatorField.INPUTS).numbers("i"),
        table.vector(OperatorField.OUTPUTS).numbers("i"),
        tuple(options.number(field, "i") for field in named),
    )


def _require(numbers: Sequence[int], count: int, thing: str, *, least: int) -> None:
    for number in numbers:
        if not least <= number < count:
            raise MalformedError(f"it names {thing} {number} and has {count}")


def plan_vector(root: Table) -> Vector | None:
    """Return where a file's plan lies, as numbers, or None if it has none that is whole."""
    named = [
        entry
        for entry in root.vector(ModelField.METADATA).tables()
        if entry.text(MetadataField.NAME) == PLAN_NAME
    ]
    buffers = root.vector(ModelField.BUFFERS).tables()
    if not named or named[-1].number(MetadataField.BUFFER, "I") >= len(buffers):
        return None
    data = buffers[named[-1].number(MetadataField.BUFFER, "I")].vector(BufferField.DATA)
    graphs = root.vector(ModelField.SUBGRAPHS).tables()
    tensors = sum(graph.vector(GraphField.TENSORS).count for graph in graphs)
    if data.count != 4 * (PLAN_HEADER + tensors):
        return None
    return Vector(data.data, data.at, PLAN_HEADER + tensors)
