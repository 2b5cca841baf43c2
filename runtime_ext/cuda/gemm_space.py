"""The tile sizes of a contraction on a GPU, as points of a space that tuning logs know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np
from tvm import s_tir

from runtime_ext.cuda.kernels.contraction_shape import (
    depth_of,
    is_vector_product,
    rows_of,
)
from runtime_ext.cuda.kernels.gemm_tile import best_tile, block_count, estimates
from runtime_ext.kernels.spec import Contraction
from runtime_ext.tuning_log.space import Notes, note
from runtime_ext.tuning_log.workload import contraction_workload
from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu
from tvm_ios.costs.cuda_kernels.tile import THREADS, GemmTile, tile_of
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array


@dataclass(frozen=True)
class GemmSpace:
    """The space of a contraction's tiles on a GPU, for a precision of its products.

    See :class:`runtime_ext.tuning_log.space.Space`; its points are tiles.
    """

    gpu: TargetGpu
    precision: str

    def blocking(self, spec: Contraction) -> GemmTile:
        """Return the tile of the least estimated time."""
        return best_tile(spec, self.gpu, self.precision)

    def width(self, blocking: GemmTile) -> int:
        """Return the output channels of a block of packed weights: the tile's columns."""
        return blocking.columns

    def recurrent_width(self) -> int:
        """Raise UserError: recurrent layers are cells on GPUs."""
        raise UserError(
            "there is no kernel of all steps of a recurrent layer on GPUs: read the model from its "
            "ONNX file for this target"
        )

    def workload(self, spec: Contraction) -> Any:
        """Return the workload of a contraction in this precision."""
        return contraction_workload(spec, self.precision)

    def points(self, spec: Contraction) -> tuple[GemmTile, ...]:
        """Return all tiles, the default first, then by estimated time."""
        ranked = (tile for _, tile in estimates(spec, self.gpu, self.precision))
        return tuple(dict.fromkeys((self.explicit(spec), *ranked)))

    def holds(self, spec: Contraction, point: GemmTile) -> bool:
        """Return whether a tile is one of the contraction's."""
        return point in self.points(spec)

    def explicit(self, spec: Contraction) -> GemmTile:
        """Return the tile that the contraction has."""
        assert isinstance(spec.blocking, GemmTile)
        return spec.blocking

    def point(self, notes: Notes) -> GemmTile:
        """Return the tile that a trace notes."""
        rows, columns, depth, splits, more_teams = notes
        return tile_of(rows, columns, depth, splits, 1 + more_teams)

    def schedule(self, spec: Contraction, workload: Any, tile: GemmTile) -> s_tir.Schedule:
        """Return a schedule that notes a tile and binds threads to it, so that TVM can apply it.

        The program itself runs the hand-written kernel of the noted tile, which also splits
        reductions and uses shared memory.
        """
        schedule = s_tir.Schedule(workload)
        block = schedule.get_sblock("sum")
        # For vector products the other extents determine the number of teams.
        more_teams = 0 if is_vector_product(spec) else tile.teams - 1
        note(schedule, block, (tile.rows, tile.columns, tile.depth, tile.splits, more_teams))
        n, y, x, c, *reduced = schedule.get_loops(block)
        row, inner_row = schedule.split(schedule.fuse(n, y, x), [None, tile.rows])
        column, inner_column = schedule.split(c, [None, tile.columns])
        schedule.reorder(row, column, inner_row, inner_column, *reduced)
        schedule.bind(schedule.fuse(row, column), "blockIdx.x")
        each, thread = schedule.split(schedule.fuse(inner_row, inner_column), [None, tile.threads])
        schedule.reorder(thread, each)
        schedule.bind(thread, "threadIdx.x")
        for number in range(len(spec.statements)):
            loops = schedule.get_loops(schedule.get_sblock(f"store_{number}"))
            group, thread = schedule.split(schedule.fuse(*loops), [None, THREADS])
            schedule.bind(group, "blockIdx.x")
            schedule.bind(thread, "threadIdx.x")
        return schedule

    def features(self, spec: Contraction, points: Sequence[GemmTile]) -> Array:
        """Return a row of features of each tile, for a learned model of their speed."""
        cycles = {tile: t for t, tile in estimates(spec, self.gpu, self.precision)}
        return np.array([self._features(spec, p, cycles[p]) for p in points], np.float32)

    def _features(self, spec: Contraction, tile: GemmTile, cycles: float) -> list[float]:
        blocks = block_count(spec, tile)
        rounds = blocks / self.gpu.processors
        wasted = blocks * tile.rows * tile.columns / (rows_of(spec) * sum(spec.parts))
        return [
            log2(cycles),
            log2(rows_of(spec)),
            log2(depth_of(spec)),
            log2(sum(spec.parts)),
            float(spec.groups > 1),
            log2(tile.rows),
            log2(tile.columns),
            float(tile.thread_rows),
            float(tile.thread_columns),
            float(tile.splits),
            float(tile.teams),
            float(tile.depth),
            depth_of(spec) / tile.splits,
            log2(rounds),
            rounds % 1.0,
            wasted / tile.splits,
        ]
