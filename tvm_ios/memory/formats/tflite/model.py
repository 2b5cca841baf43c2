"""A ``.tflite`` file: read, and written with operators in other orders and an offline plan."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import accumulate

from tvm_ios.errors import ModelError
from tvm_ios.memory.formats.tflite.flatbuffer import (
    MalformedError,
    Schema,
    Table,
    Vector,
    root_of,
)

_IDENTIFIER = b"TFL3"
#: The metadata that holds the offsets of all tensors, and an offset that leaves one to the device.
PLAN_NAME, ONLINE = "OfflineMemoryAllocation", -1
#: Of the metadata's numbers, those before the offsets: version, subgraph and how many follow.
_PLAN_HEADER = 3
#: Offsets are numbers of 32 bits.
_MOST_BYTES = (1 << 31) - 1
#: The front of a written file is a multiple of it, so that what follows stays aligned.
_ALIGNMENT = 64


class TensorType(IntEnum):
    """The element types that TensorFlow Lite Micro has tensors of."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT32 = 2
    UINT8 = 3
    INT64 = 4
    BOOL = 6
    INT16 = 7
    COMPLEX64 = 8
    INT8 = 9
    FLOAT64 = 10
    COMPLEX128 = 11
    UINT64 = 12
    RESOURCE = 13
    UINT32 = 15
    UINT16 = 16
    INT4 = 17
    BFLOAT16 = 18

    @property
    def nbytes(self) -> int:
        """Bytes that an element takes in the arena."""
        return _ELEMENT_BYTES.get(self, 1)


_ELEMENT_BYTES = {
    **dict.fromkeys((TensorType.FLOAT16, TensorType.INT16, TensorType.UINT16), 2),
    **dict.fromkeys((TensorType.FLOAT32, TensorType.INT32, TensorType.UINT32), 4),
    **dict.fromkeys((TensorType.FLOAT64, TensorType.INT64, TensorType.UINT64), 8),
    TensorType.BFLOAT16: 2,
    TensorType.RESOURCE: 4,
    TensorType.COMPLEX64: 8,
    TensorType.COMPLEX128: 16,
}


class Operation(IntEnum):
    """Operators of TensorFlow Lite that the planner knows something about."""

    ADD = 0
    AVERAGE_POOL_2D = 1
    CONCATENATION = 2
    CONV_2D = 3
    DEPTHWISE_CONV_2D = 4
    FULLY_CONNECTED = 9
    LOGISTIC = 14
    MAX_POOL_2D = 17
    MUL = 18
    RELU = 19
    RELU6 = 21
    RESHAPE = 22
    SOFTMAX = 25
    SVDF = 27
    TANH = 28
    CUSTOM = 32
    PAD = 34
    MEAN = 40
    SUB = 41
    UNIDIRECTIONAL_SEQUENCE_LSTM = 44
    TRANSPOSE_CONV = 67
    SUM = 74
    REDUCE_MAX = 82
    REDUCE_MIN = 89
    MIRROR_PAD = 100
    ADD_N = 106
    HARD_SWISH = 117
    IF = 118
    WHILE = 119
    CALL_ONCE = 129
    HASHTABLE = 136
    HASHTABLE_FIND = 137
    HASHTABLE_IMPORT = 138
    HASHTABLE_SIZE = 139
    REDUCE_ALL = 140
    VAR_HANDLE = 142
    READ_VARIABLE = 143
    ASSIGN_VARIABLE = 144


#: For each operator that runs subgraphs the fields of its options that name them.
_CALLS = {Operation.IF: (0, 1), Operation.WHILE: (0, 1), Operation.CALL_ONCE: (0,)}


# The numbers of the schema's fields.
class _Model(IntEnum):
    VERSION = 0
    OPERATOR_CODES = 1
    SUBGRAPHS = 2
    BUFFERS = 4
    METADATA = 6
    EXTERNAL_BUFFERS = 9


class _Graph(IntEnum):
    TENSORS = 0
    INPUTS = 1
    OUTPUTS = 2
    OPERATORS = 3


class _Tensor(IntEnum):
    SHAPE = 0
    TYPE = 1
    BUFFER = 2
    NAME = 3
    IS_VARIABLE = 5
    EXTERNAL_BUFFER = 10


class _Operator(IntEnum):
    CODE = 0
    INPUTS = 1
    OUTPUTS = 2
    OPTIONS = 4
    LARGE_OPTIONS_OFFSET = 9


class _Code(IntEnum):
    OLD_CODE = 0
    CODE = 3


class _Buffer(IntEnum):
    DATA = 0
    OFFSET = 1


class _Metadata(IntEnum):
    NAME = 0
    BUFFER = 1


