"""Convolutions that a kernel library computes: which fit, and the kernel of the rest."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from runtime_ext.kernels.expression import ACC, Access, Expr, substitute
from runtime_ext.kernels.library_convolution import Four, Image, LibraryConvolution
from runtime_ext.kernels.spec import (
    Contraction,
    Pointwise,
    Pooling,
    Statement,
    Window,
    accesses,
    extents,
)
from runtime_ext.units.pixel_rows import merge_pixels
from runtime_ext.units.placed import Placed
from runtime_ext.units.values import Storage
from tvm_ios.program.constant_transform import ParamTransform
from tvm_ios.program.program import Role

_ZERO: Expr = ("const", 0.0)


def by_library(
    kernel: Placed[Contraction | Pooling], precision: str
) -> list[Placed[LibraryConvolution | Pointwise]] | None:
    """Return a library call of a convolution and, if needed, a kernel of the statements left over.

    Return None if the library cannot compute it: a pool, an activated input, padding that differs
    at both ends, no image. ``kernel`` is not cut yet; the weights' storage gets the library's
    layout, an unfused result a new one. For ``precision`` see
    :class:`runtime_ext.cuda.compiler.CudaKernelCompiler`.
    """
    spec = kernel.spec
    if spec.weight is None:
        return None
    weight = kernel.storage(spec.weight)
    call = _call(spec, spec.weight, _filter(spec, weight), precision)
    if call is None:
        return None
    if isinstance(spec, Pooling):
        # Keep the weights as the model has them: only our own kernels reorder them.
        weight.transform, weight.shape = ParamTransform(), call.filter
    if call.channels_last:
        weight.transform = ParamTransform((*weight.transform.steps, ("transpose", (0, 2, 3, 1))))
        weight.shape = tuple(weight.shape[axis] for axis in (0, 2, 3, 1))
    fused = _fused(call, spec)
    if fused is not None:
        return [_renumbered(fused, kernel)]
    n, c, h, w = call.result.extents
    shape = (n, h, w, c) if call.channels_last else call.result.extents
    result = kernel.add(Storage(Role.SCRATCH, 0, shape))
    kernel = kernel.beside(spec, (*kernel.places, result))
    return [_renumbered(call, kernel), _epilogue(kernel, call.result, shape)]


def _filter(spec: Contraction | Pooling, weight: Storage) -> Four:
    """Return the extents of the model's weights."""
    if isinstance(spec, Pooling):
        return spec.channels, 1, *spec.window.kernel
    out, per_group, rows, columns = weight.shape
    return out, per_group, rows, columns


def _call(
    spec: Contraction | Pooling, weight: int, filter_shape: Four, precision: str
) -> LibraryConvolution | None:
    """Return the convolution alone; its result is a buffer after all others. None if unfit."""
    window = spec.window
    if spec.prologue != ACC or not _symmetric(window):
        return None
    out, per_group, _, _ = filter_shape
    groups = spec.channels if isinstance(spec, Pooling) else spec.groups
    channels = per_group * groups
    last = (spec.data if channels > 1 else spec.statements[0].target).strides[3] == 1
    data = _image(spec.data, (spec.batch, channels, *window.input), last)
    if data is None:
        return None
    shape = (spec.batch, out, *window.output)
    return LibraryConvolution(
        data=data,
        result=Image(len(spec.buffers), 0, shape, _packed(shape, last)),
        weight=weight,
        filter=filter_shape,
        channels_last=last,
        pads=window.pads,
        strides=window.strides,
        dilations=window.dilations,
        groups=groups,
        bias=None,
        residual=None,
        relu=False,
        precision=precision,
    )


def _symmetric(w: Window) -> bool:
    """Return whether the padding that is read is the same at both ends."""
    axes = zip(w.input, w.output, w.kernel, w.strides, w.pads, w.dilations, strict=True)
    for extent, result, kernel, stride, pad, dilation in axes:
        free = extent + 2 * pad - (kernel - 1) * dilation - 1
        if pad < 0 or free < 0 or free // stride + 1 != result:
            return False
    return True


def _packed(shape: Four, last: bool) -> Four:
    """Return the strides of a contiguous image, its channels innermost (``last``) or outermost."""
    _, c, h, w = shape
    return (c * h * w, 1, w * c, c) if last else (c * h * w, h * w, w, 1)


