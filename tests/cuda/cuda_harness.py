"""Compile units to CUDA kernels, run these on the CPU, and compare with TVM's own code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from runtime_ext.cuda.compiler import CudaKernelCompiler, GpuPrecision
from runtime_ext.kernels.library_convolution import LibraryConvolution
from runtime_ext.units.unit import UnitSource
from runtime_ext.units.values import Layout
from tests.cuda.convolutions import compute
from tests.cuda.emulator import Emulator
from tests.kernels.kernel_harness import (
    Array,
    random_tensors,
    reference,
    scaled,
    shape_of,
    to_logical,
    to_physical,
)
from tvm_ios.program.compiled_unit import CompiledUnit

#: Of the largest result; float16 rounds what is stored, tf32 what is multiplied.
TOLERANCE = {"float32": 2e-5, "tf32": 2e-3, "float16": 4e-3}


@dataclass(frozen=True)
class Unit:
    """A Relax function and how its tensors lie."""

    function: Any
    layouts: tuple[Layout, ...]


class Bench:
    """Units in all their rKernels, in one, or in the forms of a tuning log, compiled together."""

    def __init__(
        self,
        units: Mapping[str, Unit],
        folder: Path,
        precision: GpuPrecision = "float32",
        only: str | None = None,
        database: Path | None = None,
        maker: type[CudaKernelCompiler] = CudaKernelCompiler,
    ) -> None:
        self.units, self.precision = units, precision
        self.compiler = maker("sm_90", folder / "cache", precision, database)
        sources = {name: UnitSource(u.function, u.layouts) for name, u in units.items()}
        self.forms: Mapping[str, Mapping[str, CompiledUnit]]
        if database is None:
            self.forms = self.compiler.compile_rkernels(
                sources, only=None if only is None else dict.fromkeys(sources, only)
            )
        else:
            self.forms = {
                name: {"tuned" if form.tuned else "default": form for form in forms}
                for name, forms in self.compiler.compile_forms(sources).items()
            }
        symbols = {
            call.symbol
            for forms in self.forms.values()
            for form in forms.values()
            for call in form.code.calls
        }
        work = {symbol: self.compiler.function(symbol) for symbol in sorted(symbols)}
        self.calls = {s: w for s, w in work.items() if isinstance(w, LibraryConvolution)}
        self.kernels = {s: self.compiler.kernel(s) for s in work if s not in self.calls}
        self.emulator = Emulator(self.kernels.values(), folder)

    def check(self, name: str, seed: int = 0) -> None:
        """Compare every form of a unit with TVM."""
        unit = self.units[name]
        function, count = unit.function, int(unit.function.attrs["num_input"])
        arguments = random_tensors([shape_of(p.ty) for p in function.params], seed)
        arguments[count:] = [scaled(a) for a in arguments[count:]]
        wanted = reference(function, arguments)
        for form, compiled in self.forms[name].items():
            got = self.run(compiled, unit.layouts, arguments[:count], arguments[count:], wanted)
            for have, want in zip(got, wanted, strict=True):
                assert have.shape == want.shape
                scale = max(float(np.abs(want).max()), 1e-30)
                error = float(np.abs(have - want).max()) / scale
                assert error <= TOLERANCE[self.precision], f"{name} {form}: error {error}"

    def run(
        self,
        unit: CompiledUnit,
        layouts: Sequence[Layout],
        inputs: Sequence[Array],
        constants: Sequence[Array],
        like: Sequence[Array],
    ) -> list[Array]:
        """The outputs of a unit, as the model has them."""
        code = unit.code
        buffers = [to_physical(a, layout) for a, layout in zip(inputs, layouts, strict=False)]
        for use in unit.constants:
            buffers.append(use.transform.apply(constants[use.parameter - len(inputs)]))
        first = len(buffers)
        types = (*code.parameters, *code.scratch)
        for have, want in zip(buffers, types, strict=False):
            assert have.shape == want.shape
        buffers = [
            np.ascontiguousarray(b.astype(t.dtype)) for b, t in zip(buffers, types, strict=False)
        ]
        for kind in types[first:]:
            fill = np.nan if kind.dtype.startswith("float") else 0
            buffers.append(np.full(kind.shape, fill, kind.dtype))
        for call in code.calls:
            arguments = [buffers[a] for a in call.arguments]
            if call.symbol in self.calls:
                compute(self.calls[call.symbol], arguments)
            else:
                self.emulator.launch(self.kernels[call.symbol], arguments)
        outputs = buffers[first : len(code.parameters)]
        wide = [o.astype(w.dtype) for o, w in zip(outputs, like, strict=True)]
        shapes = [w.shape for w in like]
        return [to_logical(*x) for x in zip(wide, layouts[len(inputs) :], shapes, strict=True)]
