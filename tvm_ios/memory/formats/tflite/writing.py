"""A ``.tflite`` file, written with operators in other orders and an offline plan."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tvm_ios.errors import ModelError
from tvm_ios.memory.formats.tflite.flatbuffer import Table, root_of
from tvm_ios.memory.formats.tflite.model import TfliteModel, plan_vector
from tvm_ios.memory.formats.tflite.schema import (
    IDENTIFIER,
    PLAN_HEADER,
    PLAN_NAME,
    MetadataField,
    ModelField,
)

#: The front of a written file is a multiple of it, so that what follows stays aligned.
_ALIGNMENT = 64


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
    numbers = struct.pack(f"<{PLAN_HEADER + len(offsets)}i", 0, 0, len(offsets), *offsets)
    root = root_of(model.data)
    place = plan_vector(root)
    if place is not None:
        data[place.at : place.at + len(numbers)] = numbers
        return bytes(data)
    return _front(root, numbers) + bytes(data)


def _front(root: Table, plan: bytes) -> bytes:
    """Return what stands before the bytes of a file to give it a plan."""
    numbers = sorted({*root.fields(), ModelField.BUFFERS, ModelField.METADATA})
    if numbers[-1] > ModelField.EXTERNAL_BUFFERS:
        raise ModelError("the model is of a newer schema of TensorFlow Lite than is known here")
    buffers = root.vector(ModelField.BUFFERS).targets()
    metadata = tuple(
        entry.at
        for entry in root.vector(ModelField.METADATA).tables()
        if entry.text(MetadataField.NAME) != PLAN_NAME
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
    front[4:8] = IDENTIFIER
    for at, layout in zip(layout_at, layouts, strict=True):
        struct.pack_into(f"<{len(layout)}H", front, at, *layout)
    put(model_at, model_at - layout_at[0])
    moved: dict[int, int] = {ModelField.BUFFERS: buffers_at, ModelField.METADATA: metadata_at}
    for number in numbers:
        at = model_at + entries[number]
        if number == ModelField.VERSION:
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
