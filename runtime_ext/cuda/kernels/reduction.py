"""Means, softmax and layer normalisation: teams of threads reduce in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, prod
from typing import Any

from tvm import tirx

from runtime_ext.cuda.kernels.statements import evaluate, fetch, pixel_at, store_statement
from runtime_ext.cuda.kernels.threads import THREADS, ThreadCode
from runtime_ext.kernels.code import LOWEST, Index, constant, load
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import Mean, Normalisation
from runtime_ext.kernels.statements import divide
from tvm_ios.costs.cuda_kernels.block_work import IN_FLIGHT
from tvm_ios.costs.cuda_kernels.stream_estimate import mean_channels
from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu

#: Elements of a row that a thread may keep in registers; of longer rows it reads them again.
_KEPT = 32


def mean(spec: Mean, buffers: list[Any], gpu: TargetGpu) -> Any:
    """Return the kernel of a spatial mean: teams of threads share the pixels of channels."""
    channels = mean_channels(spec.batch, prod(spec.pixels), spec.channels, gpu)
    blocks, teams = ceil(spec.channels / channels), THREADS // channels
    code = ThreadCode(spec.batch * blocks)
    image, part = divide(code, "image", code.block, blocks, spec.batch)
    team, lane = divide(code, "team", code.thread, channels, teams)
    channel = code.bind("channel", part * channels + lane)
    inside = None if spec.channels % channels == 0 else channel < spec.channels
    sums = code.shared("sums", THREADS)
    (acc,) = code.accumulators(1, 1)
    code.store(acc, 0, constant(0.0, 1), 1)
    sn, sh, sw, sc = spec.data.strides
    pixels = prod(spec.pixels)
    steps = ceil(pixels / teams)
    data, together = buffers[spec.data.buffer], min(IN_FLIGHT, steps)

    def exists(pixel: Index) -> Any:
        return None if steps % together == 0 and pixels % teams == 0 else pixel < pixels

    with code.branch(inside), code.loop("several", 0, ceil(steps / together)) as several:
        first = code.bind("first", several * (together * teams) + team)
        read = code.registers("read", together, str(data.ty.dtype))
        with code.unrolled("i", together) as i:
            pixel = code.bind("pixel", first + i * teams)
            with code.branch(exists(pixel)):
                y, x = divide(code, "y", pixel, spec.pixels[1], spec.pixels[0])
                at = spec.data.offset + image * sn + y * sh + x * sw + channel * sc
                code.store(read, i, load(data, code.bind("at", at), 1), 1)
        with code.unrolled("i", together) as i, code.branch(exists(first + i * teams)):
            value = fetch(read, i)
            if spec.prologue != ACC:
                value = evaluate(code, spec.prologue, value)
            code.store(acc, 0, load(acc, 0, 1) + value, 1)
    code.store(sums, code.thread, load(acc, 0, 1), 1)
    code.synchronise()
    with code.branch(code.thread < channels), code.branch(inside):
        total = load(sums, lane, 1)
        for other in range(1, teams):
            total = total + load(sums, lane + other * channels, 1)
        value = code.bind("value", total / constant(float(pixels), 1))
        for statement in spec.statements:
            store_statement(code, buffers, statement, (image, 0, 0), channel, lambda _: value, 1)
    return code.kernel(buffers)


def normalisation(spec: Normalisation, buffers: list[Any]) -> Any:
    """Return the kernel of softmax or layer normalisation: 32 or all threads share a row."""
    return _Normaliser(spec, buffers).kernel()


class _Normaliser:
    def __init__(self, spec: Normalisation, buffers: list[Any]) -> None:
        self.spec, self.buffers = spec, buffers
        self.rows = spec.grid[0] * spec.grid[1] * spec.grid[2]
        self.team = 32 if spec.count <= 64 else THREADS
        self.teams = THREADS // self.team
        self.steps = ceil(spec.count / self.team)
        self.code = ThreadCode(ceil(self.rows / self.teams))
        self.scratch = self.code.shared("scratch", THREADS)

    def kernel(self) -> Any:
        """Return the whole kernel."""
        spec, code = self.spec, self.code
        team, self.lane = divide(code, "team", code.thread, self.team, self.teams)
        self.first = code.bind("first", team * self.team)
        row = code.bind("row", code.block * self.teams + team)
        # All threads of a block meet at its barriers: beyond the last row they repeat it.
        exists = None if self.rows % self.teams == 0 else row < self.rows
        row = row if exists is None else code.bind("row", tirx.min(row, self.rows - 1))
        pixel = pixel_at(code, row, spec.grid)
        strides = zip(pixel, spec.data.strides, strict=False)
        self.origin = code.bind("origin", spec.data.offset + sum(i * s for i, s in strides))
        self.kept = code.registers("kept", self.steps) if self.steps <= _KEPT else None
        if self.kept is not None:
            self._each(lambda step, at: code.store(self.kept, step, self._read(at), 1))
        change = self._softmax() if spec.kind == "softmax" else self._layer_norm()

        def store(step: Index, at: Index) -> None:
            value = code.bind("value", change(self._value(step, at)))
            for statement in spec.statements:
                store_statement(code, self.buffers, statement, pixel, at, lambda _: value, 1)

        with code.branch(exists):
            self._each(store)
        return code.kernel(self.buffers)

    def _softmax(self) -> Callable[[Any], Any]:
        """Reduce the row; return the function ``exp(x - largest) / sum`` of its elements."""
        largest = self._reduce(tirx.max, LOWEST, lambda x: x)

        def grown(x: Any) -> Any:
            return tirx.exp(x - largest)

        total = self._reduce(_add, 0.0, grown)
        return lambda x: grown(x) / total

    def _layer_norm(self) -> Callable[[Any], Any]:
        """Reduce the row; return the function ``(x - mean) / sqrt(variance + epsilon)``.

        The variance is computed from centred values.
        """
        count = constant(float(self.spec.count), 1)
        centre = self._number(self._reduce(_add, 0.0, lambda x: x) / count)
        squares = self._reduce(_add, 0.0, lambda x: (x - centre) * (x - centre))
        root = tirx.sqrt(squares / count + constant(self.spec.epsilon, 1))
        factor = self._number(constant(1.0, 1) / root)
        return lambda x: (x - centre) * factor

    def _reduce(
        self, combine: Callable[[Any, Any], Any], neutral: float, of: Callable[[Any], Any]
    ) -> Any:
        """Reduce ``of(x)`` over the row; every thread of the team gets the result.

        The order of the reduction is always the same.
        """
        code = self.code
        (acc,) = code.accumulators(1, 1)
        code.store(acc, 0, constant(neutral, 1), 1)

        def gather(step: Index, at: Index) -> None:
            code.store(acc, 0, combine(load(acc, 0, 1), of(self._value(step, at))), 1)

        self._each(gather)
        code.store(self.scratch, code.thread, load(acc, 0, 1), 1)
        code.synchronise()
        half = self.team // 2
        while half:
            with code.branch(self.lane < half):
                both = combine(
                    load(self.scratch, code.thread, 1), load(self.scratch, code.thread + half, 1)
                )
                code.store(self.scratch, code.thread, both, 1)
            code.synchronise()
            half //= 2
        result = self._number(load(self.scratch, self.first, 1))
        code.synchronise()
        return result

    def _each(self, use: Callable[[Index, Index], None]) -> None:
        """Call ``use`` for this thread's elements: their number in the thread, and in the row."""
        code, count = self.code, self.spec.count
        unrolled = self.steps <= _KEPT
        loop = code.unrolled("step", self.steps) if unrolled else code.loop("step", 0, self.steps)
        with loop as step:
            at = code.bind("at", step * self.team + self.lane)
            with code.branch(None if count % self.team == 0 else at < count):
                use(step, at)

    def _value(self, step: Index, at: Index) -> Any:
        return load(self.kept, step, 1) if self.kept is not None else self._read(at)

    def _read(self, at: Index) -> Any:
        spec, code = self.spec, self.code
        place = code.bind("place", self.origin + at * spec.data.strides[3])
        value = fetch(self.buffers[spec.data.buffer], place)
        if spec.prologue != ACC:
            value = evaluate(code, spec.prologue, value)
        return value

    def _number(self, value: Any) -> Any:
        (register,) = self.code.accumulators(1, 1)
        self.code.store(register, 0, value, 1)
        return load(register, 0, 1)


def _add(a: Any, b: Any) -> Any:
    return a + b
