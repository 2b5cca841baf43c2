"""Random networks of many operators: what is built of one computes what ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .mutators import Random

Array = np.ndarray[Any, Any]

_OPSET = 18
#: Elements of a tensor: larger ones take time and show nothing else.
_LARGEST = 6000
#: Of the largest element; what is seen is below 1e-5.
_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Value:
    """A tensor of float32 in a network.

    Attributes
    ----------
    name, shape
        As in the model.
    exact
        Whether every correct program computes the same bits: only then may it be rounded,
        compared or sorted.
    """

    name: str
    shape: tuple[int, ...]
    exact: bool


#: Adds an operator that reads a value; None if the value does not suit it.
Draw = Callable[["Network", Value], "str | Sequence[str] | None"]


class Network:
    """An ONNX model under construction: every step reads one of the values before it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.types: dict[str, Any] = {}
        self.values: list[Value] = []
        rank = int(random.choice([4, 4, 4, 3, 2]))
        shape = (self.pick(1, 1, 2, 3), self.pick(1, 2, 3, 4, 8, 17), self.pick(*range(1, 10)))
        shapes = [(*shape, self.pick(*range(1, 10)))[:rank], (*shape, 5)[:rank]]
        self.inputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, extents)
            for name, extents in zip("xy", shapes, strict=True)
        ]
        self.inputs.append(helper.make_tensor_value_info("i", TensorProto.INT64, (2, 3)))
        for value in self.inputs:
            self.types[value.name] = value.type
        self.values = [Value(n, s, True) for n, s in zip("xy", shapes, strict=True)]

    def pick(self, *options: Any) -> Any:
        """One of them."""
        return options[int(self.random.integers(len(options)))]

    def const(self, array: Any) -> str:
        """A constant's name; numbers that are no integers become float32."""
        array = np.asarray(array)
        array = array.astype(np.float32) if array.dtype.kind == "f" else array
        name = f"c{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(array, name)
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.types[name] = helper.make_tensor_type_proto(kind, array.shape)
        return name

    def weight(self, *shape: int) -> str:
        """Normal numbers that keep the size of what is summed with them."""
        return self.const(self.random.standard_normal(shape) / np.sqrt(prod(shape[1:]) or 1))

    def positive(self, *shape: int) -> str:
        """Numbers between 0.5 and 1.5."""
        return self.const(self.random.uniform(0.5, 1.5, shape))

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Append a node; the name of its output, or the names."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        node = helper.make_node(kind, inputs, names, **attributes)
        made = onnx.shape_inference.infer_node_outputs(
            onnx.defs.get_schema(kind, _OPSET),
            node,
            {name: self.types[name] for name in inputs if name},
            {name: self.constants[name] for name in inputs if name in self.constants},
            opset_imports=[helper.make_opsetid("", _OPSET)],
        )
        self.types.update(made)
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Of a tensor; None if it is not known."""
        tensor = self.types[name].tensor_type
        if not tensor.HasField("shape"):
            return None
        extents = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        return None if -1 in extents else tuple(extents)

    def step(self) -> None:
        """Try to add one operator."""
        late = self.values[-4:]
        value = self.pick(*late, *late, *self.values)
        moves = bool(self.random.integers(3)) is False
        drawn = self.pick(*(MOVES if moves else COMPUTES))
        try:
            made = drawn(self, value)
        except onnx.shape_inference.InferenceError:
            return
        for name in [made] if isinstance(made, str) else made or ():
            shape = self.shape(name)
            if shape is not None and 0 < prod(shape) <= _LARGEST and len(shape) <= 6:
                self.values.append(Value(name, shape, moves and value.exact))

    def model(self) -> onnx.ModelProto:
        """The model of what was added; some of the last values are its outputs."""
        made = [value for value in self.values if value.name not in ("x", "y")]
        last = made[-6:] or self.values
        chosen = {made[-1].name: made[-1]} if made else {}
        for _ in range(self.pick(0, 1, 2)):
            value = self.pick(*last, *self.values[:1])
            chosen[value.name] = value
        tensor = helper.make_tensor_value_info
        outputs = [tensor(v.name, TensorProto.FLOAT, v.shape) for v in chosen.values()]
        graph = helper.make_graph(
            self.nodes, "random", self.inputs, outputs, list(self.constants.values())
        )
        opset = helper.make_opsetid("", _OPSET)
        return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def random_network(random: Random) -> onnx.ModelProto:
    """A network of up to fourteen operators with two or three inputs."""
    network = Network(random)
    for _ in range(network.pick(*range(4, 15))):
        network.step()
    return network.model()


def network(sound: Path, room: Path, random: Random) -> None:
    """Build a network as a user would, and run it."""
    from relay_passes.load import load_model
    from relay_passes.prepare import apply_schedule, prepare
    from runtime_ext.build import build

    model = random_network(random)
    path = room / "model.onnx"
    onnx.save(model, path)
    feeds = _feeds(model, random)
    expected = _onnxruntime(model, feeds)
    if expected is None or not all(np.isfinite(array).all() for array in expected):
        return
    prepared = prepare(load_model(str(path)).module)
    lanes = int(random.integers(1, 4))
    schedule = _schedule(prepared, lanes, random)
    executor: Any = random.choice(["native", "poisoning"])
    session = build(apply_schedule(prepared, schedule), lanes=lanes).session(executor=executor)
    try:
        session.run(**feeds)
        found = [session.get_output(place) for place in range(len(session.outputs))]
    finally:
        session.close()
    for port, ours, theirs in zip(session.outputs, found, expected, strict=True):
        assert ours.shape == theirs.shape, f"{port.name}: {ours.shape}, not {theirs.shape}"
        error = np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-6)
        assert error <= _TOLERANCE, f"{port.name} differs by {error:.2g} of the largest element"


def _feeds(model: onnx.ModelProto, random: Random) -> dict[str, Array]:
    feeds: dict[str, Array] = {}
    for value in model.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        integer = value.type.tensor_type.elem_type == TensorProto.INT64
        drawn = random.integers(-1, 1, shape) if integer else random.standard_normal(shape)
        feeds[value.name] = drawn if integer else drawn.astype(np.float32)
    return feeds


def _onnxruntime(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array] | None:
    """None if ONNX Runtime refuses the model."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model.SerializeToString(), options)
        return session.run(None, feeds)
    except Exception:
        return None


