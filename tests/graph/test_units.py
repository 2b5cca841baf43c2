from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.graph_sketch import CHANNELS, GraphSketch, graphs
from tests.refusals import refused
from tvm_ios.graph.elements import GraphError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.unit_rule import default_rule
from tvm_ios.graph.units import form_units


def separables(s: GraphSketch) -> int:
    return s.separable(s.op("relu", s.separable(s.op("relu", 0))))


def adjustment(s: GraphSketch) -> int:
    def pool(x: int) -> int:
        return s.op("avg_pool2d", x, kernel=(1, 1), strides=(2, 2))

    one = s.conv(pool(s.op("relu", 0)), 1)
    two = s.conv(pool(s.op("slice", s.op("pad", s.op("relu", 0)))), 1)
    return s.op("concat", one, two)


def nasnet_exit(s: GraphSketch) -> int:
    left, right = s.conv(s.op("relu", 0), 1), s.op("max_pool2d", 0)
    shared = s.op("add", left, right)
    pooled = s.op("avg_pool2d", shared, kernel=(3, 3))
    inner = s.op("concat", s.op("add", pooled, shared), s.op("max_pool2d", left))
    return s.op("concat", inner, s.op("add", s.separable(s.op("relu", left)), right), shared)


def residual(s: GraphSketch) -> int:
    x = s.op("relu", s.conv(0))
    y = s.op("relu", s.op("add", s.conv(x, 1), s.conv(s.op("relu", s.conv(x)))))
    return s.op("relu", s.op("add", s.conv(y), y))


def bypass(s: GraphSketch) -> int:
    joined = s.op("concat", s.op("relu", s.conv(0)), s.op("relu", s.conv(0, 1)))
    return s.op("relu", s.conv(s.op("add", joined, s.op("relu", s.conv(0, 1)))))


def randwire(s: GraphSketch) -> int:
    a, b, c = (s.separable(s.op("relu", 0)) for _ in range(3))
    d = s.separable(s.op("relu", s.op("add", s.op("add", a, b), c)))
    return s.conv(s.op("relu", s.op("add", s.op("add", d, a), b)), 1)


def slopes(s: GraphSketch) -> int:
    x = s.op("prelu", s.conv(0), s.constant(CHANNELS))
    y = s.op("prelu", s.op("add", s.conv(x), x), s.constant(CHANNELS))
    return s.op("prelu", s.op("max_pool2d", y), s.constant(CHANNELS))


def swish(s: GraphSketch) -> int:
    x = s.conv(0)
    return s.op("multiply", x, s.op("sigmoid", x))


def dense_net(s: GraphSketch) -> int:
    x = s.op("concat", s.conv(0), 0)
    y = s.op("add", s.op("multiply", x, s.constant(CHANNELS)), s.constant(CHANNELS))
    return s.op("concat", x, s.conv(s.op("relu", y), bias=False))


def tail(s: GraphSketch) -> int:
    x = s.op("reshape", s.op("mean", s.op("relu", s.op("concat", s.conv(0), 0))))
    x = s.op("dense", x, s.constant(CHANNELS, CHANNELS))
    return s.op("softmax", s.op("bias_add", x, s.constant(CHANNELS)))


def gate(s: GraphSketch) -> int:
    x = s.op("max_pool2d", 0)
    weight = s.op("sigmoid", s.conv(s.op("relu", s.conv(s.op("mean", x), 1)), 1))
    return s.op("multiply", x, weight)


def hard_swish(s: GraphSketch) -> int:
    x = s.conv(0)
    gate = s.op("clip", s.op("add", s.op("multiply", x, s.constant()), s.constant()))
    y = s.op("multiply", gate, x)
    z = s.conv(y)  # is read by more than its gate
    return s.op("concat", s.op("multiply", z, s.op("sigmoid", z)), z)


