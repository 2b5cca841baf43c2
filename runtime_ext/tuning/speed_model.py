"""A learned model that predicts which blockings are fast, from all measured so far."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array

_PARAMETERS = {
    "objective": "reg:squarederror",
    "max_depth": 7,
    "eta": 0.2,
    "min_child_weight": 1,
    "subsample": 0.9,
    "seed": 0,
}
_TREES = 80
#: Samples that the model needs: with fewer its predictions are no better than chance.
_FEWEST = 16


class SpeedModel:
    """Gradient-boosted trees (xgboost) that predict a blocking's speed relative to the best.

    One model learns from all contractions, so that the first guesses for a new one are good.
    ``threads`` limits the threads of training. Raise UserError if xgboost is not installed.
    """

    def __init__(self, threads: int) -> None:
        try:
            self._xgboost: Any = importlib.import_module("xgboost")
        except ImportError as error:
            raise UserError(
                "tuning needs xgboost, which is not installed: pip install 'tvm-ios[tune]'"
            ) from error
        self._threads = threads
        self._booster: Any = None

    def fit(self, samples: Sequence[tuple[Array, Array]]) -> None:
        """Train anew on features ``(n, features)`` and seconds ``(n,)`` of each contraction.

        Do nothing while there are too few samples.
        """
        if sum(len(seconds) for _, seconds in samples) < _FEWEST:
            return
        speeds = np.concatenate([seconds.min() / seconds for _, seconds in samples])
        data = self._xgboost.DMatrix(np.concatenate([f for f, _ in samples]), speeds)
        parameters = {**_PARAMETERS, "nthread": self._threads}
        self._booster = self._xgboost.train(parameters, data, _TREES)

    def predict(self, features: Array) -> Array | None:
        """Return predicted speeds, 1 for the fastest; None while the model is not trained."""
        if self._booster is None:
            return None
        return self._booster.predict(self._xgboost.DMatrix(features))
