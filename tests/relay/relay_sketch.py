"""Small Relay modules for tests, and what TVM alone makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor

from tvm_ios.files.array_files import Array


class RelaySketch:
    """Operators of a Relay ``main`` with random constants as weights."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def const(self, array: Any) -> Any:
        return relay.const(np.asarray(array, "float32"))

    def normal(self, *shape: int) -> Any:
        return self.const(self.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:])))

    def positive(self, *shape: int) -> Any:
        return self.const(self.rng.uniform(0.5, 1.5, shape))

    def conv(
        self,
        x: Any,
        before: int,
        after: int,
        kernel: tuple[int, int] = (3, 3),
        pads: Sequence[int] | None = None,
        **attributes: Any,
    ) -> Any:
        pads = pads or (kernel[0] // 2, kernel[1] // 2) * 2
        weight = self.normal(after, before // attributes.get("groups", 1), *kernel)
        attributes |= {"channels": after, "kernel_size": kernel, "padding": pads}
        return relay.nn.conv2d(x, weight, **attributes)

    def bias(self, x: Any, channels: int) -> Any:
        return relay.nn.bias_add(x, self.normal(channels))

    def norm(self, x: Any, channels: int, **attributes: Any) -> Any:
        statistics = (self.positive(channels), *(self.normal(channels) for _ in range(2)))
        return relay.nn.batch_norm(x, *statistics, self.positive(channels), **attributes)[0]


def module_of(
    shapes: Sequence[Sequence[int]], body: Callable[..., Any], seed: int = 0
) -> tvm.IRModule:
    """A module whose ``main`` is ``body(sketch, *inputs)``; a tuple is several outputs."""
    inputs = [relay.var(f"x{i}", shape=shape) for i, shape in enumerate(shapes)]
    result = body(RelaySketch(seed), *inputs)
    if isinstance(result, tuple):
        result = relay.Tuple(list(result))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(inputs, result)))


def inputs_of(module: tvm.IRModule, seed: int = 0) -> dict[str, Array]:
    """Normal numbers for each parameter of ``main``; small integers where it takes integers."""
    rng = np.random.default_rng(seed)
    made: dict[str, Array] = {}
    for parameter in module["main"].params:
        kind = parameter.checked_type
        shape = [int(extent) for extent in kind.shape]
        whole = kind.dtype.startswith("int")
        values = rng.integers(0, 10, shape) if whole else rng.standard_normal(shape)
        made[parameter.name_hint] = values.astype(kind.dtype)
    return made


def build(module: tvm.IRModule) -> Any:
    """What ``relay.build`` makes of it for the graph executor."""
    # It computes next to nothing: optimising its machine code would take most of the time.
    with tvm.transform.PassContext(opt_level=3):
        return relay.build(module, target="llvm -opt-level=0")


def run(module: tvm.IRModule, inputs: dict[str, Array] | None = None) -> list[Array]:
    """Outputs of ``main`` by TVM's graph executor."""
    runner = graph_executor.GraphModule(build(module)["default"](tvm.cpu()))
    runner.run(**(inputs_of(module) if inputs is None else inputs))
    return [runner.get_output(i).numpy() for i in range(runner.get_num_outputs())]


def kernels(library: Any) -> list[str]:
    """The function that each node of the executor's graph calls, in order."""
    nodes = json.loads(library.get_graph_json())["nodes"]
    return [node["attrs"]["func_name"] for node in nodes if node["op"] == "tvm_op"]


def branches(s: RelaySketch, x: Any, channels: int = 3) -> Any:
    """Convolutions of one tensor: 3x3, 1x3, 3x1 and an even kernel with skewed pads, and a pool."""
    relu = relay.nn.relu(s.bias(s.conv(x, channels, 4), 4))
    row = s.bias(s.conv(x, channels, 5, (1, 3)), 5)
    column = relay.nn.relu(s.conv(x, channels, 6, (3, 1)))
    even = relay.sigmoid(s.bias(s.conv(x, channels, 3, (2, 2), (1, 0, 0, 1)), 3))
    pool = relay.nn.max_pool2d(x, (3, 3), padding=(1, 1))
    return relay.concatenate([relu, row, column, even, pool], axis=1)


def mixed(s: RelaySketch, x: Any) -> Any:
    """Merged convolutions, kernels of one and of several tiles, a reshape, a tuple, a scratch."""
    y = branches(s, x)
    low, high = relay.split(relay.nn.max_pool2d(y, (3, 3), padding=(1, 1)), [9], axis=1)
    separable = s.conv(s.conv(relay.nn.relu(low), 9, 9, groups=9), 9, 4, (1, 1))
    flat = relay.nn.batch_flatten(relay.concatenate([separable, relay.exp(high)], axis=1))
    return relay.nn.softmax(relay.nn.dense(flat, s.normal(7, 16 * 81))), y