def halves(s: GraphSketch, x: int) -> int:
    """GELU as exporters write it: half of x times what the error function of x makes."""
    error = s.op("erf", s.op("multiply", x, s.constant()))
    return s.op("multiply", s.op("multiply", x, s.constant()), s.op("add", error, s.constant()))


def gelu(s: GraphSketch) -> int:
    return s.op("reshape", halves(s, s.conv(0)))


def transposed_gelu(s: GraphSketch) -> int:
    """The transposition of a norm; one that is read by more than the GELU, and one of a sum."""
    x = halves(s, s.op("transpose", s.op("layer_norm", s.conv(0))))
    y = s.op("transpose", s.op("layer_norm", x))
    return s.op("concat", halves(s, y), y, s.op("transpose", s.op("add", x, 0)))


def rounded(s: GraphSketch, x: int) -> int:
    scaled = s.op("multiply", x, s.constant(CHANNELS))
    return s.op("clip", s.op("round", scaled), min=0.0, max=255.0)


def scaled_sum(s: GraphSketch, a: int, b: int) -> int:
    total = s.op("add", s.op("multiply", a, s.constant()), s.op("multiply", b, s.constant()))
    return s.op("clip", s.op("round", s.op("divide", total, s.constant())))


def rounded_residual(s: GraphSketch) -> int:
    x = rounded(s, s.conv(0))
    later = rounded(s, s.conv(rounded(s, s.conv(x))))
    return rounded(s, s.conv(scaled_sum(s, later, rounded(s, s.conv(x, 1)))))


def rounded_and_read_twice(s: GraphSketch) -> int:
    x = rounded(s, s.conv(0))
    return s.op("concat", scaled_sum(s, x, 0), s.op("max_pool2d", x))