#: What a file must hold whole.
_SCHEMA: Schema = {
    "Model": {
        1: ["OperatorCode"], 2: ["SubGraph"], 3: 1, 4: ["Buffer"], 5: 4, 6: ["Metadata"],
        7: ["SignatureDef"],
    },
    "OperatorCode": {1: 1},
    "SubGraph": {0: ["Tensor"], 1: 4, 2: 4, 3: ["Operator"], 4: 1},
    "Tensor": {0: 4, 3: 1, 4: "Quantization", 7: 4},
    "Quantization": {0: 4, 1: 4, 2: 4, 3: 8},
    "Operator": {1: 4, 2: 4, 4: "Options", 5: 1, 7: 1, 8: 4, 12: "Options"},
    "Options": {},
    "Buffer": {0: 1},
    "Metadata": {0: 1},
    "SignatureDef": {0: ["TensorMap"], 1: ["TensorMap"], 2: 1},
    "TensorMap": {0: 1},
}  # fmt: skip


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
        """How many elements it has."""
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
    if data[4:8] != _IDENTIFIER:
        raise ModelError("this is no TensorFlow Lite model: the identifier TFL3 is missing")
    try:
        return _read(data)
    except MalformedError as error:
        raise ModelError(f"the TensorFlow Lite model is damaged or cut off: {error}") from error


def _read(data: bytes) -> TfliteModel:
    root = root_of(data)
    root.require_whole("Model", _SCHEMA)
    if root.vector(_Model.EXTERNAL_BUFFERS).count:
        raise ModelError(_OUTSIDE)
    buffers = root.vector(_Model.BUFFERS).tables()
    if any(buffer.number(_Buffer.OFFSET, "Q") > 1 for buffer in buffers):
        raise ModelError(_OUTSIDE)
    filled = tuple(buffer.vector(_Buffer.DATA).count > 0 for buffer in buffers)
    codes = tuple(
        max(code.number(_Code.OLD_CODE, "b"), code.number(_Code.CODE, "i"))
        for code in root.vector(_Model.OPERATOR_CODES).tables()
    )
    graphs = tuple(
        _subgraph(table, codes, filled) for table in root.vector(_Model.SUBGRAPHS).tables()
    )
    if not graphs:
        raise MalformedError("it has no subgraph")
    for operator in (operator for graph in graphs for operator in graph.operators):
        _require(operator.calls, len(graphs), "subgraph", least=0)
    place = _plan_of(root)
    return TfliteModel(data, graphs, None if place is None else place.numbers("i")[_PLAN_HEADER:])


_OUTSIDE = (
    "the model keeps weights outside of its FlatBuffer, which TensorFlow Lite Micro cannot read"
)


def _subgraph(table: Table, codes: tuple[int, ...], filled: tuple[bool, ...]) -> Subgraph:
    tensors = tuple(_tensor(each, filled) for each in table.vector(_Graph.TENSORS).tables())
    listed = table.vector(_Graph.OPERATORS)
    operators = tuple(_operator(each, codes) for each in listed.tables())
    if any(at < listed.at + 4 * listed.count for at in listed.targets()):
        raise MalformedError("an operator lies within the list of operators")
    inputs = table.vector(_Graph.INPUTS).numbers("i")
    outputs = table.vector(_Graph.OUTPUTS).numbers("i")
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
    name, shape = table.text(_Tensor.NAME), table.vector(_Tensor.SHAPE).numbers("i")
    buffer, kind = table.number(_Tensor.BUFFER, "I"), table.number(_Tensor.TYPE, "b")
    _require((buffer,), len(filled), "buffer", least=0)
    if table.number(_Tensor.EXTERNAL_BUFFER, "I"):
        raise ModelError(_OUTSIDE)
    if kind not in list(TensorType):
        raise ModelError(
            f"tensor {name!r} is of type {kind}, which TensorFlow Lite Micro has no memory for"
        )
    if min(shape, default=0) < 0:
        raise ModelError(
            f"tensor {name!r} has an unknown dimension: TensorFlow Lite Micro plans fixed sizes"
        )
    variable = bool(table.number(_Tensor.IS_VARIABLE, "?"))
    tensor = Tensor(name, TensorType(kind), shape, filled[buffer], variable)
    if tensor.nbytes > _MOST_BYTES:
        raise ModelError(f"tensor {name!r} has {tensor.nbytes} bytes, more than an arena can have")
    return tensor


def _operator(table: Table, codes: tuple[int, ...]) -> Operator:
    number = table.number(_Operator.CODE, "I")
    _require((number,), len(codes), "operator code", least=0)
    if table.number(_Operator.LARGE_OPTIONS_OFFSET, "Q") > 1:
        raise ModelError(_OUTSIDE)
    code = codes[number]
    named = _CALLS.get(Operation(code), ()) if code in list(Operation) else ()
    options = table.table(_Operator.OPTIONS) if named else table
    return Operator(
        code,
        table.vector(_Operator.INPUTS).numbers("i"),
        table.vector(_Operator.OUTPUTS).numbers("i"),
        tuple(options.number(field, "i") for field in named),
    )


def _require(numbers: Sequence[int], count: int, thing: str, *, least: int) -> None:
    for number in numbers:
        if not least <= number < count:
            raise MalformedError(f"it names {thing} {number} and has {count}")


