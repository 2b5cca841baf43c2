"""Every way to cut a contraction into blocks of threads, teams and parts, run on the CPU."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod
from pathlib import Path
from typing import Any

import pytest
from tvm import relax

from runtime_ext.cuda.compiler import CudaKernelCompiler, GpuPrecision
from runtime_ext.cuda.kernels import window as window_module
from runtime_ext.cuda.kernels.contraction_shape import depth_of, product_of
from runtime_ext.cuda.kernels.gemm_tile import block_count, estimates
from runtime_ext.cuda.kernels.window import sliding_window
from runtime_ext.kernels.spec import Contraction, Mean, Pooling
from runtime_ext.units.plans import plan_unit
from runtime_ext.units.unit import UnitPlan, UnitSource
from tests.cuda.cuda_harness import Bench, Unit
from tests.fast_run import one_in, only
from tests.kernels.kernel_harness import make_unit
from tests.units.unit_convolutions import convolution
from tvm_ios.costs.cuda_kernels import window_estimate
from tvm_ios.costs.cuda_kernels.product_estimate import product_work, sum_blocks, sum_widths
from tvm_ios.costs.cuda_kernels.stream_estimate import mean_channels
from tvm_ios.costs.cuda_kernels.tile import GemmTile
from tvm_ios.costs.cuda_kernels.window_estimate import window_blocks
from tvm_ios.program.compiled_unit import CompiledUnit

#: Borders, several tiles of rows and columns, and parts of all of them; a depth in halves of slabs.
PADDED = convolution((1, 24, 6, 7), (20, 24, 3, 3), (1, 1, 1, 1))
#: Channels that nobody reads four at once.
ODD = convolution((1, 13, 7, 5), (11, 13, 2, 2), (0, 1, 1, 0))
VECTOR = convolution((1, 200, 1, 1), (44, 200, 1, 1))
GROUPED = convolution((1, 24, 6, 6), (24, 8, 3, 3), (1, 1, 1, 1), groups=3)


def tiles_of(spec: Contraction, compiler: CudaKernelCompiler) -> list[GemmTile]:
    """A tile of every shape, number of teams and depth, of which each has other splits."""
    first: dict[Any, list[GemmTile]] = {}
    for _, tile in estimates(spec, compiler.gpu, compiler.precision):
        first.setdefault(replace(tile, splits=1), []).append(tile)
    found = [sorted(tiles, key=lambda t: t.splits) for _, tiles in sorted(first.items(), key=repr)]
    return [tiles[number % len(tiles)] for number, tiles in enumerate(found)]


class EveryTile(CudaKernelCompiler):
    """Compiles a form of a unit for each of its contraction's tiles."""

    every = 1

    def _rkernel_plans(self, source: UnitSource) -> dict[str, UnitPlan]:
        (kernel,) = plan_unit(source, self.space).kernels
        assert isinstance(kernel.spec, Contraction)
        assert depth_of(kernel.spec) > 16
        tiles = tiles_of(kernel.spec, self)[:: self.every]
        assert len({(tile.teams, tile.splits > 1) for tile in tiles}) > 2
        return {
            repr(tile): self._stored(plan_unit(source, self.space, lambda _, tile=tile: tile))
            for tile in tiles
        }


class SomeTiles(EveryTile):
    """Some of them."""

    every = 9


@pytest.mark.parametrize("precision", only(["float16"], ["float32", "float16"]))
def test_some_tiles(precision: GpuPrecision, tmp_path: Path) -> None:
    bench = Bench({"padded": Unit(PADDED, ("NHWC", "NHWC"))}, tmp_path, precision, maker=SomeTiles)
    bench.check("padded")
    for form in bench.forms["padded"].values():
        check_estimate(bench, form)


def check_estimate(bench: Bench, form: CompiledUnit) -> None:
    """What tiles are chosen by has as many blocks and bytes as what was compiled."""
    product, *others = [bench.kernels[call.symbol] for call in form.code.calls]
    spec = bench.compiler.workload(product.symbol)
    assert isinstance(spec, Contraction)
    tile = spec.blocking
    assert isinstance(tile, GemmTile)
    contraction, gpu = product_of(spec), bench.compiler.gpu
    work = product_work(contraction, tile, bench.precision)
    assert product.blocks == block_count(spec, tile)
    assert product.block == (work.footprint.threads, 1, 1)
    assert product.static_shared_bytes == work.footprint.shared_bytes
    assert len(others) == (tile.splits > 1)
    for kernel in others:
        widths = sum_widths(contraction, tile, gpu)
        assert kernel.blocks == sum(sum_blocks(contraction, widths))


