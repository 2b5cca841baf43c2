"""Rewrites of linear models and support vector regressors (``ai.onnx.ml``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.rewrites.other_domains.deferred import finish, is_read, refusal, shape_of
from tvm_ios.onnx.rewrites.other_domains.features import as_float32, floats
from tvm_ios.onnx.rewrites.steps import Steps


def _rows(steps: Steps) -> Any:
    """Return the input as a matrix of feature rows in float32."""
    value = as_float32(steps, steps.node.inputs[0])
    extents = shape_of(steps.node.inputs[0])
    return steps.reshaped(value, extents, [1, *extents][-2:])


def _scores(steps: Steps, count: int) -> Any:
    """Return ``count`` linear functions of the features."""
    weights = floats(steps, "coefficients").reshape(count, -1).T
    product = steps.op("MatMul", _rows(steps), steps.number(weights))
    intercepts = floats(steps, "intercepts")
    return steps.op("Add", product, steps.number(intercepts)) if intercepts.size else product


def _transform(steps: Steps) -> str:
    kind = steps.node.attributes.get_string("post_transform", "NONE")
    if kind not in ("NONE", "LOGISTIC", "SOFTMAX"):
        raise refusal(steps, f"transforms its scores by {kind}")
    return kind


def _transformed(steps: Steps, scores: Any) -> Any:
    """Return the scores of several classes or targets after the node's transform."""
    match _transform(steps):
        case "LOGISTIC":
            return steps.op("Sigmoid", scores)
        case "SOFTMAX":
            return steps.op("Softmax", scores, axis=-1)
        case _:
            return scores


def _regressor(steps: Steps) -> None:
    """Rewrite ``LinearRegressor``. As in ONNX Runtime, a single target's score has no transform."""
    targets = steps.integer("targets", 1)
    scores = _scores(steps, targets)
    steps.stand_for(scores if targets == 1 else _transformed(steps, scores))


def _classifier(steps: Steps) -> None:
    """Rewrite ``LinearClassifier``: the largest score decides the label, or a single one's sign."""
    count = floats(steps, "intercepts").size
    labels = steps.integers("classlabels_ints")
    named = bool(steps.node.attributes.get_strings("classlabels_strings", []))
    if named and is_read(steps, 0):
        raise refusal(steps, "makes labels that are strings")
    scores = _scores(steps, count)
    if count > 1:
        place = steps.op("ArgMax", scores, axis=1, keepdims=0)
        label = place
        if labels:
            label = steps.op("Gather", steps.number(labels), place, axis=0)
        finish(steps, None if named else label, _transformed(steps, scores))
        return
    zero = steps.number(np.zeros((), np.float32))
    above = steps.op("Reshape", steps.op("Greater", scores, zero), steps.number([-1]))
    chosen = [steps.number(np.array(n, np.int64)) for n in reversed(labels or [0, 1])]
    label = None if named else steps.op("Where", above, *chosen)
    if labels or named:
        of_other = steps.op("Sub", steps.number(np.ones((), np.float32)), scores)
        if _transform(steps) == "LOGISTIC":
            of_other = steps.op("Sigmoid", steps.op("Neg", scores))
            scores = steps.op("Sigmoid", scores)
        scores = steps.op("Concat", of_other, scores, axis=1)
    finish(steps, label, scores)


def _support_vectors(steps: Steps) -> None:
    """Rewrite ``SVMRegressor``: a weighted sum of kernels of rows and support vectors."""
    get = steps.node.attributes
    vectors = floats(steps, "support_vectors")
    coefficients, rho = floats(steps, "coefficients"), floats(steps, "rho")
    count = steps.integer("n_supports", 0)
    kind = get.get_string("kernel_type", "LINEAR")
    if get.get_string("post_transform", "NONE") != "NONE":
        raise refusal(steps, "transforms its scores")
    rows = _rows(steps)
    if count:
        gamma, shift, degree = [*floats(steps, "kernel_params"), 0, 0, 0][:3]
        kernels = _kernels(steps, rows, vectors.reshape(count, -1), kind, gamma, shift, degree)
        total = steps.op("MatMul", kernels, steps.number(coefficients.reshape(-1, 1)))
    else:
        total = steps.op("MatMul", rows, steps.number(coefficients.reshape(-1, 1)))
    total = steps.op("Add", total, steps.number(rho[:1]))
    if steps.integer("one_class", 0):
        above = steps.op("Greater", total, steps.number(np.zeros((), np.float32)))
        signs = (steps.number(np.array(n, np.float32)) for n in (1, -1))
        total = steps.op("Where", above, *signs)
    steps.stand_for(total)


def _kernels(
    steps: Steps, rows: Any, vectors: Any, kind: str, gamma: float, shift: float, degree: float
) -> Any:
    """Return the kernel value of each row with each support vector."""

    def number(value: float) -> Any:
        return steps.number(np.array(value, np.float32))

    if kind == "RBF":
        wide = steps.unsqueezed(rows, 1)
        apart = steps.op("Sub", wide, steps.number(vectors))
        square = steps.reduced("ReduceSum", steps.op("Mul", apart, apart), [2], keepdims=0)
        return steps.op("Exp", steps.op("Mul", square, number(-gamma)))
    products = steps.op("MatMul", rows, steps.number(vectors.T))
    if kind == "LINEAR":
        return products
    moved = steps.op("Add", steps.op("Mul", products, number(gamma)), number(shift))
    if kind == "SIGMOID":
        return steps.op("Tanh", moved)
    moved.dtype = ir.DataType.FLOAT
    return steps.op("Pow", moved, number(degree))


#: By the operators' names.
LINEAR: Mapping[str, Callable[[Steps], None]] = {
    "LinearClassifier": _classifier,
    "LinearRegressor": _regressor,
    "SVMRegressor": _support_vectors,
}
