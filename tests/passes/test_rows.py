"""Instances of rows: each part with the padding of its own borders, and halos of its neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm_ffi
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

from relay_passes.instances.unroll import unroll_instances
from relay_passes.load import load_model
from relay_passes.pipeline import apply_schedule, prepare
from runtime_ext.build import build
from tests.fast_run import examples
from tests.graphturbo_policy import graphturbo_policy, unroll_subgraphs
from tests.region_check import check_regions
from tests.relax.relax_sketch import LANES, RelaxSketch, inputs_of, module_of, run
from tvm_ios.graphturbo.grouping import SubGraph, group
from tvm_ios.graphturbo.instances import Instances, split_into_instances
from tvm_ios.graphturbo.layers import unit_layers
from tvm_ios.graphturbo.split_info import Split, Splitter
from tvm_ios.policies.sequential import sequential_schedule


def bottlenecks(sketch: RelaxSketch, x: Any) -> Any:
    """Convolutions with strides, a pooling, a residual sum and a join, on odd extents."""
    emit, ops = sketch.emit, relax.op
    x = emit(ops.nn.relu(sketch.bias(sketch.conv(x, 8, strides=2))))
    x = emit(ops.nn.max_pool2d(x, (3, 3), strides=(2, 2), padding=(1, 1), ceil_mode=True))
    y = emit(ops.nn.relu(sketch.bias(sketch.conv(x, 16, (1, 1)))))
    y = sketch.bias(sketch.conv(y, 16, groups=16))
    x = emit(ops.add(x, sketch.bias(sketch.conv(y, 8, (1, 1)))))
    a = emit(ops.nn.relu(sketch.conv(x, 8, (5, 3))))
    b = emit(ops.nn.avg_pool2d(x, (3, 3), padding=(1, 1)))
    return emit(ops.concat([a, b], axis=1))


def instances_of(module: Any, capacity: int, recomputation: float = 3.0) -> tuple[Any, Instances]:
    prepared = prepare(module)
    layers = unit_layers(prepared.outliner.extraction.graph, prepared.units)
    splitter = Splitter(layers, capacity, LANES, recomputation, axes=(0, 2))
    return prepared, split_into_instances(layers, group(splitter))


def cut_rows(instances: Instances) -> int:
    """The most parts that the rows of a sub-graph of several layers are cut into."""
    return max(
        s.factor
        for s in instances.subgraphs
        if s.layers.bit_count() > 1 and s.split and any(s.split.axes.values())
    )


# All of it takes 18 KB at its peak.
def test_rows_on_lanes_compute_the_same_in_poisoned_memory() -> None:
    module = module_of([(1, 3, 37, 22)], bottlenecks)
    prepared, instances = instances_of(module, 3_000)
    assert cut_rows(instances) >= LANES
    unrolled = unroll_subgraphs(prepared, instances, LANES)
    model = build(apply_schedule(prepared, unrolled.planned), lanes=LANES)
    check_regions(model.program, model.memory.plan, model.memory.regions)
    (image,) = inputs_of(module)
    (expected,) = run(module, [image])
    for executor in ("native", "poisoning"):
        session = model.session(executor=executor)
        session.run(**{model.inputs[0].name: image})
        np.testing.assert_allclose(session.get_output(0), expected, rtol=1e-4, atol=1e-4)


def test_parts_between_the_borders_share_their_functions() -> None:
    prepared = prepare(module_of([(1, 8, 64, 8)], chain))
    layers = unit_layers(prepared.outliner.extraction.graph, prepared.units)
    (result,) = prepared.outliner.extraction.graph.outputs
    functions: list[int] = []
    for factor in (4, 8):
        split = Split(factor, len(layers), 2, {result: 2}, 0)
        whole = SubGraph((1 << len(layers)) - 1, split)
        unrolled = unroll_subgraphs(prepared, split_into_instances(layers, [whole]), LANES)
        outliner, units = unrolled.prepared.outliner, range(len(unrolled.prepared.units))
        functions.append(len({digest(outliner.unit(u).function) for u in units}))
    # The first layer reads the image in place, which is elsewhere in every part; of the other
    # four there is one at each border and one between; and the join of the parts.
    assert functions == [4 + 3 * 4 + 1, 8 + 3 * 4 + 1]


def digest(function: Any) -> int:
    return tvm_ffi.structural_hash(function, map_free_vars=True)


def chain(sketch: RelaxSketch, x: Any) -> Any:
    for _ in range(5):
        x = sketch.emit(relax.op.nn.relu(sketch.conv(x, 8)))
    return x


def sliced(x: Any, rng: np.random.Generator) -> Any:
    """Some channels, rows or columns, or all images, perhaps from the last to the first."""
    shape = [int(extent) for extent in x.ty.shape]
    axis = int(rng.integers(4))
    extent, step = shape[axis], int(rng.choice([-2, -1, 1, 2] if axis else [-1, 1]))
    left_out = int(rng.integers(2)) if axis and extent > 4 else 0
    first, end = (left_out, extent) if step > 0 else (extent - 1 - left_out, -extent - 1)
    return relax.op.strided_slice(x, [axis], [first], [end], [step])


def test_units_on_all_lanes_that_read_more_and_less_of_a_tensor() -> None:
    def body(sketch: RelaxSketch, x: Any) -> Any:
        part = sketch.emit(relax.op.strided_slice(x, [2], [7], [-10], [-2]))
        return part, sketch.emit(relax.op.add(x, x))

    module = module_of([(2, 2, 9, 7)], body)
    prepared = prepare(module)
    layers = unit_layers(prepared.outliner.extraction.graph, prepared.units)
    instances = split_into_instances(layers, [SubGraph(1 << unit, None) for unit in range(2)])
    unrolled, _ = unroll_instances(prepared, instances, range(2))
    for output, expected in zip(run(unrolled), run(module), strict=True):
        np.testing.assert_array_equal(output, expected)


@st.composite
def networks(draw: st.DrawFn) -> Any:
    """A module of windows of any kernel, stride, padding and dilation, of sums, joins, slices."""
    batch, height = draw(st.sampled_from((1, 2))), draw(st.integers(9, 20))
    choices = [draw(st.integers(0, 10_000)) for _ in range(draw(st.integers(2, 5)))]

    def body(sketch: RelaxSketch, x: Any) -> Any:
        values = [x]
        for choice in choices:
            rng = np.random.default_rng(choice)
            x = values[-1 - int(rng.integers(min(2, len(values))))]
            kind = rng.choice(
                ["conv", "conv", "depthwise", "max", "mean", "add", "concat", "relu", "slice"]
            )
            k = [int(n) for n in rng.integers(1, 4, 2)]
            pads = [int(rng.integers(k[i % 2])) for i in range(4)]
            strides = [int(n) for n in rng.integers(1, 3, 2)]
            windows: dict[str, Any] = {"strides": strides, "padding": pads}
            channels, rows, columns = list(map(int, x.ty.shape))[1:]
            if min(rows + pads[0] + pads[2], columns + pads[1] + pads[3]) < 5:
                kind = "relu"
            twins = [v for v in values if list(map(int, v.ty.shape))[2:] == [rows, columns]]
            other = twins[int(rng.integers(len(twins)))]
            if kind == "conv":
                dilation = [int(rng.integers(1, 3)), 1]
                weight = sketch.normal(4, channels, *k)
                call = relax.op.nn.conv2d(x, weight, dilation=dilation, **windows)
            elif kind == "depthwise":
                weight = sketch.normal(channels, 1, *k)
                call = relax.op.nn.conv2d(x, weight, groups=channels, **windows)
            elif kind == "max":
                call = relax.op.nn.max_pool2d(x, k, ceil_mode=bool(rng.integers(2)), **windows)
            elif kind == "mean":
                included = bool(rng.integers(2))
                call = relax.op.nn.avg_pool2d(x, k, count_include_pad=included, **windows)
            elif kind == "slice":
                call = sliced(x, rng)
            elif kind == "add" and int(other.ty.shape[1]) == channels:
                call = relax.op.add(x, other)
            elif kind == "concat":
                call = relax.op.concat([x, other], axis=1)
            else:
                call = relax.op.nn.relu(x)
            values.append(sketch.emit(call))
        return tuple(values[-2:])

    return module_of([(batch, 2, height, 7)], body)


@pytest.mark.slow
@examples(25)
@given(module=networks(), capacity=st.sampled_from((600, 1500, 3000)))
def test_any_windows(module: Any, capacity: int) -> None:
    prepared, instances = instances_of(module, capacity)
    unrolled, _ = unroll_instances(prepared, instances, range(len(instances)))
    for output, expected in zip(run(unrolled), run(module), strict=True):
        np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("network", ["squeezenet", "mobilenet_v2", "resnet50"])
def test_networks_of_one_image(network: str) -> None:
    loaded = load_model(network)
    prepared = prepare(loaded.module, loaded.name)
    unrolled = graphturbo_policy(prepared, lanes=LANES, capacity=2 << 20)
    assert cut_rows(unrolled.instances) >= LANES
    outputs: list[Any] = []
    for module in (
        apply_schedule(prepared, sequential_schedule(prepared.units)),
        apply_schedule(prepared, unrolled.planned),
    ):
        session = build(module, lanes=LANES).session()
        session.run(**session.random_inputs(0))
        outputs.append(session.get_output(0))
    assert np.ptp(outputs[0]) > 0
    np.testing.assert_allclose(*outputs, rtol=1e-4, atol=1e-5 * np.abs(outputs[0]).max())
