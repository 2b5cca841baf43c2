"""Convert drafts of kernels to descriptions, from which alone code is written."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from runtime_ext.kernels.expression import Access, Expr, map_accesses, windows
from runtime_ext.kernels.spec import Contraction, Pointwise, Pooling, Product, Spec, Statement
from runtime_ext.units.kernel_draft import KernelDraft
from runtime_ext.units.pixel_rows import merge_pixels
from runtime_ext.units.placed import Placed
from runtime_ext.units.values import Storage, shift


def described(draft: KernelDraft, storages: list[Storage]) -> Placed[Spec]:
    """Return the kernel that a draft describes; contractions are not cut yet."""
    order: list[int] = []

    def local(at: Access) -> Access:
        if at.buffer not in order:
            order.append(at.buffer)
        n, h, w, c = (at.strides[axis] for axis in draft.axes)
        return Access(order.index(at.buffer), at.offset, (n, h, w, c))

    anchor = draft.anchor
    data = weight = None
    if anchor is not None:
        data = local(anchor.data)
        if isinstance(anchor, Product):
            anchor = replace(anchor, other=local(anchor.other))
        if isinstance(anchor, Contraction | Pooling) and anchor.weight is not None:
            weight = local(Access(anchor.weight, 0, (0, 0, 0, 0))).buffer
    if anchor is None:
        draft.statements = [part for s in draft.statements for part in _unfold(s, draft)]
    if isinstance(anchor, Contraction):
        draft.statements = [part for s in draft.statements for part in _by_phase(s, draft)]
        anchor = replace(anchor, parts=_parts(anchor, draft.statements))
    split = _parted(draft, anchor)
    values = [map_accesses(s.value, local) for s in split]
    statements = tuple(
        Statement(value, local(s.target), s.begin, s.count)
        for value, s in zip(values, split, strict=True)
    )
    shapes = tuple(storages[s].physical for s in order)
    if anchor is None:
        n, h, w = (draft.extents[axis] for axis in draft.axes[:3])
        pointwise = merge_pixels(Pointwise(shapes, (n, h, w), statements))
        return Placed(pointwise, tuple(order), storages)
    assert data is not None
    spec = replace(anchor, buffers=shapes, data=data, statements=statements)
    if isinstance(spec, Contraction):
        assert weight is not None
    if isinstance(spec, Contraction | Pooling):
        spec = replace(spec, weight=weight)
    return Placed(spec, tuple(order), storages)


def _unfold(statement: Statement, draft: KernelDraft) -> list[Statement]:
    """Expand windows over channels into sums; channels near either end get their own statements."""
    leaves = list(windows(statement.value))
    if not leaves:
        return [statement]
    axis = draft.channel_axis
    channels_before, channels_after = (
        max(0, *(w[2] for w in leaves)),
        max(0, *(w[3] for w in leaves)),
    )
    extent = statement.count
    edges = {*range(min(channels_before, extent)), *range(max(0, extent - channels_after), extent)}
    ranges = [(c, 1) for c in sorted(edges)]
    if extent > channels_before + channels_after:
        ranges.append((channels_before, extent - channels_before - channels_after))
    unfolded: list[Statement] = []
    for begin, count in ranges:

        def total(expr: Expr, begin: int = begin, count: int = count) -> Expr:
            if expr[0] == "window":
                low, high = max(-expr[2], -begin), min(expr[3], extent - begin - count)
                if low > high:
                    return ("const", 0.0)
                value = shift(expr[1], axis, low)
                for by in range(low + 1, high + 1):
                    value = ("add", value, shift(expr[1], axis, by))
                return value
            if expr[0] in ("acc", "const", "load"):
                return expr
            return (expr[0], *(total(e) for e in expr[1:]))

        whole = Statement(total(statement.value), statement.target, 0, count)
        unfolded.append(_moved(whole, axis, begin, 0, count))
    return unfolded


def _by_phase(statement: Statement, draft: KernelDraft) -> list[Statement]:
    """Return a statement for each phase of a transposed convolution's results."""
    rows, columns = draft.phases
    if draft.phases == (1, 1):
        return [statement]
    assert isinstance(draft.anchor, Contraction)
    channels = sum(draft.anchor.parts) // (rows * columns)
    phases_statements: list[Statement] = []
    for phase in range(rows * columns):
        row, column = divmod(phase, columns)

        def at(access: Access, row: int = row, column: int = column) -> Access:
            n, c, h, w = access.strides
            offset = access.offset + row * h + column * w
            return Access(access.buffer, offset, (n, c, h * rows, w * columns))

        of_phase = statement.mapped(at)
        phases_statements.append(replace(of_phase, begin=statement.begin + phase * channels))
    return phases_statements


def _parts(anchor: Contraction, statements: list[Statement]) -> tuple[int, ...]:
    """Return the runs of output channels between borders of statements; each is padded alone."""
    if anchor.groups > 1:
        return anchor.parts
    borders = {0, sum(anchor.parts)}
    for statement in statements:
        borders |= {statement.begin, statement.begin + statement.count}
    ordered = sorted(borders)
    return tuple(b - a for a, b in pairwise(ordered))


def _parted(draft: KernelDraft, anchor: Spec | None) -> list[Statement]:
    """Return the statements, split at the borders of a contraction's parts."""
    if not isinstance(anchor, Contraction) or anchor.groups > 1:
        return draft.statements
    cut_statements: list[Statement] = []
    for statement in draft.statements:
        begin = 0
        for part in anchor.parts:
            covered = statement.begin <= begin and begin + part <= statement.begin + statement.count
            if covered:
                by = begin - statement.begin
                cut_statements.append(_moved(statement, draft.channel_axis, by, begin, part))
            begin += part
    return cut_statements


def _moved(statement: Statement, axis: int, by: int, begin: int, count: int) -> Statement:
    """Return the statement for other channels, its accesses moved ``by`` elements along an axis."""
    shifted = statement.mapped(lambda access: access.shifted(axis, by))
    return replace(shifted, begin=begin, count=count)
