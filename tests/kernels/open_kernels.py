"""Run kernels of open extents: parts of their tiles in any order, memory around each tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import tvm

from runtime_ext.cpu.kernel_build import build_kernel
from runtime_ext.isa.levels import isa_of
from runtime_ext.kernels.spec import extents
from tvm_ios.files.array_files import Array
from tvm_ios.program.program import LINE
from tvm_ios.shapes.extent import at_values, evaluate

#: What is behind a tensor's slack, and may not change.
_GUARD = np.float32(-123.25)


class OpenKernel:
    """A kernel compiled once, to be run at any values of its symbols."""

    def __init__(self, spec: Any, target: Mapping[str, Any]) -> None:
        self.spec = spec
        made = tvm.target.Target(dict(target))
        artefact, self.module = build_kernel(spec, "test", made, isa_of(made))
        (self.phase,) = artefact.phases

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
            if array.dtype != np.float32:
                memory.append(tvm.runtime.tensor(array))
                continue
            whole = np.empty(array.size + 2 * LINE, np.float32)
            whole[: array.size] = array.reshape(-1)
            whole[array.size : -LINE], whole[-LINE:] = np.nan, _GUARD
            memory.append(tvm.runtime.tensor(whole))
        scalars = [values[name] for name in self.phase.scalars]
        cuts = [0, *sorted(borders), self.tiles(values)]
        for begin, end in reversed(list(pairwise(cuts))):
            arguments = [memory[a] for a in self.phase.arguments]
            self.module[self.phase.symbol](*arguments, *scalars, begin, end)
        results: list[Array] = []
        for tensor, shape in zip(memory, shapes, strict=True):
            whole = tensor.numpy()
            if whole.dtype != np.float32:
                results.append(whole)
                continue
            size = int(np.prod(shape))
            assert np.isnan(whole[size:-LINE]).all(), "written into the slack"
            assert (whole[-LINE:] == _GUARD).all(), "written behind the slack"
            results.append(whole[:size].reshape(shape))
        return results
