"""Activation functions of ONNX's recurrent layers, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm_ios.onnx.rewrites.steps import Steps

#: Makes the result of a value.
Activation = Callable[[Any], Any]

#: Their parameters alpha and beta, with the values that they have unless given.
_PARAMETERS: dict[str, tuple[float | None, float | None]] = {
    "Relu": (None, None),
    "Tanh": (None, None),
    "Sigmoid": (None, None),
    "Softsign": (None, None),
    "Softplus": (None, None),
    "LeakyRelu": (0.01, None),
    "ThresholdedRelu": (1.0, None),
    "Elu": (1.0, None),
    "HardSigmoid": (0.2, 0.5),
    "ScaledTanh": (1.0, 1.0),
    "Affine": (1.0, 0.0),
}


def activations(
    steps: Steps, names: Sequence[str], most: Sequence[float]
) -> list[Activation] | None:
    """Return the activations with these names, of any case, or None if one is unknown.

    ``steps`` inserts operators before the layer, whose attributes hold the activations' parameters.
    ``names`` are those of all directions, in order. ``most`` bounds the absolute value of each
    activation's argument; 0 means no bound.
    """
    spelling = {name.lower(): name for name in _PARAMETERS}
    if not {name.lower() for name in names} <= spelling.keys():
        return None
    # Only the activations that have parameters take some from these lists, in order.
    get = steps.node.attributes.get_floats
    alphas, betas = (list(get(f"activation_{which}", [])) for which in ("alpha", "beta"))
    chosen: list[Activation] = []
    for name, limit in zip(names, most, strict=False):
        name = spelling[name.lower()]
        alpha, beta = _PARAMETERS[name]
        if alpha is not None and alphas:
            alpha = alphas.pop(0)
        if beta is not None and betas:
            beta = betas.pop(0)
        chosen.append(_activation(steps, name, alpha, beta, limit))
    return chosen


def _activation(
    steps: Steps, name: str, alpha: float | None, beta: float | None, most: float
) -> Activation:
    op, number = steps.op, steps.number
    parameters = {"alpha": alpha, "beta": beta}
    stated: dict[str, Any] = {key: value for key, value in parameters.items() if value is not None}

    def apply(value: Any) -> Any:
        if most:
            value = steps.clipped(value, -most, most)
        match name:
            case "ScaledTanh":
                scaled = op("Tanh", op("Mul", value, number(stated["beta"])))
                return op("Mul", scaled, number(stated["alpha"]))
            case "Affine":
                scaled = op("Mul", value, number(stated["alpha"]))
                return op("Add", scaled, number(stated["beta"]))
            case _:
                return op(name, value, **stated)

    return apply
