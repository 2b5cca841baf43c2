"""How much of a GPU the kernels of a network occupy, cut as before and as now, by the estimates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import ceil, prod
from statistics import median
from typing import Any

from runtime_ext.cuda.gemm_space import GemmSpace
from runtime_ext.cuda.kernels.contraction_shape import product_of
from runtime_ext.cuda.kernels.window import sliding_window
from runtime_ext.kernels.spec import Contraction, Mean, Pooling
from runtime_ext.units.plans import plan_unit
from runtime_ext.units.unit import UnitSource, Workload
from tvm_ios.costs.cuda_kernels.block_work import BlockWork, grid_cycles
from tvm_ios.costs.cuda_kernels.product_estimate import (
    block_count,
    product_cycles,
    product_work,
    sum_blocks,
    sum_widths,
    sum_work,
)
from tvm_ios.costs.cuda_kernels.stream_estimate import mean_channels, mean_work
from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu
from tvm_ios.costs.cuda_kernels.tile import GemmTile
from tvm_ios.costs.cuda_kernels.window_estimate import best_cut, window_blocks, window_work

from .earlier_tiles import EarlierSpace, earlier_cut

#: Channels of a block of a mean, before.
_MEAN_CHANNELS = 32


@dataclass(frozen=True)
class Launch:
    """A kernel as one launch: blocks, over what the GPU holds at once, and microseconds."""

    blocks: int
    processors: int
    waves: float
    microseconds: float


#: The launches of a kernel: one, or two if its reduction is split.
Launches = tuple[Launch, ...]


def fill(sources: Iterable[UnitSource], gpu: TargetGpu, precision: str) -> list[dict[str, Any]]:
    """Launches of every different contraction, mean and window, before and after."""
    # They are given the tiles alone that they made themselves.
    spaces: tuple[Any, ...] = (EarlierSpace(gpu, precision), GemmSpace(gpu, precision))
    found: Counter[tuple[str, Launches, Launches]] = Counter()
    for source in sources:
        plans = [plan_unit(source, space) for space in spaces]
        for before, after in zip(*(plan.kernels for plan in plans), strict=True):
            now = _launches(after.spec, gpu, precision)
            if now:
                earlier = _launches(before.spec, gpu, precision, earlier=True)
                found[type(after.spec).__name__, earlier, now] += 1
    return [
        {
            "kind": kind,
            "count": count,
            "before": [asdict(launch) for launch in before],
            "after": [asdict(launch) for launch in after],
        }
        for (kind, before, after), count in found.items()
    ]


def totals(rows: list[dict[str, Any]], gpu: TargetGpu) -> dict[str, Any]:
    """Medians and sums of a network, before and after; every launch costs what one costs."""
    launch = 1e6 * gpu.edge_cycles / gpu.clock
    result: dict[str, Any] = {}
    for when in ("before", "after"):
        launches = [each for row in rows for each in row[when] * row["count"]]
        result[when] = {
            "launches": len(launches),
            "median_blocks": median(x["blocks"] for x in launches),
            "median_processors": median(x["processors"] for x in launches),
            "median_waves": round(median(x["waves"] for x in launches), 3),
            "below_a_tenth": sum(x["processors"] < gpu.processors / 10 for x in launches),
            "microseconds": round(sum(x["microseconds"] for x in launches), 1),
            "with_launches": round(sum(x["microseconds"] + launch for x in launches), 1),
        }
    return result


def _launches(spec: Workload, gpu: TargetGpu, precision: str, *, earlier: bool = False) -> Launches:
    if isinstance(spec, Mean):
        pixels = prod(spec.pixels)
        usual = mean_channels(spec.batch, pixels, spec.channels, gpu)
        channels = _MEAN_CHANNELS if earlier else usual
        blocks = spec.batch * ceil(spec.channels / channels)
        return (_launch(mean_work(pixels, channels), blocks, gpu),)
    if isinstance(spec, Pooling):
        window = sliding_window(spec)
        cut = earlier_cut(window, gpu.processors) if earlier else best_cut(window, gpu)
        return (_launch(window_work(window, cut), window_blocks(window, cut), gpu),)
    if not isinstance(spec, Contraction):
        return ()
    tile = spec.blocking
    assert isinstance(tile, GemmTile)
    product = product_of(spec)
    cycles = product_cycles(product, tile, gpu, precision)
    work = product_work(product, tile, precision)
    multiplying = _launch(work, block_count(product, tile), gpu, cycles)
    if tile.splits == 1:
        return (multiplying,)
    widest = [width for _, width in product.stores]
    widths = widest if earlier else sum_widths(product, tile, gpu)
    adding = _launch(sum_work(tile, max(widths)), sum(sum_blocks(product, widths)), gpu)
    return multiplying, adding


def _launch(work: BlockWork, blocks: int, gpu: TargetGpu, cycles: float = 0.0) -> Launch:
    resident = max(1, gpu.blocks_per_processor(work.footprint))
    return Launch(
        blocks,
        min(blocks, gpu.processors),
        round(blocks / (gpu.processors * resident), 4),
        round(1e6 * (cycles or grid_cycles(work, blocks, gpu)) / gpu.clock, 3),
    )
