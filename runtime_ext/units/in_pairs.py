"""Contractions of pairs of input channels: weights packed in pairs, data written in 16 bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from runtime_ext.kernels.cutter import Cutter
from runtime_ext.kernels.expression import ACC, Access
from runtime_ext.kernels.integer_contraction import Narrowing
from runtime_ext.kernels.spec import Contraction, accesses
from runtime_ext.units.pixel_rows import merge_rows
from runtime_ext.units.values import Storage
from tvm_ios.program.constant_transform import ParamTransform, packing_pairs

#: Numbers of 16 bits.
Kind = Literal["int16", "bfloat16"]
#: What buffers of these hold, and the step from float32 to them.
_STORED: dict[Kind, tuple[str, tuple[Any, ...]]] = {
    "int16": ("int16", ("astype", "int16")),
    "bfloat16": ("uint16", ("bfloat16",)),
}


def in_pairs(
    spec: Contraction, order: Sequence[int], storages: list[Storage], cutter: Cutter, kind: Kind
) -> tuple[tuple[Narrowing, tuple[int, ...]], tuple[Contraction, tuple[int, ...]]]:
    """A contraction as a kernel that narrows its data and one that multiplies pairs.

    Parameters
    ----------
    spec
        Not cut yet; its weights are as the model has them. Groups have an even number of channels.
    order
        The storages that its buffers are.
    storages
        The unit's buffers. The weights' one gets the transform; a new one holds the narrow data.
    cutter
        Cuts the contraction of pairs of channels.
    kind
        What data and weights become.

    Returns
    -------
    tuple
        Both kernels, with the storages that their buffers are; ``channels`` of the second one
        counts pairs.
    """
    source, weight = storages[order[spec.data.buffer]], storages[order[spec.weight]]
    whole = merge_rows(spec)
    even = whole.channels + whole.channels % 2
    channels = even * whole.groups
    rows, columns = whole.window.input
    shape = (whole.batch, rows, columns, channels)
    storages.append(Storage("scratch", 0, shape, _STORED[kind][0]))
    narrow = len(storages) - 1
    first = Narrowing(
        (source.shape, shape),
        whole.batch,
        (rows, columns),
        whole.channels * whole.groups,
        replace(whole.data, buffer=0),
        whole.prologue,
        kind,
    )
    # The float data are read by the second kernel only if a statement adds them.
    read = {access.buffer for access in accesses(whole.statements)} | {whole.weight}
    used = sorted(read)

    def at(access: Access) -> Access:
        return replace(access, buffer=1 + used.index(access.buffer))

    pairs = replace(
        whole,
        channels=even // 2,
        data=Access(0, 0, (rows * columns * channels, columns * channels, channels, 2)),
        prologue=ACC,
        weight=1 + used.index(whole.weight),
        parts=all_parts(whole),
        statements=tuple(statement.mapped(at) for statement in whole.statements),
    )
    pairs = replace(pairs, blocking=cutter.blocking(pairs))
    pack_pairs(weight, pairs.parts, cutter.width(pairs.blocking), kind)
    places = (narrow, *(order[buffer] for buffer in used))
    pairs = replace(pairs, buffers=tuple(storages[place].shape for place in places))
    return (first, (order[spec.data.buffer], narrow)), (pairs, places)


def all_parts(spec: Contraction) -> tuple[int, ...]:
    """The parts of the output channels of all groups."""
    return spec.parts if spec.groups == 1 else spec.parts * spec.groups


def pack_pairs(weight: Storage, parts: Sequence[int], width: int, kind: Kind) -> None:
    """Pack weights in blocks, pairs of input channels next to each other, in 16 bits."""
    pack = packing_pairs(weight.shape, parts, width)
    weight.dtype, step = _STORED[kind]
    weight.shape = pack.shape(weight.shape)
    weight.transform = ParamTransform((*weight.transform.steps, *pack.steps, step))