def _image(at: Access, shape: Four, last: bool) -> Image | None:
    """Return the image that an access reads or writes; None if it is broadcast."""
    n, h, w, c = at.strides
    strides = (n, c, h, w)
    if any(stride <= 0 for stride, extent in zip(strides, shape, strict=True) if extent > 1):
        return None
    # The stride of an axis of one element does not matter, but libraries look at it: make it a
    # packed image's.
    axes = zip(strides, _packed(shape, last), shape, strict=True)
    a, b, d, e = (stride if extent > 1 else packed for stride, packed, extent in axes)
    return Image(at.buffer, at.offset, shape, (a, b, d, e))


def _fused(call: LibraryConvolution, spec: Contraction | Pooling) -> LibraryConvolution | None:
    """Return the call with its statement (bias, residual, ReLU) fused; None if unsupported."""
    shape, last = call.result.extents, call.channels_last
    statement = spec.statements[0]
    result = _image(statement.target, shape, last)
    if len(spec.statements) > 1 or result is None or not _is_in_order(result, last):
        return None
    value, relu = _without_relu(statement.value)
    terms = _terms(value)
    reads: list[Access] = [term[1] for term in terms if term[0] == "load"]
    if terms.count(ACC) != 1 or len(reads) != len(terms) - 1:
        return None
    biases = [at for at in reads if at.strides[:3] == (0, 0, 0)]
    images = [_image(at, shape, last) for at in reads if at not in biases]
    if not biases and not images and not relu:
        return replace(call, result=result)
    if len(biases) != 1 or len(images) > 1:
        return None
    (bias,), residual = biases, images[0] if images else None
    if images and (residual is None or residual.strides != result.strides):
        return None
    if bias.offset or bias.strides[3] != 1 or prod(extents(spec.buffers[bias.buffer])) != shape[1]:
        return None
    return replace(call, result=result, bias=bias.buffer, residual=residual, relu=relu)


def _is_in_order(image: Image, last: bool) -> bool:
    """Return whether the channels are innermost (``last``) or outermost in memory."""
    axes = [
        stride
        for axis in ((2, 3, 1) if last else (1, 2, 3))
        if image.extents[axis] > 1 and (stride := image.strides[axis])
    ]
    return axes == sorted(axes, reverse=True)


def _without_relu(value: Expr) -> tuple[Expr, bool]:
    if value[0] == "max" and _ZERO in value[1:]:
        _, one, other = value
        return (other if one == _ZERO else one), True
    return value, False


def _terms(value: Expr) -> list[Expr]:
    return [*_terms(value[1]), *_terms(value[2])] if value[0] == "add" else [value]


def _renumbered(
    call: LibraryConvolution, kernel: Placed[Contraction | Pooling]
) -> Placed[LibraryConvolution]:
    """Return the call, numbered as the kernel, with the buffers alone that it uses."""
    arguments = (call.data.argument, call.weight, call.result.argument, call.bias)
    residual = None if call.residual is None else call.residual.argument
    used = [n for n in dict.fromkeys((*arguments, residual)) if n is not None]

    def moved(image: Image) -> Image:
        return replace(image, argument=used.index(image.argument))

    placed = replace(
        call,
        data=moved(call.data),
        weight=used.index(call.weight),
        result=moved(call.result),
        bias=None if call.bias is None else used.index(call.bias),
        residual=None if call.residual is None else moved(call.residual),
    )
    return kernel.beside(placed, (kernel.places[n] for n in used))


def _epilogue(
    kernel: Placed[Contraction | Pooling], result: Image, shape: tuple[int, ...]
) -> Placed[Pointwise]:
    """Return a kernel of the statements, which reads the library's result."""
    spec = kernel.spec
    n, c, h, w = result.strides

    def of_result(statement: Statement) -> Statement:
        read: Expr = ("load", Access(result.argument, statement.begin * c, (n, h, w, c)))
        value = substitute(statement.value, lambda x: read if x == ACC else x)
        return replace(statement, value=value, begin=0)

    statements = tuple(map(of_result, spec.statements))
    buffers = list(dict.fromkeys(at.buffer for at in accesses(statements)))
    shapes = (*spec.buffers, shape)

    def renumbered(at: Access) -> Access:
        return replace(at, buffer=buffers.index(at.buffer))

    pointwise = Pointwise(
        tuple(shapes[n] for n in buffers),
        (spec.batch, *spec.window.output),
        tuple(statement.mapped(renumbered) for statement in statements),
    )
    return kernel.beside(merge_pixels(pointwise), (kernel.places[n] for n in buffers))