@pytest.mark.parametrize("shape", [(1, 84, 17, 17), (2, 130, 7, 7), (1, 9, 3, 2)])
def test_means(shape: tuple[int, int, int, int], tmp_path: Path) -> None:
    function = make_unit([shape], [], lambda emit, x: relax.op.mean(x, [2, 3], keepdims=True))
    bench = Bench({"mean": Unit(function, ("NHWC", "NHWC"))}, tmp_path)
    bench.check("mean")
    (kernel,) = bench.kernels.values()
    spec = bench.compiler.workload(kernel.symbol)
    assert isinstance(spec, Mean)
    channels = mean_channels(spec.batch, prod(spec.pixels), spec.channels, bench.compiler.gpu)
    assert kernel.blocks == spec.batch * ceil(spec.channels / channels)


#: Windows with and without borders, strides and weights, over channels in fours or not.
WINDOWS: dict[str, Any] = {
    "depthwise": convolution((1, 8, 9, 7), (8, 1, 5, 5), (2,) * 4, groups=8, before=True),
    "odd depthwise": convolution((2, 5, 7, 6), (5, 1, 3, 3), (1, 0, 0, 1), groups=5),
    "mean": make_unit([(1, 8, 9, 7)], [], lambda _, x: relax.op.nn.avg_pool2d(
        x, (3, 3), (2, 2), (1, 1), count_include_pad=False)),
    "max": make_unit([(1, 8, 9, 9)], [], lambda _, x: relax.op.nn.max_pool2d(x, (3, 3), (2, 2))),
}  # fmt: skip


@pytest.mark.parametrize("name", one_in(2, WINDOWS))
def test_cuts_of_a_window(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = {name: Unit(WINDOWS[name], ("NHWC", "NHWC"))}
    plain = Bench(unit, tmp_path / "plain", only="default")
    (kernel,) = plain.kernels.values()
    spec = plain.compiler.workload(kernel.symbol)
    assert isinstance(spec, Pooling)
    window = sliding_window(spec)
    cuts = list(window_estimate.cuts_of(window))
    assert {cut.teams for cut in cuts} > {1, 2}
    assert {cut.pixels for cut in cuts} == {1, 2, 4}
    for number, cut in enumerate(cuts[::4]):
        monkeypatch.setattr(window_module, "best_cut", lambda *_, cut=cut: cut)
        bench = Bench(unit, tmp_path / str(number), only="default")
        (kernel,) = bench.kernels.values()
        assert kernel.blocks == window_blocks(window, cut)
        bench.check(name)


#: Layers of networks that have few results or a long reduction.
LAYERS: dict[str, Any] = {
    "inception block 5x5": convolution((1, 16, 17, 17), (8, 16, 5, 5), (2, 2, 2, 2)),
    "squeezenet expand": convolution((1, 64, 13, 13), (256, 64, 3, 3), (1, 1, 1, 1)),
    "nasnet 1x1": convolution((1, 1056, 7, 7), (176, 1056, 1, 1), before=True),
    "nasnet depthwise": convolution((1, 176, 7, 7), (176, 1, 5, 5), (2,) * 4, groups=176),
    "resnet tail": convolution((1, 512, 7, 7), (512, 512, 3, 3), (1, 1, 1, 1), residual=True),
    "dense": convolution((1, 512, 1, 1), (1000, 512, 1, 1), activation="none"),
}


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "tf32", "float16"])
def test_layers_of_networks(precision: GpuPrecision, tmp_path: Path) -> None:
    units = {
        name: Unit(layer, ("NHWC",) * (int(layer.attrs["num_input"]) + 1))
        for name, layer in LAYERS.items()
    }
    bench = Bench(units, tmp_path, precision, only="default")
    for name in units:
        bench.check(name)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "tf32", "float16"])
def test_every_tile(precision: GpuPrecision, tmp_path: Path) -> None:
    shapes = {"padded": PADDED, "odd": ODD, "vector": VECTOR, "grouped": GROUPED}
    units = {name: Unit(function, ("NHWC", "NHWC")) for name, function in shapes.items()}
    bench = Bench(units, tmp_path, precision, maker=EveryTile)
    for name in units:
        bench.check(name)