def _plan_of(root: Table) -> Vector | None:
    """Return where a file's plan lies, as numbers, or None if it has none that is whole."""
    named = [
        entry
        for entry in root.vector(_Model.METADATA).tables()
        if entry.text(_Metadata.NAME) == PLAN_NAME
    ]
    buffers = root.vector(_Model.BUFFERS).tables()
    if not named or named[-1].number(_Metadata.BUFFER, "I") >= len(buffers):
        return None
    data = buffers[named[-1].number(_Metadata.BUFFER, "I")].vector(_Buffer.DATA)
    tensors = sum(
        graph.vector(_Graph.TENSORS).count for graph in root.vector(_Model.SUBGRAPHS).tables()
    )
    if data.count != 4 * (_PLAN_HEADER + tensors):
        return None
    return Vector(data.data, data.at, _PLAN_HEADER + tensors)


def write_tflite(
    model: TfliteModel, orders: Sequence[Sequence[int]], offsets: Sequence[int] | None
) -> bytes:
    """Return the file of a model with the operators of each subgraph in another order.

    With ``offsets``, of the tensors of all subgraphs, the file has them as its offline plan. Every
    byte but those that list operators, and the plan, is as it was: a plan that the file did not
    have lies in front of it, with new lists of buffers and metadata.
    """
    data = bytearray(model.data)
    for graph, order in zip(model.subgraphs, orders, strict=True):
        listed, targets = graph.listed, graph.listed.targets()
        for place, number in enumerate(order):
            at = listed.at + 4 * place
            struct.pack_into("<I", data, at, targets[number] - at)
    if offsets is None:
        return bytes(data)
    numbers = struct.pack(f"<{_PLAN_HEADER + len(offsets)}i", 0, 0, len(offsets), *offsets)
    root = root_of(model.data)
    place = _plan_of(root)
    if place is not None:
        data[place.at : place.at + len(numbers)] = numbers
        return bytes(data)
    return _front(root, numbers) + bytes(data)


def _front(root: Table, plan: bytes) -> bytes:
    """Return what stands before the bytes of a file to give it a plan."""
    numbers = sorted({*root.fields(), _Model.BUFFERS, _Model.METADATA})
    if numbers[-1] > _Model.EXTERNAL_BUFFERS:
        raise ModelError("the model is of a newer schema of TensorFlow Lite than is known here")
    buffers = root.vector(_Model.BUFFERS).targets()
    metadata = tuple(
        entry.at
        for entry in root.vector(_Model.METADATA).tables()
        if entry.text(_Metadata.NAME) != PLAN_NAME
    )
    entries = [0] * (numbers[-1] + 1)
    for place, number in enumerate(numbers):
        entries[number] = 4 + 4 * place
    # The layouts of the model, of a metadata entry and of a buffer, and then these tables.
    layouts = ([4 + 2 * len(entries), 4 + 4 * len(numbers), *entries], [8, 12, 4, 8], [6, 8, 4])
    layout_at = [8, 8 + 2 * len(layouts[0]), 8 + 2 * len(layouts[0] + layouts[1])]
    model_at = _aligned(layout_at[2] + 2 * len(layouts[2]), 4)
    buffers_at = model_at + 4 + 4 * len(numbers)
    metadata_at = buffers_at + 4 + 4 * (len(buffers) + 1)
    entry_at = metadata_at + 4 + 4 * (len(metadata) + 1)
    buffer_at = entry_at + 12
    name_at = buffer_at + 8
    # A buffer's bytes begin at multiples of 16, after their number.
    plan_at = _aligned(name_at + 4 + len(PLAN_NAME) + 1 + 4, 16) - 4
    front = bytearray(_aligned(plan_at + 4 + len(plan), _ALIGNMENT))

    def put(at: int, *values: int) -> None:
        struct.pack_into(f"<{len(values)}I", front, at, *values)

    def refer(at: int, *targets: int) -> None:
        put(at, *(target - at - 4 * i for i, target in enumerate(targets)))

    refer(0, model_at)
    front[4:8] = _IDENTIFIER
    for at, layout in zip(layout_at, layouts, strict=True):
        struct.pack_into(f"<{len(layout)}H", front, at, *layout)
    put(model_at, model_at - layout_at[0])
    moved: dict[int, int] = {_Model.BUFFERS: buffers_at, _Model.METADATA: metadata_at}
    for number in numbers:
        at = model_at + entries[number]
        if number == _Model.VERSION:
            put(at, root.number(number, "I"))
        else:
            refer(at, moved.get(number) or len(front) + (root.target(number) or 0))
    put(buffers_at, len(buffers) + 1)
    refer(buffers_at + 4, *(len(front) + at for at in buffers), buffer_at)
    put(metadata_at, len(metadata) + 1)
    refer(metadata_at + 4, *(len(front) + at for at in metadata), entry_at)
    put(entry_at, entry_at - layout_at[1], name_at - entry_at - 4, len(buffers))
    put(buffer_at, buffer_at - layout_at[2], plan_at - buffer_at - 4)
    put(name_at, len(PLAN_NAME))
    front[name_at + 4 : name_at + 4 + len(PLAN_NAME)] = PLAN_NAME.encode()
    put(plan_at, len(plan))
    front[plan_at + 4 : plan_at + 4 + len(plan)] = plan
    return bytes(front)


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