CBR = "conv2d+bias_add+relu"
HALVES = "multiply+multiply+erf+add+multiply"
ROUNDED = "conv2d+bias_add+multiply+round+clip"
SCALED_SUM = "multiply+multiply+add+divide+round+clip"
SEP = "relu+conv2d+conv2d+bias_add"
EXPECTED: dict[str, tuple[Callable[[GraphSketch], int], list[str]]] = {
    "separables": (separables, [SEP, SEP]),
    "adjustment": (
        adjustment,
        [
            "concat",
            "relu+avg_pool2d+conv2d+bias_add",
            "relu+pad+slice+avg_pool2d+conv2d+bias_add",
        ],
    ),
    "nasnet_exit": (
        nasnet_exit,
        [
            "add",
            "add+concat+add+concat",
            "avg_pool2d",
            "max_pool2d",
            "max_pool2d",
            "relu+conv2d+bias_add",
            SEP,
        ],
    ),
    "residual": (
        residual,
        ["conv2d+bias_add", CBR, CBR, "conv2d+bias_add+add+relu", "conv2d+bias_add+add+relu"],
    ),
    "slopes": (
        slopes,
        ["conv2d+bias_add+add+prelu", "conv2d+bias_add+prelu", "max_pool2d+prelu"],
    ),
    "bypass": (bypass, ["add", "concat", CBR, CBR, CBR, CBR]),
    "randwire": (randwire, ["add+add", f"add+add+{SEP}", "relu+conv2d+bias_add", SEP, SEP, SEP]),
    "rounded_residual": (
        rounded_residual,
        [ROUNDED, ROUNDED, ROUNDED, ROUNDED, f"{ROUNDED}+{SCALED_SUM}"],
    ),
    "rounded_and_read_twice": (
        rounded_and_read_twice,
        ["concat", "max_pool2d", "multiply", "multiply+add+divide+round+clip", ROUNDED],
    ),
    "swish": (swish, ["conv2d+bias_add+sigmoid+multiply"]),
    "hard_swish": (
        hard_swish,
        [
            "concat",
            "conv2d+bias_add",
            "conv2d+bias_add+multiply+add+clip+multiply",
            "multiply",
            "sigmoid",
        ],
    ),
    "gelu": (gelu, [f"conv2d+bias_add+{HALVES}+reshape"]),
    "transposed_gelu": (
        transposed_gelu,
        [
            "add+transpose",
            "concat",
            "conv2d+bias_add",
            f"layer_norm+transpose+{HALVES}",
            "layer_norm+transpose",
            "multiply",
            "multiply",
            "multiply+erf+add",
        ],
    ),
    "dense_net": (
        dense_net,
        ["concat", "concat", "conv2d+bias_add", "multiply+add+relu+conv2d"],
    ),
    "tail": (
        tail,
        ["concat+relu", "conv2d+bias_add", "dense+bias_add+softmax", "mean+reshape"],
    ),
    "gate": (
        gate,
        ["conv2d+bias_add+relu", "conv2d+bias_add+sigmoid", "max_pool2d", "mean", "multiply"],
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_units_of_known_patterns(name: str) -> None:
    build, expected = EXPECTED[name]
    sketch = GraphSketch()
    units = form_units(sketch.graph(build(sketch)))
    assert sorted(op.kind for op in units.operators) == sorted(expected)


def test_an_activation_that_others_read_is_not_moved() -> None:
    s = GraphSketch()
    shared = s.op("relu", 0)
    joined = s.op("concat", s.separable(shared), s.conv(shared))
    kinds = [op.kind for op in form_units(s.graph(joined)).operators]
    assert kinds == ["relu", "conv2d+conv2d+bias_add", "conv2d+bias_add", "concat"]


def test_inner_outputs_of_the_graph_stay_visible() -> None:
    s = GraphSketch()
    x = s.conv(0)
    y = s.op("relu", x)
    units = form_units(s.graph(y, x))
    assert [op.kind for op in units.operators] == ["conv2d+bias_add", "relu"]
    assert [units.tensors[t].name for t in units.outputs] == [s.tensors[y].name, s.tensors[x].name]


def test_attributes_of_a_plain_convolution() -> None:
    s = GraphSketch()
    y = s.op("clip", s.conv(0, 3), min=0.0, max=6.0)
    (unit,) = form_units(s.graph(y)).operators
    assert dict(unit.attrs) == {
        "strides": (1, 1),
        "pads": (1, 1, 1, 1),
        "dilations": (1, 1),
        "group": 1,
        "kernel": (3, 3),
        "out_channels": CHANNELS,
        "activation": "clip",
        "activation_min": 0.0,
        "activation_max": 6.0,
    }
    assert unit.name == "conv2d0"
    assert unit.members == (0, 1, 2)


def test_an_activation_before_is_not_one_after() -> None:
    s = GraphSketch()
    before = form_units(s.graph(s.conv(s.op("relu", 0), 1))).operators[0]
    assert "activation" not in before.attrs
    assert "body" in before.attrs


def test_wiring_tells_units_apart() -> None:
    def fingerprint(build: Callable[[GraphSketch, int, int], int]) -> str:
        s = GraphSketch(2)
        return form_units(s.graph(build(s, 0, 1))).fingerprint

    builds: list[Callable[[GraphSketch, int, int], int]] = [
        lambda s, a, b: s.op("concat", a, b, a),
        lambda s, a, b: s.op("concat", a, b, b),
        lambda s, a, b: s.op("concat", a, s.op("add", a, b)),
        lambda s, a, b: s.op("concat", a, s.op("add", b, a)),
        lambda s, a, b: s.op("concat", b, s.op("add", b, a)),
        lambda s, a, b: s.op("subtract", a, b),
        lambda s, a, b: s.op("subtract", s.constant(1), a),
        lambda s, a, b: s.op("subtract", a, s.constant(1)),
    ]
    assert len({fingerprint(build) for build in builds}) == len(builds)


def boundary_holds(graph: OpGraph, units: OpGraph) -> None:
    """Every unit reads and makes exactly what crosses its boundary, data before constants."""
    assert sorted(i for op in units.operators for i in op.members) == list(range(len(graph)))
    numbers = {tensor.name: i for i, tensor in enumerate(graph.tensors)}
    for op in units.operators:
        members = set(op.members)
        written = [t for i in op.members for t in graph.operators[i].outputs]
        read = {t for i in op.members for t in graph.operators[i].inputs} - set(written)
        inputs = [numbers[units.tensors[t].name] for t in op.inputs]
        assert set(inputs) == read
        assert len(inputs) == len(read)
        constants = [graph.tensors[t].constant for t in inputs]
        assert constants == sorted(constants)
        visible = [
            t for t in written if t in graph.outputs or not members.issuperset(graph.consumers[t])
        ]
        assert [numbers[units.tensors[t].name] for t in op.outputs] == visible
        assert op.flops == sum(graph.operators[i].flops for i in op.members)
        assert op.kind == "+".join(graph.operators[i].kind for i in op.members)
    assert [units.tensors[t].name for t in units.inputs] == [
        graph.tensors[t].name for t in graph.inputs
    ]
    assert [units.tensors[t].name for t in units.outputs] == [
        graph.tensors[t].name for t in graph.outputs
    ]
    assert len({op.name for op in units.operators}) == len(units)


@examples(300)
@given(graphs())
def test_the_default_rule_always_gives_units(graph: OpGraph) -> None:
    units = form_units(graph)
    boundary_holds(graph, units)
    # One exit each: all else that a unit makes and is read anywhere is read inside.
    for op in units.operators:
        read = [t for t in op.outputs if units.consumers[t] or t in units.outputs]
        assert len(read) <= 1


@examples(300)
@given(graphs(12), st.data())
def test_any_partition_is_taken_if_and_only_if_it_has_no_circle(
    graph: OpGraph, data: st.DataObject
) -> None:
    owner = [data.draw(st.integers(0, 4)) for _ in range(len(graph))]
    groups = [[i for i, o in enumerate(owner) if o == g] for g in sorted(set(owner))]
    quotient: nx.DiGraph[int] = nx.DiGraph()
    for i in range(len(graph)):
        for j in range(len(graph)):
            if graph.predecessors[j] >> i & 1 and owner[i] != owner[j]:
                quotient.add_edge(owner[i], owner[j])
    if nx.is_directed_acyclic_graph(quotient):
        boundary_holds(graph, form_units(graph, lambda _: groups))
    else:
        with refused(GraphError, "unit", "feeds") as error:
            form_units(graph, lambda _: groups)
        named = str(error.value).split("'")[1]
        number = next(i for i, op in enumerate(graph.operators) if op.name == named)
        cycles = nx.strongly_connected_components(quotient)
        assert any(owner[number] in cycle and len(cycle) > 1 for cycle in cycles)


@pytest.mark.parametrize(
    ("groups", "named"),
    [
        ([[0, 1], [1]], ("'relu1'", "two")),
        ([[0]], ("'relu1'", "no")),
        ([[0, 1], []], ("group 1",)),
        ([[0, 1, 7]], ("operator 7",)),
    ],
)
def test_partitions_that_are_none(groups: list[list[int]], named: tuple[str, ...]) -> None:
    s = GraphSketch()
    graph = s.graph(s.op("relu", s.op("relu", 0)))
    with refused(GraphError, *named):
        form_units(graph, lambda _: groups)


def test_units_of_units() -> None:
    s = GraphSketch()
    graph = s.graph(residual(s))
    units = form_units(graph)
    again = form_units(units, lambda g: [[i] for i in range(len(g))])
    assert sorted(op.kind for op in again.operators) == sorted(op.kind for op in units.operators)
    assert [len(group) for group in default_rule(graph)].count(1) == 0


def test_a_unit_can_be_very_deep() -> None:
    s = GraphSketch()
    x = 0
    for _ in range(3000):
        x = s.op("relu", x)
    (unit,) = form_units(s.graph(x)).operators
    assert unit.members == tuple(range(3000))
