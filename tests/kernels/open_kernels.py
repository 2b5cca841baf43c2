"""Run kernels of open extents: parts of their tiles in any order, memory around each tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import tvm

from runtime_ext.cpu.kernel_build import build_kernel
from runtime_ext.cpu.linker import link
from runtime_ext.isa.arm import AARCH64
from runtime_ext.isa.isa import Isa
from runtime_ext.isa.levels import isa_of
from runtime_ext.kernels.spec import extents
from runtime_ext.target_architecture import machine_of
from tests.arm.emulator import emulator
from tests.fast_run import is_fast
from tests.kernels.kernel_harness import in_brief, targets
from tvm_ios.files.array_files import Array
from tvm_ios.program.program import LINE
from tvm_ios.shapes.extent import at_values, evaluate

TARGETS = targets("avx2", "avx512")
on_targets = pytest.mark.parametrize("target", TARGETS)


def cases_on_targets(**axes: Iterable[Any]) -> pytest.MarkDecorator:
    """All cases on all targets, of which a fast run takes each case on one target in turn.

    A case has a value of each axis; those of a mapping are named by its keys.
    """
    named = [
        list(axis.items()) if isinstance(axis, Mapping) else [(str(x), x) for x in axis]
        for axis in axes.values()
    ]
    parameters: list[Any] = []
    for places in product(*(range(len(axis)) for axis in named)):
        case = [axis[place] for axis, place in zip(named, places, strict=True)]
        for number, target in enumerate(TARGETS):
            is_left_out = is_fast() and number != sum(places) % len(TARGETS)
            marks = pytest.mark.slow if is_left_out else ()
            name = "-".join([*(name for name, _ in case), target])
            parameters.append(pytest.param(*(x for _, x in case), target, marks=marks, id=name))
    return pytest.mark.parametrize((*axes, "target"), parameters)


rng = np.random.default_rng(0)
#: What is behind a tensor, where kernels may read, and what is behind that; neither may change.
_BEHIND, _BEHIND_INTEGERS = (np.nan, -123.25), (85, 85)


class OpenKernel:
    """A kernel compiled once, to be run at any values of its symbols."""

    def __init__(self, spec: Any, target: Mapping[str, Any], isa: Isa | None = None) -> None:
        self.spec = spec
        made = tvm.target.Target(in_brief(target))
        artefact, self.module = build_kernel(spec, "test", made, isa or isa_of(made))
        (self.phase,) = artefact.phases
        # What is not optimised takes long to compile in memory.
        with TemporaryDirectory() as folder:
            code, library = Path(folder, "kernel.o"), Path(folder, "kernel.so")
            self.module.write_to_file(str(code))
            if machine_of(made) == AARCH64:
                self._function = emulator().open([code])(self.phase.symbol)
                return
            link(library, [code])
            self._function = tvm.runtime.load_module(str(library))[self.phase.symbol]

    def tiles(self, values: Mapping[str, int]) -> int:
        """The number of tiles at a shape."""
        return evaluate(self.phase.tiles, values)

    def run(
        self, values: Mapping[str, int], arrays: Sequence[Array], borders: Sequence[int] = ()
    ) -> list[Array]:
        """The tensors after all tiles have run, those of the last part first.

        Behind each tensor is a cache line that may be read, of numbers that are none, and one of
        others; neither may change.
        """
        shapes = [tuple(extents(s)) for s in at_values(self.spec.buffers, values)]
        memory: list[Any] = []
        for array, shape in zip(arrays, shapes, strict=True):
            assert array.shape == shape, (array.shape, shape)
            memory.append(tvm.runtime.tensor(np.append(array, _behind(array.dtype))))
        scalars = [values[name] for name in self.phase.scalars]
        cuts = [0, *sorted(borders), self.tiles(values)]
        for begin, end in reversed(list(pairwise(cuts))):
            arguments = [memory[a] for a in self.phase.arguments]
            self._function(*arguments, *scalars, begin, end)
        results: list[Array] = []
        for tensor, shape in zip(memory, shapes, strict=True):
            whole, size = tensor.numpy(), int(np.prod(shape))
            behind = _behind(whole.dtype)
            assert np.array_equal(whole[size:], behind, equal_nan=True), "written behind a tensor"
            results.append(whole[:size].reshape(shape))
        return results


def _behind(dtype: np.dtype[Any]) -> Array:
    numbers = _BEHIND if dtype == np.float32 else _BEHIND_INTEGERS
    return np.repeat(np.array(numbers, dtype), LINE * 4 // dtype.itemsize)


@cache
def kernel_of(spec: Any, target: str) -> OpenKernel:
    return OpenKernel(spec, TARGETS[target])


def random(*shape: int) -> Array:
    return rng.standard_normal(shape, np.float32)


def nothing(*shape: int) -> Array:
    return np.full(shape, np.nan, np.float32)


def compared(
    kernel: OpenKernel,
    values: Mapping[str, int],
    arrays: Sequence[Array],
    want: Array,
    tolerance: float = 1e-5,
    floor: float = 0.0,
) -> None:
    """Compare the last tensor's first elements of each row, and the bits of two partitions.

    Errors are relative to the largest element, or to ``floor`` if that is larger.
    """
    tiles = kernel.tiles(values)
    got = kernel.run(values, arrays)[-1]
    parts = kernel.run(values, arrays, rng.integers(0, tiles + 1, 3).tolist())[-1]
    have = got[..., : want.shape[-1]]
    assert have.tobytes() == parts[..., : want.shape[-1]].tobytes(), values
    error = np.abs(have - want).max() / max(floor, np.abs(want).max())
    assert error < tolerance, (values, error)
