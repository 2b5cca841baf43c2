"""Units whose convolutions cuDNN computes: what it is asked, by NumPy, against TVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime_ext.cuda.compiler import CudaKernelCompiler, GpuPrecision
from runtime_ext.kernels.library_convolution import CUDNN
from runtime_ext.units.unit import UnitSource
from tests.cuda.cuda_harness import Bench
from tests.cuda.cuda_units import ARRANGED, UNITS

#: What is left to a kernel: an activation that is not fused, phases, several outputs.
FUSED = (
    *("conv 1x1 odd", "conv grouped", "conv residual", "conv batch, 1x1", "conv dilated"),
    "conv depthwise",
)
OTHERS = (
    *("conv swish", "transposed 4x4/2", "merged", "conv batch, 1x1, sliced"),
    *("conv depthwise, activated", "conv depthwise, two a channel", "separable"),
)
SOURCES = {**UNITS, **ARRANGED}
ARRANGED_ALIKE = tuple(
    f"conv {kind}, {order}" for kind in ("grouped", "depthwise") for order in ("NCHW", "sliced")
)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_units_by_cudnn(precision: GpuPrecision, tmp_path: Path) -> None:
    names = (*FUSED, *OTHERS, *ARRANGED_ALIKE)
    bench = Bench({name: SOURCES[name] for name in names}, tmp_path, precision, only=CUDNN)
    for name in names:
        (form,) = bench.forms[name].values()
        assert form.library == CUDNN
        bench.check(name)
    for name in FUSED:
        (form,) = bench.forms[name].values()
        assert len(form.code.calls) == 1, f"{name} is one call"
    residual = {call.residual is not None for call in bench.calls.values()}
    assert residual == {True, False}


def test_what_cudnn_does_not_compute_has_no_such_form(tmp_path: Path) -> None:
    compiler = CudaKernelCompiler("sm_90", tmp_path, cudnn=True)
    for name in ("linear", "linear by fractions", "max ceil", "conv padded 1x1", "conv even"):
        unit = UNITS[name]
        assert CUDNN not in compiler.rkernels(UnitSource(unit.function, unit.layouts)), name


def test_a_form_is_offered_and_not_taken_unasked(tmp_path: Path) -> None:
    unit = UNITS["conv grouped"]
    source = UnitSource(unit.function, unit.layouts)
    compiler = CudaKernelCompiler("sm_90", tmp_path, cudnn=True)
    forms = compiler.compile_forms({"u": source})["u"]
    assert [form.library for form in forms] == [CUDNN, ""]
    assert compiler.compile({"u": source})["u"] == forms[-1]
    assert CUDNN not in compiler.compile_rkernels({"u": source})["u"]
    without = CudaKernelCompiler("sm_90", tmp_path)
    assert without.compile_forms({"u": source})["u"] == forms[-1:]
    # A schedule may name it in any case.
    named = without.compile_rkernels({"u": source}, only={"u": CUDNN})["u"]
    assert named == {CUDNN: forms[0]}
