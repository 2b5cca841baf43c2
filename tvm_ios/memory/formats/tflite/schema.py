"""The schema of TensorFlow Lite, as far as planning its models needs it."""

from __future__ import annotations

from enum import IntEnum

from tvm_ios.memory.formats.tflite.flatbuffer import Schema

#: The identifier of files, and the metadata that holds the offsets of all tensors.
IDENTIFIER, PLAN_NAME = b"TFL3", "OfflineMemoryAllocation"
#: Of the numbers of a plan, those before the offsets: version, subgraph and how many follow.
PLAN_HEADER = 3


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


class ModelField(IntEnum):
    """The fields of a model that are read or written here."""

    VERSION = 0
    OPERATOR_CODES = 1
    SUBGRAPHS = 2
    BUFFERS = 4
    METADATA = 6
    EXTERNAL_BUFFERS = 9


class GraphField(IntEnum):
    """The fields of a subgraph that are read or written here."""

    TENSORS = 0
    INPUTS = 1
    OUTPUTS = 2
    OPERATORS = 3


class TensorField(IntEnum):
    """The fields of a tensor that are read or written here."""

    SHAPE = 0
    TYPE = 1
    BUFFER = 2
    NAME = 3
    IS_VARIABLE = 5
    EXTERNAL_BUFFER = 10


class OperatorField(IntEnum):
    """The fields of a operator that are read or written here."""

    CODE = 0
    INPUTS = 1
    OUTPUTS = 2
    OPTIONS = 4
    LARGE_OPTIONS_OFFSET = 9


class CodeField(IntEnum):
    """The fields of a operator code that are read or written here."""

    OLD_CODE = 0
    CODE = 3


class BufferField(IntEnum):
    """The fields of a buffer that are read or written here."""

    DATA = 0
    OFFSET = 1


class MetadataField(IntEnum):
    """The fields of a metadata entry that are read or written here."""

    NAME = 0
    BUFFER = 1


#: What a file must hold whole.
SCHEMA: Schema = {
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
