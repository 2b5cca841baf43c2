"""Pooling and depthwise convolutions: a thread has a few neighbouring channels and pixels."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf, prod
from typing import Any, NamedTuple

from tvm import tirx

from runtime_ext.cuda.kernels.contraction_shape import has_borders
from runtime_ext.cuda.kernels.statements import (
    Pixel,
    evaluate,
    fetch,
    is_wide,
    statement_width,
    store_statement,
)
from runtime_ext.cuda.kernels.threads import ThreadCode
from runtime_ext.kernels.code import Index, constant, load
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import Pooling
from runtime_ext.kernels.statements import divide
from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu
from tvm_ios.costs.cuda_kernels.tile import THREADS, WIDE
from tvm_ios.costs.cuda_kernels.window_estimate import (
    SlidingWindow,
    WindowCut,
    best_cut,
    window_blocks,
    window_items,
)

#: Taps that are written out; larger windows become loops.
_WRITTEN_OUT = 49


def pooling(spec: Pooling, buffers: list[Any], gpu: TargetGpu, least_blocks: int = 1) -> Any:
    """Return the kernel of a pooling or depthwise convolution, of so many blocks if possible.

    A thread reads several taps before it uses the first. If there are too few results for the
    GPU, teams of threads share the taps.
    """
    window = sliding_window(spec)
    return _Writer(spec, buffers, window, best_cut(window, gpu, least_blocks)).kernel()


def sliding_window(spec: Pooling) -> SlidingWindow:
    """Return what the time of a pooling's kernel depends on."""
    height, across = spec.window.output
    one = spec.data.strides[3] == 1 and is_wide(spec.data) and spec.channels % WIDE == 0
    return SlidingWindow(
        spec.batch * height,
        across,
        spec.channels,
        spec.window.kernel,
        weighted=spec.weight is not None,
        bordered=has_borders(spec.window),
        wide=one and all(statement_width(s) == WIDE for s in spec.statements),
    )


class _Read(NamedTuple):
    """The registers of one tap of one pixel, and whether the tap exists."""

    values: Index
    exists: Any


