"""Operators of ``ai.onnx.ml``."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from onnx import helper

from tests.outside.case import Case, floats, kind, node, onnx_model

_DOMAIN = "ai.onnx.ml"


@kind("ai.onnx.ml")
def _learner(rng: Generator) -> Case:
    x, outputs = floats(rng, 5, 4), {"y": np.float32}
    chosen = int(rng.integers(6))
    if chosen == 0:
        numbers = {"offset": [*map(float, floats(rng, 4))], "scale": [0.5, 2.0, 1.0, 0.1]}
        made = node("Scaler", ["x"], ["y"], domain=_DOMAIN, **numbers)
    elif chosen == 1:
        norm = str(rng.choice(["MAX", "L1", "L2"]))
        made = node("Normalizer", ["x"], ["y"], domain=_DOMAIN, norm=norm)
    elif chosen == 2:
        after = str(rng.choice(["NONE", "SOFTMAX", "LOGISTIC"]))
        made = node(
            "LinearRegressor",
            ["x"],
            ["y"],
            domain=_DOMAIN,
            coefficients=[*map(float, floats(rng, 8))],
            intercepts=[0.5, -0.5],
            targets=2,
            post_transform="NONE" if after == "LOGISTIC" else after,
        )
    elif chosen == 3:
        made = node(
            "LinearClassifier",
            ["x"],
            ["label", "y"],
            domain=_DOMAIN,
            coefficients=[*map(float, floats(rng, 12))],
            intercepts=[0.1, 0.2, -0.3],
            classlabels_ints=[4, 7, 9],
            post_transform=str(rng.choice(["NONE", "SOFTMAX", "LOGISTIC"])),
        )
        outputs = {"label": np.int64, "y": np.float32}
    elif chosen == 4:
        x = rng.integers(0, 5, (6,))
        outputs = {"y": np.float32}
        keys = {"keys_int64s": [0, 1, 3], "values_floats": [0.5, 1.5, -2.0], "default_float": 9.0}
        made = node("LabelEncoder", ["x"], ["y"], domain=_DOMAIN, **keys)
    else:
        made = node("Binarizer", ["x"], ["y"], domain=_DOMAIN, threshold=0.25)
    model = onnx_model([made], {"x": x}, outputs, opset=17)
    model.opset_import.append(helper.make_opsetid(_DOMAIN, 3))
    return Case(model, {"x": x})
