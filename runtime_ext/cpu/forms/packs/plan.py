"""Contractions of packs of input channels: packed weights, and a kernel that narrows data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime_ext.cpu.forms.packs.spec import Narrowing, filled_packs, spare_pixels
from runtime_ext.kernels.cutter import Cutter
from runtime_ext.kernels.expression import ACC, Access
from runtime_ext.kernels.spec import Contraction, Encoding, Numbers, Window, accesses
from runtime_ext.units.pixel_rows import merge_rows
from runtime_ext.units.placed import Placed
from runtime_ext.units.values import Storage
from tvm_ios.program.constant_transform import ParamTransform, packing_channels
from tvm_ios.program.program import Role


@dataclass(frozen=True, slots=True)
class Pack:
    """Channels whose products one instruction adds up.

    ``channels`` counts them; ``data`` is the data type of narrowed data, ``weights`` that of the
    buffer of weights, and ``step`` the conversion of weights from float32.
    """

    channels: int
    data: Numbers
    weights: str
    step: tuple[Any, ...]


INT8 = Pack(4, "uint8", "int8", ("astype", "int8"))
INT16 = Pack(2, "int16", "int16", ("astype", "int16"))
BFLOAT16 = Pack(2, "bfloat16", "uint16", ("bfloat16",))


def in_packs(
    kernel: Placed[Contraction],
    cutter: Cutter,
    pack: Pack,
    shift: int | None = None,
    *,
    matrices: bool = False,
) -> tuple[list[Placed[Narrowing]], Placed[Contraction]]:
    """Return the kernels that narrow the data, and the contraction of packs.

    No kernel narrows if the data are already stored so. ``channels`` of the result counts packs.
    ``kernel`` is not cut yet; the channels of a group must fill packs. The weights' storage gets
    the transform, a new one the narrow data.

    ``shift`` is added to data; zeros around images are then written too, as they are shifted as
    well. With ``matrices`` the kernel multiplies matrices: zeros around images are written, more of
    them fill the matrices, and spare pixels of any value follow the last one.
    """
    spec = kernel.spec
    source, weight = kernel.storage(spec.data.buffer), kernel.storage(spec.weight)
    whole = merge_rows(spec)
    packs = -(-whole.channels // pack.channels)
    pads, window = (0, 0), whole.window
    if shift is not None or matrices:
        pads, window = window.pads, _with_borders(window)
    if matrices:
        packs = filled_packs(window, packs)
    channels = packs * pack.channels * whole.groups
    rows, columns = window.input
    spare = spare_pixels(window) if matrices else 0
    data = Access(0, 0, (rows * columns * channels, columns * channels, channels, pack.channels))
    before: list[Placed[Narrowing]] = []
    encoding = Encoding(pack.data, shift or 0)
    if (
        source.encoding == encoding
        and whole.prologue == ACC
        and channels == whole.channels * whole.groups
        and spare == 0
        and _lies_so(whole, window)
    ):
        narrow = kernel.places[spec.data.buffer]
        n, h, w, _ = whole.data.strides
        data = Access(0, whole.data.offset, (n, h, w, pack.channels))
    else:
        shape = (whole.batch * rows * columns + spare, channels)
        narrow = kernel.add(Storage(Role.SCRATCH, 0, shape, encoding.dtype, encoding=encoding))
        first = Narrowing(
            (source.physical, kernel.storages[narrow].physical),
            whole.batch,
            (rows, columns),
            whole.channels * whole.groups,
            replace(whole.data, buffer=0),
            whole.prologue,
            pads,
            whole.window.input,
        )
        before.append(kernel.beside(first, (kernel.places[spec.data.buffer], narrow)))
    # The data are read as floats only if a statement adds them.
    read = {access.buffer for access in accesses(whole.statements)} | {whole.weight}
    used = sorted(read)

    def at(access: Access) -> Access:
        return replace(access, buffer=1 + used.index(access.buffer))

    second = replace(
        whole,
        window=window,
        channels=packs,
        data=data,
        prologue=ACC,
        weight=1 + used.index(whole.weight),
        parts=all_parts(whole),
        statements=tuple(statement.mapped(at) for statement in whole.statements),
    )
    second = replace(second, blocking=cutter.blocking(second))
    width = cutter.width(second.blocking)
    pack_weights(weight, second.parts, width, pack, packs * pack.channels)
    shapes = (kernel.storages[narrow].shape, *(kernel.storage(buffer).physical for buffer in used))
    places = (narrow, *(kernel.places[buffer] for buffer in used))
    return before, kernel.beside(replace(second, buffers=shapes), places)


def all_parts(spec: Contraction) -> tuple[int, ...]:
    """Return the parts of the output channels of all groups."""
    return spec.parts if spec.groups == 1 else spec.parts * spec.groups


def pack_weights(
    weight: Storage, parts: Sequence[int], width: int, pack: Pack, channels: int
) -> None:
    """Pack weights in blocks in the pack's data type, input channels of a pack adjacent.

    ``channels`` counts a group's input channels, with those that are filled with zeros.
    """
    packing = packing_channels(weight.shape, parts, width, pack.channels, channels)
    weight.dtype = pack.weights
    weight.shape = packing.shape(weight.shape)
    weight.transform = ParamTransform((*weight.transform.steps, *packing.steps, pack.step))


def _lies_so(spec: Contraction, window: Window) -> bool:
    """Return whether an unpadded window can read the data in place, channels innermost."""
    axes = zip(window.input, spec.window.input, spec.window.pads, strict=True)
    inside = all(wanted <= there and pad == 0 for wanted, there, pad in axes)
    _, _, pixel, channel = spec.data.strides
    # Columns of the kernel are read like channels of one pixel.
    follow = spec.window.kernel[1] == 1 or pixel == spec.channels * spec.groups
    return inside and follow and channel == 1


def _with_borders(window: Window) -> Window:
    """Return the unpadded window over an image that includes all pixels read."""
    axes = zip(window.output, window.strides, window.kernel, window.dilations, strict=True)
    rows, columns = ((n - 1) * stride + (k - 1) * step + 1 for n, stride, k, step in axes)
    return replace(window, input=(rows, columns), pads=(0, 0))