class _Writer:
    def __init__(
        self, spec: Pooling, buffers: list[Any], window: SlidingWindow, cut: WindowCut
    ) -> None:
        self.spec, self.buffers, self.window, self.cut = spec, buffers, window, cut
        self.items = window_items(window, cut)
        self.code = ThreadCode(window_blocks(window, cut))
        self.taps = prod(window.taps)

    def kernel(self) -> Any:
        """Return the whole kernel."""
        code, cut, lanes = self.code, self.cut, THREADS // self.cut.teams
        team, lane = divide(code, "team", code.thread, lanes, cut.teams)
        item = code.bind("item", code.block * lanes + lane)
        exists = None if self.items % lanes == 0 else item < self.items
        if cut.teams == 1:
            with code.branch(exists):
                place = self._place(item)
                self._store(place, *self._reduced(place, 0))
            return code.kernel(self.buffers)
        # All threads of a block meet at its barrier: beyond the last item they repeat it.
        if exists is not None:
            item = code.bind("item", tirx.min(item, self.items - 1))
        place = self._place(item)
        held = self._reduced(place, team)
        shared = [self._share(registers, lane, team) for registers in held if registers is not None]
        code.synchronise()
        with code.branch(team == 0), code.branch(exists):
            for registers, sums in zip(held, shared, strict=False):
                self._add_up(registers, sums, lane)
            self._store(place, *held)
        return code.kernel(self.buffers)

    def _place(self, item: Index) -> tuple[Pixel, Index]:
        """Return the first pixel and the first channel of a thread."""
        spec, code = self.spec, self.code
        height, across = spec.window.output
        strips, groups = ceil(across / self.cut.pixels), spec.channels // self.cut.width
        strip, group = divide(code, "strip", item, groups, self.items // groups)
        line, part = divide(code, "line", strip, strips, spec.batch * height)
        image, row = divide(code, "image", line, height, spec.batch)
        first = code.bind("first", part * self.cut.pixels)
        return (image, row, first), code.bind("channel", group * self.cut.width)

    def _reduced(self, place: tuple[Pixel, Index], team: Index) -> tuple[Any, Any]:
        """Return the registers of the sums of a team's taps, and of how many of them exist."""
        code, cut, most = self.code, self.cut, self.spec.kind == "max"
        acc = code.registers("acc", cut.pixels * cut.width)
        with code.unrolled("i", cut.pixels * cut.width) as i:
            code.store(acc, i, constant(-inf if most else 0.0, 1), 1)
        seen = code.registers("seen", cut.pixels) if self.spec.kind == "mean" else None
        if seen is not None:
            with code.unrolled("p", cut.pixels) as p:
                code.store(seen, p, constant(0.0, 1), 1)
        own = ceil(self.taps / cut.teams)
        loop = code.unrolled if own <= _WRITTEN_OUT else self._loop
        whole = own - own % cut.together
        if whole:
            with loop("several", whole // cut.together) as several:
                self._use(place, team, several * cut.together, cut.together, (acc, seen))
        if own > whole:
            self._use(place, team, whole, own - whole, (acc, seen))
        return acc, seen

    def _loop(self, name: str, extent: int) -> Any:
        return self.code.loop(name, 0, extent)

    def _use(
        self,
        place: tuple[Pixel, Index],
        team: Index,
        first: Index,
        count: int,
        held: tuple[Any, Any],
    ) -> None:
        """Read some taps of a team, then add them; taps that do not exist change nothing."""
        spec, code, cut = self.spec, self.code, self.cut
        acc, seen = held
        data = self.buffers[spec.data.buffer]
        read = code.registers("read", count * cut.pixels * cut.width, str(data.ty.dtype))
        weights = None
        if spec.weight is not None:
            dtype = str(self.buffers[spec.weight].ty.dtype)
            weights = code.registers("weights", count * cut.width, dtype)
        taps = [list(self._read(place, first + i, team, i, read, weights)) for i in range(count)]
        for i, pixels in enumerate(taps):
            for p, tap in enumerate(pixels):
                with code.unrolled("j", cut.width) as j:
                    value = fetch(read, tap.values + j)
                    if spec.prologue != ACC:
                        value = evaluate(code, spec.prologue, value)
                    if weights is not None:
                        value = value * fetch(weights, i * cut.width + j)
                    neutral = constant(-inf if spec.kind == "max" else 0.0, 1)
                    if tap.exists is not None:
                        value = tirx.Select(tap.exists, value, neutral)
                    element = p * cut.width + j
                    total = load(acc, element, 1)
                    added = tirx.max(total, value) if spec.kind == "max" else total + value
                    code.store(acc, element, added, 1)
                if seen is not None:
                    one = constant(1.0, 1)
                    if tap.exists is not None:
                        one = tirx.Select(tap.exists, one, constant(0.0, 1))
                    code.store(seen, p, load(seen, p, 1) + one, 1)

    def _read(
        self,
        place: tuple[Pixel, Index],
        number: Index,
        team: Index,
        slot: int,
        read: Any,
        weights: Any,
    ) -> Iterator[_Read]:
        """Read a tap of all pixels of a thread, and its weights, into registers.

        What does not exist is read from the nearest element that does.
        """
        spec, code, cut, window = self.spec, self.code, self.cut, self.spec.window
        (image, row, first), channel = place
        sn, sh, sw, sc = spec.data.strides
        tests: list[Any] = []
        tap: Index = number
        if cut.teams > 1:
            tap = code.bind("tap", number * cut.teams + team)
            if self.taps % cut.teams:
                tests.append(tap < self.taps)
                tap = code.bind("tap", tirx.min(tap, self.taps - 1))
        ky, kx = divide(code, "ky", tap, *reversed(window.kernel))
        y = code.bind("y", row * window.strides[0] + ky * window.dilations[0] - window.pads[0])
        if self.window.bordered:
            tests += [y >= 0, y < window.input[0]]
            y = code.bind("y", tirx.max(0, tirx.min(y, window.input[0] - 1)))
        if spec.weight is not None:
            at = code.bind("at", tap * spec.channels + channel)
            value = load(self.buffers[spec.weight], at, cut.width)
            code.store(weights, slot * cut.width, value, cut.width)
        for p in range(cut.pixels):
            x = (first + p) * window.strides[1] + kx * window.dilations[1] - window.pads[1]
            x, own = code.bind("x", x), list(tests)
            if self.window.bordered:
                own += [x >= 0, x < window.input[1]]
                x = code.bind("x", tirx.max(0, tirx.min(x, window.input[1] - 1)))
            elif window.output[1] % cut.pixels:
                x = code.bind("x", tirx.min(x, window.input[1] - 1))
            at = spec.data.offset + image * sn + y * sh + x * sw + channel * sc
            value = load(self.buffers[spec.data.buffer], code.bind("at", at), cut.width)
            values = (slot * cut.pixels + p) * cut.width
            code.store(read, values, value, cut.width)
            yield _Read(values, tirx.all(*own) if own else None)

    def _share(self, registers: Any, lane: Index, team: Index) -> Any:
        """Store a thread's sums into shared memory; return it."""
        code, count = self.code, int(registers.ty.shape[0])
        lanes = THREADS // self.cut.teams
        sums = code.shared("sums", count * THREADS)
        with code.unrolled("i", count) as i:
            at = code.bind("at", (i * self.cut.teams + team) * lanes + lane)
            code.store(sums, at, load(registers, i, 1), 1)
        return sums

    def _add_up(self, registers: Any, sums: Any, lane: Index) -> None:
        """Add what the other teams have stored, in order."""
        code, count = self.code, int(registers.ty.shape[0])
        lanes, most = THREADS // self.cut.teams, self.spec.kind == "max"
        with code.unrolled("i", count) as i:
            for team in range(1, self.cut.teams):
                at = code.bind("at", (i * self.cut.teams + team) * lanes + lane)
                total, other = load(registers, i, 1), load(sums, at, 1)
                added = tirx.max(total, other) if most else total + other
                code.store(registers, i, added, 1)

    def _store(self, place: tuple[Pixel, Index], acc: Any, seen: Any) -> None:
        spec, code, cut = self.spec, self.code, self.cut
        (image, row, first), channel = place
        across = spec.window.output[1]
        with code.unrolled("p", cut.pixels) as p:
            x = code.bind("x", first + p)
            with code.branch(None if across % cut.pixels == 0 else x < across):

                def value(j: Index, p: Index = p) -> Any:
                    result = load(acc, p * cut.width + j, 1)
                    if seen is not None:
                        return result / tirx.max(load(seen, p, 1), constant(1.0, 1))
                    return result

                for statement in spec.statements:
                    store_statement(
                        code, self.buffers, statement, (image, row, x), channel, value, cut.width
                    )
