"""Convolutions by Winograd's filtering: which fit, and the two kernels that compute one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from runtime_ext.cpu.forms.winograd.spec import (
    WinogradConvolution,
    WinogradInput,
    WinogradOutput,
    WinogradTiles,
)
from runtime_ext.kernels.spec import Contraction, accesses
from runtime_ext.units.placed import Placed
from runtime_ext.units.unit import FormKernel
from runtime_ext.units.values import Storage
from tvm_ios.program.constant_transform import ParamTransform, packing
from tvm_ios.program.program import Role
from tvm_ios.program.winograd import can_filter


@dataclass(frozen=True, slots=True)
class WinogradCut:
    """The cut of a convolution by Winograd's filtering for a device.

    A tile has ``outputs`` results along each axis where the filter has more than one tap;
    ``block`` tiles are multiplied and transformed together. The register tile of the product is
    ``rows`` tiles by ``vectors`` vectors, which have ``width`` output channels.
    """

    outputs: int
    block: int
    rows: int
    vectors: int
    width: int
    #: Whether one kernel does all, a block after another.
    is_fused: bool = False


def fits(spec: Contraction, outputs: int) -> bool:
    """Return whether Winograd's filtering with ``outputs`` results a tile fits a contraction."""
    window = spec.window
    return (
        spec.has_known_channels
        and spec.groups == 1
        and window.strides == window.dilations == (1, 1)
        and can_filter(outputs, window.kernel)
    )


def by_winograd(kernel: Placed[Contraction], cut: WinogradCut) -> list[Placed[FormKernel]]:
    """Return the kernels of a convolution: one transforms the input, one multiplies and stores.

    Or one does both. Its spec must fit (see :func:`fits`) and is not cut yet. The weights' storage
    gets the transform, a new one the transformed input.
    """
    spec = kernel.spec
    tiles = WinogradTiles(spec.batch, spec.window, spec.channels, cut.outputs, cut.block)
    weight = kernel.storage(spec.weight)
    step = ParamTransform((("winograd", cut.outputs),))
    weight.shape = step.shape(weight.shape)
    pack = packing(weight.shape, spec.parts, cut.width)
    weight.shape = pack.shape(weight.shape)
    weight.transform = ParamTransform((*weight.transform.steps, *step.steps, *pack.steps))
    # The second kernel reads the input only if a statement adds it.
    read = dict.fromkeys(access.buffer for access in accesses(spec.statements))
    used = [spec.weight, *(buffer for buffer in read if buffer != spec.weight)]
    statements = tuple(
        statement.mapped(lambda at: replace(at, buffer=1 + used.index(at.buffer)))
        for statement in spec.statements
    )
    shapes = tuple(kernel.storage(buffer).physical for buffer in used)
    places = tuple(kernel.places[buffer] for buffer in used)
    data, read_place = kernel.storage(spec.data.buffer), kernel.places[spec.data.buffer]
    access = replace(spec.data, buffer=0)
    cut_products = {"weight": 1, "parts": spec.parts, "rows": cut.rows, "vectors": cut.vectors}
    if cut.is_fused:
        whole = WinogradConvolution(
            (data.physical, *shapes),
            tiles,
            access,
            spec.prologue,
            statements=statements,
            **cut_products,
        )
        return [kernel.beside(whole, (read_place, *places))]
    transformed = kernel.add(Storage(Role.SCRATCH, 0, tiles.shape))
    first = WinogradInput((data.physical, tiles.shape), tiles, access, spec.prologue)
    second = WinogradOutput(
        (tiles.shape, *shapes), tiles, data=0, statements=statements, **cut_products
    )
    return [
        kernel.beside(first, (read_place, transformed)),
        kernel.beside(second, (transformed, *places)),
    ]
