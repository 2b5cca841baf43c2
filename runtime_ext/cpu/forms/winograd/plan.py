"""Convolutions by Winograd's filtering: which fit, and the two kernels that compute one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from runtime_ext.cpu.forms.winograd.spec import WinogradInput, WinogradOutput, WinogradTiles
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
    """Return two kernels of a convolution: one transforms the input, one multiplies and stores.

    Its spec must fit (see :func:`fits`) and is not cut yet. The weights' storage gets the
    transform, a new one the transformed input.
    """
    spec = kernel.spec
    tiles = WinogradTiles(spec.batch, spec.window, spec.channels, cut.outputs, cut.block)
    weight = kernel.storage(spec.weight)
    step = ParamTransform((("winograd", cut.outputs),))
    weight.shape = step.shape(weight.shape)
    pack = packing(weight.shape, spec.parts, cut.width)
    weight.shape = pack.shape(weight.shape)
    weight.transform = ParamTransform((*weight.transform.steps, *step.steps, *pack.steps))
    transformed = kernel.add(Storage(Role.SCRATCH, 0, tiles.shape))
    source = kernel.storage(spec.data.buffer)
    first = WinogradInput(
        (source.physical, tiles.shape), tiles, replace(spec.data, buffer=0), spec.prologue
    )
    # The second kernel reads the input only if a statement adds it.
    read = dict.fromkeys(access.buffer for access in accesses(spec.statements))
    used = [spec.weight, *(buffer for buffer in read if buffer != spec.weight)]
    second = WinogradOutput(
        (tiles.shape, *(kernel.storage(buffer).physical for buffer in used)),
        tiles,
        data=0,
        weight=1,
        parts=spec.parts,
        rows=cut.rows,
        vectors=cut.vectors,
        statements=tuple(
            statement.mapped(lambda at: replace(at, buffer=1 + used.index(at.buffer)))
            for statement in spec.statements
        ),
    )
    return [
        kernel.beside(first, (kernel.places[spec.data.buffer], transformed)),
        kernel.beside(second, (transformed, *(kernel.places[buffer] for buffer in used))),
    ]
