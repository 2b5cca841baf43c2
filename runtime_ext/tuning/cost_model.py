"""A learned guess at which blockings are fast, from all that were measured so far."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, log2, prod
from typing import Any

import numpy as np

from runtime_ext.cpu.contraction import plan_tiles
from runtime_ext.cpu.vector_unit import VectorUnit
from runtime_ext.kernels.spec import Blocking, Contraction
from tvm_ios.errors import UserError

Array = np.ndarray[Any, Any]
Features = Callable[[Contraction, Sequence[Blocking]], Array]

_PARAMETERS = {
    "objective": "reg:squarederror",
    "max_depth": 7,
    "eta": 0.2,
    "min_child_weight": 1,
    "subsample": 0.9,
    "seed": 0,
}
_TREES = 80
#: Below so many samples guesses are no better than none.
_FEWEST = 16


class CostModel:
    """Gradient-boosted trees (xgboost) that predict a blocking's speed relative to the best.

    One model learns from all contractions, so that the first guesses for a new one are good.

    Parameters
    ----------
    threads
        That may learn.
    features
        What may tell fast blockings of a contraction from slow ones, a row for each; of a CPU
        :func:`features_of`.

    Raises
    ------
    UserError
        If xgboost is not installed.
    """

    def __init__(self, threads: int, features: Features) -> None:
        try:
            self._xgboost: Any = importlib.import_module("xgboost")
        except ImportError as error:
            raise UserError(
                "tuning needs xgboost, which is not installed: pip install 'tvm-ios[tune]'"
            ) from error
        self._threads = threads
        self.features = features
        self._booster: Any = None

    def fit(self, samples: Sequence[tuple[Array, Array]]) -> None:
        """Learn anew.

        Parameters
        ----------
        samples
            For each contraction the features, ``(n, features)``, and the seconds, ``(n,)``.
        """
        if sum(len(seconds) for _, seconds in samples) < _FEWEST:
            return
        speeds = np.concatenate([seconds.min() / seconds for _, seconds in samples])
        data = self._xgboost.DMatrix(np.concatenate([f for f, _ in samples]), speeds)
        parameters = {**_PARAMETERS, "nthread": self._threads}
        self._booster = self._xgboost.train(parameters, data, _TREES)

    def predict(self, features: Array) -> Array | None:
        """Speeds, 1 for the fastest expected; None as long as too little is known."""
        if self._booster is None:
            return None
        return self._booster.predict(self._xgboost.DMatrix(features))


def features_of(unit: VectorUnit, spec: Contraction, blockings: Sequence[Blocking]) -> Array:
    """What may tell fast blockings from slow ones on a CPU, a row for each."""
    return np.array([_features(spec, unit, blocking) for blocking in blockings], np.float32)


def _features(spec: Contraction, unit: VectorUnit, blocking: Blocking) -> list[float]:
    plan = plan_tiles(replace(spec, blocking=blocking), unit)
    window, width = spec.window, spec.window.output[1]
    pixels, vectors = blocking.pixels, blocking.vectors
    block = vectors * unit.lanes
    last = width % pixels
    depth = spec.channels * prod(window.kernel)
    stride = abs(spec.data.strides[2]) * window.strides[1] * 4
    padded = plan.blocks * block
    unroll = blocking.unroll or 0
    return [
        log2(spec.channels),
        log2(sum(spec.parts)),
        log2(width),
        log2(plan.rows),
        float(prod(window.kernel)),
        float(window.strides[1]),
        log2(stride + 1),
        float(len(spec.parts)),
        float(pixels),
        float(vectors),
        float(pixels * vectors),
        (pixels + vectors) / (pixels * vectors),
        float(unit.registers - pixels * vectors - vectors - 1),
        float(unroll),
        float(unroll * pixels * vectors * window.kernel[1]),
        float(plan.blocks_outer),
        float(plan.blocks),
        log2(plan.tiles),
        float(plan.strip),
        float(last),
        ceil(width / pixels) * pixels / width,
        padded / sum(spec.parts),
        log2(depth * block * 4),
        log2(depth * padded * 4),
        # Pixels of one tile whose cache lines fall into the same set of a 4 KiB way.
        pixels * stride / 4096 if stride % 64 == 0 else 0.0,
    ]