def _schedule(prepared: Any, lanes: int, random: Random) -> Any:
    """A baseline, or one that merges all that can be merged or runs parts of batch or images."""
    from tvm_ios.graph import bits
    from tvm_ios.graphturbo.policy import choose_instances, instances_schedule
    from tvm_ios.merge_rule import mergeable
    from tvm_ios.schedule import Schedule, Stage, Strategy
    from tvm_ios.search.baselines import baseline_schedule

    graph = prepared.units
    policies = ["sequential", "greedy", "memory", "merging", "merging", "instances", "instances"]
    policy = str(random.choice(policies))
    if policy == "instances":
        operators = prepared.outliner.extraction.graph
        capacity = 1 << int(random.integers(8, 16))
        split = choose_instances(operators, graph, lanes=lanes, capacity=capacity)
        return instances_schedule(graph, split, lanes=lanes)
    if policy != "merging":
        return baseline_schedule(policy, graph)
    done, stages = 0, []
    while done != graph.all_operators:
        ready = [u for u in bits(graph.all_operators & ~done) if not graph.predecessors[u] & ~done]
        stage = Stage(Strategy.CONCURRENT, tuple((unit,) for unit in ready))
        for unit in ready:
            twins = [u for u in ready if u == unit or mergeable(graph, (unit, u))]
            if len(twins) > 1 and mergeable(graph, twins):
                stage = Stage(Strategy.MERGE, tuple((u,) for u in twins))
                break
        stages.append(stage)
        done |= stage.mask
    return Schedule(graph.fingerprint, tuple(stages), "merging")


