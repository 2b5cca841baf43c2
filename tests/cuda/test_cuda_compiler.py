"""What the compiler of CUDA kernels promises besides right results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

from relay_passes.load import load_model
from relay_passes.pipeline import prepare
from runtime_ext.cuda.compiler import CudaKernelCompiler
from runtime_ext.cuda.machine_code.kernel import CudaKernel
from runtime_ext.cuda.machine_code.launchable import Launchable, read_kernels
from runtime_ext.cuda.machine_code.nvrtc import compile_cubin
from runtime_ext.units.in_place import arrange
from runtime_ext.units.unit import UnitSource
from tests.cuda.cuda_harness import Bench, Unit
from tests.cuda.emulator import Emulator
from tests.kernels.kernel_harness import make_unit
from tests.refusals import refused
from tests.units.unit_convolutions import convolution
from tvm_ios import zoo
from tvm_ios.errors import UserError
from tvm_ios.files.plain_data import read_as

CONVOLUTION = convolution((1, 64, 9, 9), (40, 64, 3, 3), (1, 1, 1, 1))


def source() -> dict[str, UnitSource]:
    return {"unit": UnitSource(CONVOLUTION, ("NHWC", "NHWC"))}


def test_what_was_compiled_is_found_again(tmp_path: Path) -> None:
    first = CudaKernelCompiler("sm_90", tmp_path)
    unit = first.compile(source())["unit"]
    assert first.compiled == 1
    again = CudaKernelCompiler("sm_90", tmp_path)
    assert again.compile(source())["unit"] == unit
    assert again.compiled == 0
    for call in unit.code.calls:
        kernel, same = first.kernel(call.symbol), again.kernel(call.symbol)
        assert replace(kernel, scheduled=None) == replace(same, scheduled=None)
        assert read_as(CudaKernel, kernel.to_json()) == replace(kernel, scheduled=None)
        assert len(kernel.parameters) == len(call.arguments) == len(same.scheduled.params)
        assert again.function(call.symbol) == first.function(call.symbol)


def test_a_damaged_cache_is_compiled_anew(tmp_path: Path) -> None:
    CudaKernelCompiler("sm_90", tmp_path).compile(source())
    for file in tmp_path.glob("*.cubins"):
        file.write_bytes(file.read_bytes()[:-7])
    again = CudaKernelCompiler("sm_90", tmp_path)
    again.compile(source())
    assert again.compiled == 1


def test_precision_and_architecture_are_part_of_the_key(tmp_path: Path) -> None:
    keys = {
        CudaKernelCompiler(arch, tmp_path, precision).compile(source())["unit"].key
        for arch, precision in (("sm_90", "float32"), ("sm_90", "tf32"), ("sm_80", "float32"))
    }
    assert len(keys) == 3


def test_kernels_travel_in_a_file(tmp_path: Path) -> None:
    compiler = CudaKernelCompiler("sm_90", tmp_path)
    symbols = [call.symbol for call in compiler.compile(source())["unit"].code.calls]
    compiler.export(tmp_path / "kernels", symbols)
    arch, kernels = read_kernels(tmp_path / "kernels")
    assert arch == "sm_90"
    assert kernels == {symbol: compiler.function(symbol) for symbol in symbols}
    assert all(kernel.cubin.startswith(b"\x7fELF") for kernel in kernels.values())


@pytest.mark.parametrize(
    ("arch", "precision", "named"),
    [
        ("sm_12", "float32", "'sm_12'"),
        ("sm_90", "float8", "float32, tf32 or float16"),
        ("sm_70", "tf32", "sm_80"),
    ],
)
def test_refusals(arch: str, precision: str, named: str, tmp_path: Path) -> None:
    with refused(UserError, named):
        CudaKernelCompiler(arch, tmp_path, precision)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("network", [n for n in zoo.names() if zoo.describe(n).units < 2000])
def test_every_network_compiles(network: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    prepared = prepare(load_model(network).module, network)
    functions = [prepared.outliner.unit(u) for u in range(len(prepared.units))]
    memory = arrange(prepared.units, [unit.function for unit in functions])
    sources = {
        str(i): memory.source(unit.function, unit.data, unit.outputs)
        for i, unit in enumerate(functions)
    }
    folder = tmp_path_factory.getbasetemp() / "cuda-kernels-of-all"
    compiler = CudaKernelCompiler("sm_90", folder)
    for unit in compiler.compile(sources).values():
        for call in unit.code.calls:
            kernel = compiler.kernel(call.symbol)
            assert kernel.written
            assert compiler.gpu.blocks_per_processor(kernel.footprint) >= 1
            assert kernel.local_bytes <= 64, f"{kernel.entry} spills"


def test_bad_code_is_one_sentence() -> None:
    with refused(UserError, "sm_90", "error"):
        compile_cubin('extern "C" __global__ void f() { nonsense(); }', "sm_90")


def test_aligned_reads_are_wide(tmp_path: Path) -> None:
    compiler = CudaKernelCompiler("sm_90", tmp_path)
    product, *_ = compiler.compile(source())["unit"].code.calls
    text = compiler.kernel(product.symbol).source
    assert "*(float4*)(b0_ptr" in text or "*(float4*)(b" in text
    assert "make_float4(b" not in text


def test_kernels_that_may_be_launched_early_wait_before_they_touch_memory(tmp_path: Path) -> None:
    compiler = CudaKernelCompiler("compute_90", tmp_path)
    calls = compiler.compile(source())["unit"].code.calls
    assert len(calls) == 2, "the reduction is split, and the second kernel has no weights"
    for call in calls:
        kernel = compiler.function(call.symbol)
        assert isinstance(kernel, Launchable)
        assert kernel.early
        text = kernel.cubin.decode()
        waits, nexts = (
            text.index(f"griddepcontrol.{what}") for what in ("wait", "launch_dependents")
        )
        assert waits < nexts < min(text.index("ld.global"), text.index("st.global"))
        # Weights come into the cache meanwhile, which accesses no memory.
        assert (0 <= text.find("prefetch.L2") < waits) is (call is calls[0])
        # What is read through it may not be written while the kernel runs.
        assert "ld.global.nc" not in text


def test_kernels_of_older_gpus_are_not_launched_early(tmp_path: Path) -> None:
    compiler = CudaKernelCompiler("compute_80", tmp_path)
    for call in compiler.compile(source())["unit"].code.calls:
        kernel = compiler.function(call.symbol)
        assert isinstance(kernel, Launchable)
        assert not kernel.early
        assert b"griddepcontrol" not in kernel.cubin
        assert b"ld.global.nc" in kernel.cubin


def test_the_emulator_finds_a_missing_barrier(tmp_path: Path) -> None:
    compiler = CudaKernelCompiler("sm_90", tmp_path)
    unit = compiler.compile(source())["unit"]
    kernel = compiler.kernel(unit.code.calls[0].symbol)
    # Once slabs are there, once they were multiplied, and for the sum of the teams.
    assert kernel.source.count("__syncthreads();") == 3
    broken = replace(kernel, source=kernel.source.replace("__syncthreads();", ";"))
    rng = np.random.default_rng(0)
    buffers = [rng.standard_normal(p.shape).astype("float32") for p in kernel.parameters]
    Emulator([kernel], tmp_path).launch(kernel, [b.copy() for b in buffers])
    with pytest.raises(AssertionError, match="races on buffer"):
        Emulator([broken], tmp_path).launch(broken, buffers)


def test_the_emulator_finds_a_store_beyond_a_buffer(tmp_path: Path) -> None:
    function = make_unit([(1, 5, 3, 3)], [], lambda emit, x: relax.op.nn.relu(x))
    bench = Bench({"relu": Unit(function, ("NHWC", "NHWC"))}, tmp_path)
    bench.check("relu")
    (kernel,) = bench.kernels.values()
    assert "< 45" in kernel.source
    broken = replace(kernel, source=kernel.source.replace("< 45", "< 47"))
    buffers = [np.ones(p.shape, "float32") for p in kernel.parameters]
    with pytest.raises(AssertionError, match="writes beyond buffer"):
        Emulator([broken], tmp_path).launch(broken, buffers)
