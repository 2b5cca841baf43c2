"""Random convolutions of a kernel library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from runtime_ext.kernels.library_convolution import PRECISIONS, Image, LibraryConvolution
from tests.cuda.convolutions import packed


@st.composite
def convolutions(draw: Callable[[Any], Any]) -> LibraryConvolution:
    """Buffers are data, weight, result, bias and residual, as far as there are any."""
    number = st.integers(1, 3)
    groups, per_group, n = draw(number), draw(number), draw(st.integers(1, 2))
    out = groups * draw(number)
    kernel = draw(st.tuples(number, number))
    pads = tuple(draw(st.integers(0, k - 1)) for k in kernel)
    strides, dilations = draw(st.tuples(number, number)), draw(st.tuples(number, number))
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    extents = tuple(
        max(1, r - 2 * p) + draw(st.integers(0, 4)) for r, p in zip(reach, pads, strict=True)
    )
    result = tuple(
        (e + 2 * p - r) // s + 1 for e, p, r, s in zip(extents, pads, reach, strides, strict=True)
    )
    last = draw(st.booleans())
    data = (n, groups * per_group, *extents)
    shape = (n, out, *result)
    bias = draw(st.booleans())
    offset = draw(st.sampled_from((0, 8)))
    target = Image(2, offset, shape, packed(shape, last))
    added = Image(4, 0, shape, target.strides) if bias and draw(st.booleans()) else None
    return LibraryConvolution(
        data=Image(0, draw(st.sampled_from((0, 16))), data, packed(data, last)),
        result=target,
        weight=1,
        filter=(out, per_group, *kernel),
        channels_last=last,
        pads=pads,
        strides=strides,
        dilations=dilations,
        groups=groups,
        bias=3 if bias else None,
        residual=added,
        # The stand-in of cuDNN has no algorithm for a bias alone where pixels are skipped.
        relu=bias and (dilations != (1, 1) or draw(st.booleans())),
        precision=draw(st.sampled_from(PRECISIONS)),
    )