# What can be drawn.

MOVES: list[Draw] = []
COMPUTES: list[Draw] = []


def _move(draw: Draw) -> Draw:
    MOVES.append(draw)
    return draw


def _compute(draw: Draw) -> Draw:
    COMPUTES.append(draw)
    return draw


def _axis(net: Network, x: Value) -> int:
    return int(net.random.integers(-len(x.shape), len(x.shape)))


def _axes(net: Network, x: Value) -> list[int]:
    count = int(net.random.integers(1, len(x.shape) + 1))
    chosen = net.random.permutation(len(x.shape))[:count]
    return [int(axis) - net.pick(0, len(x.shape)) for axis in chosen]


def _pads(net: Network, kernel: Sequence[int], most: int = 2) -> list[int]:
    sides = [int(net.random.integers(0, min(most, k - 1) + 1)) for k in (*kernel, *kernel)]
    return sides if net.pick(True, False) else [k // 2 for k in (*kernel, *kernel)]


@_compute
def _convolution(net: Network, x: Value) -> str | None:
    spatial = len(x.shape) - 2
    if spatial not in (1, 2):
        return None
    channels = x.shape[1]
    groups = net.pick(1, 1, 1, *(g for g in (2, channels) if channels % g == 0))
    out = groups * net.pick(1, 1, 2, 3, 8)
    kernel = [net.pick(1, 1, 2, 3, 3, 5) for _ in range(spatial)]
    attributes: dict[str, Any] = {"group": groups}
    if net.pick(True, True, False):
        attributes["pads"] = _pads(net, kernel)
    else:
        attributes["auto_pad"] = net.pick("SAME_UPPER", "SAME_LOWER", "VALID")
    if net.pick(True, False):
        attributes["strides"] = [net.pick(1, 2, 3) for _ in range(spatial)]
    if net.pick(True, False, False) and "auto_pad" not in attributes:
        attributes["dilations"] = [net.pick(1, 2) for _ in range(spatial)]
    bias = (net.weight(out),) if net.pick(True, False) else ()
    weight = net.weight(out, channels // groups, *kernel)
    return net.op("Conv", x.name, weight, *bias, **attributes)


@_compute
def _twin_convolutions(net: Network, x: Value) -> Any:
    """Some that may be merged, with what may come after each of them."""
    if len(x.shape) != 4:
        return None
    size = net.pick(1, 3)
    found: list[str] = []
    for _ in range(net.pick(2, 3)):
        kernel = [net.pick(1, size), net.pick(1, size)]
        out = net.pick(1, 2, 4, 16)
        pads = [k // 2 for k in (*kernel, *kernel)]
        made = net.op("Conv", x.name, net.weight(out, x.shape[1], *kernel), pads=pads)
        after = net.pick("Relu", "Sigmoid", None)
        found.append(made if after is None else net.op(after, made))
    return [net.op("Concat", *found, axis=1)] if net.pick(True, False) else found


@_compute
def _transposed(net: Network, x: Value) -> str | None:
    if len(x.shape) != 4:
        return None
    groups = net.pick(1, 1, *(g for g in (2,) if x.shape[1] % g == 0))
    kernel, strides = [net.pick(1, 2, 3), net.pick(2, 3)], [net.pick(1, 2), net.pick(1, 2)]
    extra = [int(net.random.integers(0, s)) for s in strides]
    weight = net.weight(x.shape[1], net.pick(1, 3, 8), *kernel)
    return net.op(
        "ConvTranspose",
        *(x.name, weight),
        group=groups,
        strides=strides,
        pads=_pads(net, kernel, 1),
        output_padding=extra,
    )


@_compute
def _pool(net: Network, x: Value) -> str | None:
    if len(x.shape) != 4:
        return None
    kind = net.pick("MaxPool", "MaxPool", "AveragePool", "AveragePool", "GlobalMaxPool")
    kind = net.pick(kind, kind, kind, "GlobalAveragePool")
    if kind.startswith("Global"):
        return net.op(kind, x.name)
    kernel = [net.pick(1, 2, 3), net.pick(1, 2, 3, 5)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "ceil_mode": net.pick(0, 0, 1)}
    if net.pick(True, True, False):
        pads = zip(_pads(net, kernel), kernel * 2, strict=True)
        attributes["pads"] = [min(pad, extent - 1) for pad, extent in pads]
    attributes["strides"] = [net.pick(1, 1, 2, 3), net.pick(1, 2)]
    if kind == "AveragePool":
        attributes["count_include_pad"] = net.pick(0, 1)
    elif net.pick(True, False, False):
        attributes["dilations"] = [net.pick(1, 2), 1]
    return net.op(kind, x.name, **attributes)


@_compute
def _norm(net: Network, x: Value) -> str | None:
    if len(x.shape) < 2:
        return None
    channels = x.shape[1]
    match net.pick("batch", "batch", "instance", "layer", "lrn"):
        case "batch":
            rows = (net.positive(channels), net.weight(channels), net.weight(channels))
            return net.op("BatchNormalization", x.name, *rows, net.positive(channels))
        case "instance" if len(x.shape) > 2:
            rows = (net.positive(channels), net.weight(channels))
            return net.op("InstanceNormalization", x.name, *rows, epsilon=0.01)
        case "lrn" if len(x.shape) == 4:
            size, beta = net.pick(1, 3, 5), net.pick(0.75, 0.5)
            return net.op("LRN", x.name, size=size, alpha=0.1, beta=beta, bias=net.pick(1.0, 2.0))
        case _:
            axis = net.pick(-1, len(x.shape) - 1, 1)
            shape = x.shape[axis:]
            bias = (net.weight(*shape),) if net.pick(True, False) else ()
            rows = (net.positive(*shape), *bias)
            return net.op("LayerNormalization", x.name, *rows, axis=axis, epsilon=0.01)


@_compute
def _product(net: Network, x: Value) -> str | None:
    if len(x.shape) < 2:
        return None
    depth, columns = x.shape[-1], net.pick(1, 3, 8, 20)
    match net.pick("weight", "gemm", "gemm", "square", "left", "batched"):
        case "gemm":
            flat = net.op("Flatten", x.name, axis=1)
            rows, depth = net.shape(flat) or (1, 1)
            turned = net.pick(0, 1)
            weight = net.weight(*((columns, depth) if turned else (depth, columns)))
            shape = net.pick((columns,), (1, columns), (rows, columns), (1,), ())
            bias = (net.weight(*shape),) if net.pick(True, False) else ()
            factors = {"alpha": net.pick(1.0, 0.5), "beta": net.pick(1.0, 2.0)}
            return net.op("Gemm", flat, weight, *bias, transB=turned, **factors)
        case "square":
            rank = len(x.shape)
            turned = net.op("Transpose", x.name, perm=[*range(rank - 2), rank - 1, rank - 2])
            pair = (x.name, turned) if net.pick(True, False) else (turned, x.name)
            return net.op("MatMul", *pair)
        case "left":
            return net.op("MatMul", net.weight(columns, x.shape[-2]), x.name)
        case "batched":
            outer = tuple(net.pick(1, e) for e in x.shape[:-2])
            return net.op("MatMul", x.name, net.weight(*outer, depth, columns))
        case _:
            made = net.op("MatMul", x.name, net.weight(depth, columns))
            return net.op("Add", made, net.weight(columns)) if net.pick(True, False) else made


_PLAIN = ["Relu", "Sigmoid", "Tanh", "Erf", "Abs", "Neg", "Softplus", "Softsign", "Sin", "Cos"]
_PLAIN += ["HardSigmoid", "HardSwish", "Elu", "Selu", "Celu", "Mish", "Identity", "Dropout"]


@_compute
def _activation(net: Network, x: Value) -> str:
    match net.pick(*_PLAIN, "LeakyRelu", "ThresholdedRelu"):
        case "LeakyRelu":
            return net.op("LeakyRelu", x.name, alpha=0.3)
        case "ThresholdedRelu":
            return net.op("ThresholdedRelu", x.name, alpha=0.0)
        case kind:
            return net.op(kind, x.name)


@_compute
def _bounded(net: Network, x: Value) -> str:
    low = net.const(net.pick(-1.0, -0.25, 0.0))
    high = net.const(net.pick(0.125, 0.5, 6.0))
    match net.pick("both", "low", "high", "prelu", "root", "exp", "log", "reciprocal"):
        case "both":
            return net.op("Clip", x.name, low, high)
        case "low":
            return net.op("Clip", x.name, low)
        case "high":
            return net.op("Clip", x.name, "", high)
        case "prelu":
            slope = (x.shape[1], *(1 for _ in x.shape[2:])) if len(x.shape) > 1 else (1,)
            return net.op("PRelu", x.name, net.weight(*slope))
        case "exp":
            return net.op("Exp", net.op("Tanh", x.name))
        case kind:
            safe = net.op("Add", net.op("Abs", x.name), net.const(0.5))
            return net.op({"root": "Sqrt", "log": "Log"}.get(kind, "Reciprocal"), safe)


@_compute
def _arithmetic(net: Network, x: Value) -> str:
    kind = net.pick("Add", "Add", "Sub", "Mul", "Mul", "Div", "Max", "Min", "Pow", "Sum", "Mean")
    fitting = [v.name for v in net.values if _fits(v.shape, x.shape)]
    shape = tuple(net.pick(1, extent, extent) for extent in x.shape)[net.pick(0, 0, 1) :]
    other = net.pick(*fitting, net.weight(*shape), net.const(0.75), net.const([1.25]))
    if kind == "Div":
        other = net.op("Add", net.op("Abs", other), net.const(0.5))
    if kind == "Pow":
        return net.op(kind, net.op("Abs", x.name), net.const(net.pick(0.5, 2.0, 3.0, 1.5)))
    pair = (x.name, other) if net.pick(True, False) else (other, x.name)
    more = (net.pick(*fitting),) if kind in ("Sum", "Mean", "Max", "Min") else ()
    return net.op(kind, *pair, *more)


def _fits(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether it can be broadcast to the other."""
    ends = zip(reversed(shape), reversed(whole), strict=False)
    return len(shape) <= len(whole) and all(a in (1, b) for a, b in ends)


@_compute
def _reduction(net: Network, x: Value) -> str:
    kind = net.pick("Mean", "Mean", "Sum", "Max", "Min", "Prod", "L1", "L2", "SumSquare")
    kind = net.pick(kind, kind, kind, kind, "LogSumExp")
    axes = _axes(net, x)
    keep = net.pick(0, 1)
    if kind == "Sum" or _OPSET >= 18:
        return net.op(f"Reduce{kind}", x.name, net.const(np.array(axes)), keepdims=keep)
    return net.op(f"Reduce{kind}", x.name, axes=axes, keepdims=keep)


@_compute
def _along(net: Network, x: Value) -> str | None:
    if not x.shape:
        return None
    kind = net.pick("Softmax", "Softmax", "LogSoftmax", "CumSum", "Sorted")
    if kind == "CumSum":
        flags = {"exclusive": net.pick(0, 1), "reverse": net.pick(0, 1)}
        return net.op(kind, x.name, net.const(np.array(_axis(net, x))), **flags)
    if kind == "Sorted":
        axis = _axis(net, x)
        count = net.const(np.array([net.pick(1, x.shape[axis])]))
        return net.op("TopK", x.name, count, outputs=2, axis=axis, largest=net.pick(0, 1))[0]
    return net.op(kind, x.name, axis=_axis(net, x))


@_compute
def _stepwise(net: Network, x: Value) -> str | None:
    """What jumps, of values that every program computes alike."""
    if not x.exact:
        return None
    match net.pick("round", "compare", "compare", "integer", "arg"):
        case "round":
            return net.op(net.pick("Floor", "Ceil", "Round", "Sign"), x.name)
        case "compare":
            kind = net.pick("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal")
            mask = net.op(kind, x.name, net.const(net.pick(0.0, 0.25)))
            mask = net.op("Not", mask) if net.pick(True, False) else mask
            others = [v.name for v in net.values if v.shape == x.shape]
            return net.op("Where", mask, net.pick(*others), net.const(net.pick(0.0, -1.0)))
        case "arg" if x.shape:
            kind = net.pick("ArgMax", "ArgMin")
            made = net.op(kind, x.name, axis=_axis(net, x), keepdims=net.pick(0, 1))
            if net.pick(True, False):
                return net.op("OneHot", made, net.const(np.array(9)), net.const([0.0, 1.5]))
            return net.op("Cast", made, to=TensorProto.FLOAT)
        case _:
            whole = net.op("Cast", net.op("Mul", x.name, net.const(4.0)), to=TensorProto.INT64)
            kind = net.pick("Div", "Mod", "Mul", "Sub", "Add")
            made = net.op(kind, whole, net.const(np.array(net.pick(2, 3, 5))))
            return net.op("Cast", made, to=TensorProto.FLOAT)


@_compute
def _doubles(net: Network, x: Value) -> str:
    wide = net.op("Cast", x.name, to=TensorProto.DOUBLE)
    made = net.op(net.pick("Relu", "Tanh", "Neg", "Sqrt"), net.op("Abs", wide))
    return net.op("Cast", made, to=TensorProto.FLOAT)


@_compute
def _attention(net: Network, x: Value) -> str | None:
    if len(x.shape) != 3:
        return None
    width = net.pick(4, 8)
    read = [net.op("MatMul", x.name, net.weight(x.shape[2], width)) for _ in range(3)]
    turned = net.op("Transpose", read[1], perm=[0, 2, 1])
    scores = net.op("Mul", net.op("MatMul", read[0], turned), net.const(0.5))
    return net.op("MatMul", net.op("Softmax", scores, axis=-1), read[2])


@_compute
def _einsum(net: Network, x: Value) -> str:
    """Of a value and weights; which axes they share, and which of all stay, is drawn."""
    letters = "abcdef"[: len(x.shape)]
    extents = dict(zip(letters, x.shape, strict=True)) | {"y": net.pick(1, 2, 5)}
    other = [letter for letter in extents if net.pick(True, False)]
    other = [other[i] for i in net.random.permutation(len(other))]
    made = [letter for letter in sorted({*letters, *other}) if net.pick(True, True, False)]
    made = [made[i] for i in net.random.permutation(len(made))]
    pairs = [(letters, x.name), ("".join(other), net.weight(*(extents[e] for e in other)))]
    (left, first), (right, second) = pairs if net.pick(True, False) else pairs[::-1]
    return net.op("Einsum", first, second, equation=f"{left},{right}->{''.join(made)}")


@_compute
def _recurrent(net: Network, x: Value) -> str | None:
    """A layer over the first axis: its states, or the last one."""
    if len(x.shape) != 3:
        return None
    kind, ways = net.pick(("LSTM", 4), ("GRU", 3), ("RNN", 1)), net.pick(1, 1, 2)
    (name, gates), hidden = kind, net.pick(1, 3, 4)
    direction = "bidirectional" if ways == 2 else net.pick("forward", "reverse")
    attributes = {"linear_before_reset": net.pick(0, 1)} if name == "GRU" else {}
    rows = [net.weight(ways, gates * hidden, extent) for extent in (x.shape[2], hidden)]
    rows.append(net.pick("", net.weight(ways, 2 * gates * hidden)))
    if net.pick(True, False):
        rows += ["", net.weight(ways, x.shape[1], hidden)]
    attributes |= {"direction": direction, "hidden_size": hidden}
    return net.pick(*net.op(name, x.name, *rows, outputs=2, **attributes))


@_compute
def _scatter(net: Network, x: Value) -> str | None:
    """Some rows in the place of those that are there."""
    if not x.shape:
        return None
    count = int(net.random.integers(1, x.shape[0] + 1))
    rows = net.const(net.random.permutation(x.shape[0])[:count].reshape(-1, 1))
    return net.op("ScatterND", x.name, rows, net.weight(count, *x.shape[1:]))


@_move
def _reshape(net: Network, x: Value) -> str:
    match net.pick("flat", "flatten", "zero", "split", "squeeze", "unsqueeze"):
        case "flat":
            return net.op("Reshape", x.name, net.const(np.array([(*x.shape, 1)[0], -1])))
        case "flatten" if x.shape:
            return net.op("Flatten", x.name, axis=int(net.random.integers(0, len(x.shape) + 1)))
        case "zero" if len(x.shape) > 2:
            return net.op("Reshape", x.name, net.const(np.array([0, -1, x.shape[-1]])))
        case "split" if len(x.shape) > 1 and x.shape[1] % 2 == 0:
            shape = [x.shape[0], 2, x.shape[1] // 2, *x.shape[2:]]
            return net.op("Reshape", x.name, net.const(np.array(shape)))
        case "squeeze" if 1 in x.shape:
            axes = [i for i, extent in enumerate(x.shape) if extent == 1]
            return net.op("Squeeze", x.name, net.const(np.array(axes[:1])))
        case _:
            at = int(net.random.integers(-len(x.shape) - 1, len(x.shape) + 1))
            return net.op("Unsqueeze", x.name, net.const(np.array([at])))


@_move
def _transpose(net: Network, x: Value) -> str | None:
    if not x.shape:
        return None
    return net.op("Transpose", x.name, perm=net.random.permutation(len(x.shape)).tolist())


@_move
def _slice(net: Network, x: Value) -> str | None:
    if not x.shape:
        return None
    axes = _axes(net, x)
    steps = [net.pick(1, 1, 1, 2, -1, -2) for _ in axes]
    bounds = [
        [int(net.random.integers(-x.shape[axis] - 1, x.shape[axis] + 2)) for axis in axes]
        for _ in range(2)
    ]
    rows = [net.const(np.array(row)) for row in (*bounds, axes, steps)]
    return net.op("Slice", x.name, *rows)


@_move
def _split(net: Network, x: Value) -> Any:
    axis = _axis(net, x) if x.shape else 0
    if not x.shape or x.shape[axis] < 2:
        return None
    first = int(net.random.integers(1, x.shape[axis]))
    sizes = net.const(np.array([first, x.shape[axis] - first]))
    return net.op("Split", x.name, sizes, outputs=2, axis=axis)


@_move
def _concat(net: Network, x: Value) -> str | None:
    if not x.shape:
        return None
    axis = _axis(net, x)
    place = axis % len(x.shape)

    def rest(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:place], *shape[place + 1 :])

    alike = [v for v in net.values if len(v.shape) == len(x.shape) and v.exact >= x.exact]
    alike = [v.name for v in alike if rest(v.shape) == rest(x.shape)]
    parts = [net.pick(*alike) for _ in range(net.pick(1, 2, 3))]
    return net.op("Concat", x.name, *parts, axis=axis)


@_move
def _pad(net: Network, x: Value) -> str | None:
    if not x.shape:
        return None
    mode = net.pick("constant", "constant", "constant", "reflect", "edge")
    widths = [int(net.random.integers(-1 if mode == "constant" else 0, 3)) for _ in x.shape * 2]
    if len(x.shape) == 4 and net.pick(True, False):
        widths[:2] = widths[4:6] = [0, 0]
    fill = (net.const(net.pick(0.0, 0.0, -1.5)),) if mode == "constant" else ()
    return net.op("Pad", x.name, net.const(np.array(widths)), *fill, mode=mode)


@_move
def _gather(net: Network, x: Value) -> str | None:
    if not x.shape:
        return None
    axis = _axis(net, x)
    extent = x.shape[axis]
    match net.pick("one", "rows", "input", "elements", "points"):
        case "one":
            index = int(net.random.integers(-extent, extent))
            return net.op("Gather", x.name, net.const(np.array(index)), axis=axis)
        case "input":
            return net.op("Gather", x.name, "i", axis=axis)
        case "points":
            depth = int(net.random.integers(1, len(x.shape) + 1))
            points = [net.random.integers(-e, e, 3) for e in x.shape[:depth]]
            return net.op("GatherND", x.name, net.const(np.stack(points, axis=1)))
        case "elements":
            shape = [e if i != axis % len(x.shape) else 2 for i, e in enumerate(x.shape)]
            indices = net.const(net.random.integers(0, extent, shape))
            return net.op("GatherElements", x.name, indices, axis=axis)
        case _:
            rows = net.const(net.random.integers(-extent, extent, net.pick((3,), (2, 2))))
            return net.op("Gather", x.name, rows, axis=axis)


@_move
def _triangle(net: Network, x: Value) -> str | None:
    if len(x.shape) < 2:
        return None
    return net.op("Trilu", x.name, net.const(np.array(net.pick(-1, 0, 1))), upper=net.pick(0, 1))


@_move
def _repeat(net: Network, x: Value) -> str:
    if net.pick(True, False):
        times = [net.pick(1, 1, 2, 3) for _ in x.shape]
        return net.op("Tile", x.name, net.const(np.array(times, np.int64)))
    shape = [extent if extent > 1 else net.pick(1, 3) for extent in x.shape]
    return net.op("Expand", x.name, net.const(np.array([*net.pick([], [2]), *shape], np.int64)))


@_move
def _pixels(net: Network, x: Value) -> str | None:
    """Channels and pixels in each other's place, and shuffled channels."""
    if len(x.shape) != 4:
        return None
    n, c, h, w = x.shape
    if c % 4 == 0 and net.pick(True, False):
        return net.op("DepthToSpace", x.name, blocksize=2, mode=net.pick("DCR", "CRD"))
    if h % 2 == w % 2 == 0 and net.pick(True, False):
        return net.op("SpaceToDepth", x.name, blocksize=2)
    if c % 2:
        return None
    apart = net.op("Reshape", x.name, net.const(np.array([n, 2, c // 2, h, w])))
    turned = net.op("Transpose", apart, perm=[0, 2, 1, 3, 4])
    return net.op("Reshape", turned, net.const(np.array([n, c, h, w])))


@_compute
def _resize(net: Network, x: Value) -> str | None:
    if len(x.shape) != 4:
        return None
    mode = net.pick("nearest", "nearest", "linear", "cubic")
    places = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    attributes: dict[str, Any] = {"coordinate_transformation_mode": net.pick(*places)}
    if mode == "nearest":
        rounding = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        attributes["nearest_mode"] = net.pick(*rounding)
    factors = [1.0, 1.0, net.pick(1.0, 2.0, 2.0, 1.5, 3.0), net.pick(1.0, 2.0, 2.0, 0.5)]
    if net.pick(True, False):
        return net.op("Resize", x.name, "", net.const(factors), mode=mode, **attributes)
    sizes = [*x.shape[:2], x.shape[2] * net.pick(1, 2, 3), x.shape[3] * 2]
    rows = ("", "", net.const(np.array(sizes)))
    return net.op("Resize", x.name, *rows, mode=mode, **attributes)
