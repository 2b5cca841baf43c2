"""Merged convolutions compute what their members compute."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.merge_rule import mergeable, plan_merge
from tvm_ios.graph.op_graph import OpGraph

Conv = tuple[tuple[int, int], tuple[int, int, int, int]]  # kernel, pads


def conv2d(x: np.ndarray, w: np.ndarray, pads: Any, strides: Any, dilations: Any) -> np.ndarray:
    """Direct convolution of one image (C, H, W)."""
    top, left, bottom, right = pads
    x = np.pad(x, ((0, 0), (top, bottom), (left, right)))
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=(1, 2))
    windows = windows[:, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    return np.einsum("cyxhw,ochw->oyx", windows, w)


def graph_of(
    shape: tuple[int, int], convs: list[Conv], strides: tuple[int, int], dilations: tuple[int, int]
) -> OpGraph:
    tensors = [Tensor("x", (1, 3, *shape))]
    operators = []
    for kernel, pads in convs:
        out = [
            (n + low + high - (k - 1) * d - 1) // s + 1
            for n, low, high, k, d, s in zip(
                shape, pads[:2], pads[2:], kernel, dilations, strides, strict=True
            )
        ]
        tensors += [
            Tensor(f"w{len(tensors)}", (2, 3, *kernel), constant=True),
            Tensor(f"y{len(tensors)}", (1, 2, *out)),
        ]
        attrs = {
            "strides": strides,
            "pads": pads,
            "dilations": dilations,
            "group": 1,
            "kernel": kernel,
            "activation": "none",
        }
        operators.append(
            Operator(
                f"conv{len(operators)}",
                "conv2d",
                (0, len(tensors) - 2),
                (len(tensors) - 1,),
                MappingProxyType(attrs),
            )
        )
    outputs = tuple(op.outputs[0] for op in operators)
    return OpGraph("test", tuple(operators), tuple(tensors), (0,), outputs)


kernels = st.tuples(st.integers(1, 4), st.integers(1, 4))
pads = st.tuples(*[st.integers(0, 3)] * 4)


@given(
    shape=st.tuples(st.integers(5, 9), st.integers(5, 9)),
    convs=st.lists(st.tuples(kernels, pads), min_size=2, max_size=3),
    strides=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    dilations=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    seed=st.integers(0, 99),
)
def test_merged_equals_members(shape, convs, strides, dilations, seed):
    extents = [
        (n - 1) * d + 1 <= size + low + high
        for (kernel, pad) in convs
        for n, d, size, low, high in zip(kernel, dilations, shape, pad[:2], pad[2:], strict=True)
    ]
    if not all(extents):
        return
    graph = graph_of(shape, convs, strides, dilations)
    plan = plan_merge(graph, range(len(convs)))
    shapes = {graph.tensors[op.outputs[0]].shape for op in graph.operators}
    residues = {tuple(p % d for p, d in zip(pad[:2], dilations, strict=True)) for _, pad in convs}
    assert (plan is not None) == (len(shapes) == 1 and len(residues) == 1)
    if plan is None:
        return
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, *shape))
    stacked = np.zeros((2 * len(convs), 3, *plan.kernel))
    expected = []
    for i, ((kernel, pad), (top, left)) in enumerate(zip(convs, plan.offsets, strict=True)):
        w = rng.standard_normal((2, 3, *kernel))
        expected.append(conv2d(x, w, pad, strides, dilations))
        stacked[2 * i : 2 * i + 2, :, top : top + kernel[0], left : left + kernel[1]] = w
    merged = conv2d(x, stacked, plan.pads, strides, dilations)
    np.testing.assert_allclose(merged, np.concatenate(expected), rtol=1e-9, atol=1e-9)


def test_window_of_1x3_and_3x1_is_3x3():
    graph = graph_of((8, 8), [((1, 3), (0, 1, 0, 1)), ((3, 1), (1, 0, 1, 0))], (1, 1), (1, 1))
    plan = plan_merge(graph, (0, 1))
    assert plan is not None
    assert plan.kernel == (3, 3)
    assert plan.pads == (1, 1, 1, 1)
    assert plan.offsets == ((1, 0), (0, 1))


def test_even_kernel_keeps_its_leading_pad():
    graph = graph_of((8, 8), [((2, 2), (0, 0, 1, 1)), ((3, 3), (1, 1, 1, 1))], (1, 1), (1, 1))
    plan = plan_merge(graph, (0, 1))
    assert plan is not None
    assert plan.offsets == ((1, 1), (0, 0))


@pytest.mark.parametrize(
    ("kernel", "pad"), [((3, 3), (0, 0, 0, 0)), ((5, 5), (1, 1, 1, 1))], ids=["valid", "smaller"]
)
def test_different_extents_do_not_merge(kernel, pad):
    graph = graph_of((8, 8), [((1, 1), (0, 0, 0, 0)), (kernel, pad)], (1, 1), (1, 1))
    assert not mergeable(graph, (0, 1))


def test_one_unit_does_not_merge():
    graph = graph_of((8, 8), [((1, 1), (0, 0, 0, 0))], (1, 1), (1, 1))
    assert not mergeable(graph, (0,))


def test_types_are_equal_and_a_wider_result_is_kept():
    graph = graph_of((8, 8), [((3, 3), (1, 1, 1, 1)), ((1, 1), (0, 0, 0, 0))], (1, 1), (1, 1))

    def typed(*dtypes: str) -> OpGraph:
        """The graph with these types of x, w1, y2, w3 and y4."""
        tensors = zip(graph.tensors, dtypes, strict=True)
        return replace(graph, tensors=tuple(replace(t, dtype=dtype) for t, dtype in tensors))

    plan = plan_merge(typed("int8", "int8", "int32", "int8", "int32"), (0, 1))
    assert plan is not None
    assert plan.out_dtype == "int32"
    same = plan_merge(graph, (0, 1))
    assert same is not None
    assert same.out_dtype == ""
    assert not mergeable(typed("int8", "int8", "int32", "int8", "int8"), (0, 1))
    assert not mergeable(typed("int8", "int8", "int32", "uint8", "int32"), (0, 1))
