"""Real networks with merged and concurrent stages compute what ONNX Runtime computes."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from relay_passes import apply_schedule, prepare
from relay_passes.relax.importer import import_onnx
from runtime_ext.build import build
from tests.fast_run import only
from tvm_ios.graph.merge_rule import mergeable
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graph.units import form_units
from tvm_ios.models.load import load_onnx
from tvm_ios.models.source import ModelSource
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.onnx.simplify import simplify
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.zoo.images.unet import build_unet

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def mixed_schedule(graph: OpGraph) -> Schedule:
    """The greedy schedule, with every second set that can be merged in a stage of its own."""
    stages: list[Stage] = []
    sets = 0
    for stage in greedy_schedule(graph).stages:
        readers: dict[int, list[int]] = defaultdict(list)
        for unit in stage.units:
            if "activation" not in graph.operators[unit].attrs:
                continue
            readers[graph.operators[unit].inputs[0]].append(unit)
        rest = stage.mask
        for units in readers.values():
            sets += mergeable(graph, units)
            if mergeable(graph, units) and sets % 2:
                stages.append(Stage(Strategy.MERGE, tuple((unit,) for unit in units)))
                rest &= ~stages[-1].mask
        if rest:
            stages.append(Stage(Strategy.CONCURRENT, tuple((unit,) for unit in bits(rest))))
    return Schedule(graph.fingerprint, tuple(stages), "mixed")


def logits(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without a softmax at its end, which would hide errors."""
    cut = onnx.ModelProto()
    cut.CopyFrom(model)
    maker = {name: node for node in cut.graph.node for name in node.output}
    for output in cut.graph.output:
        node, nodes = maker[output.name], []
        while node.op_type == "Reshape" and node.input[0] in maker:
            nodes.append(node)
            node = maker[node.input[0]]
        if node.op_type != "Softmax":
            continue
        nodes.append(node)
        while maker[node.input[0]].op_type == "Reshape":
            node = maker[node.input[0]]
            nodes.append(node)
        for dead in nodes:
            cut.graph.node.remove(dead)
        output.name = node.input[0]
        output.type.tensor_type.ClearField("shape")
    return cut


def light(name: str) -> str:
    return str(LIGHT / f"light_{name}.onnx")


def check(proto: onnx.ModelProto, name: str, merges: bool) -> None:
    """Scheduled with merged and concurrent stages, a model computes what ONNX Runtime does."""
    prepared = prepare(import_onnx(proto), name)
    schedule = mixed_schedule(prepared.units)
    strategies = [stage.strategy for stage in schedule.stages]
    assert (Strategy.MERGE in strategies) == merges
    session = build(apply_schedule(prepared, schedule), lanes=2).session()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    runtime = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    seen = []
    for seed in (0, 1):
        inputs = session.random_inputs(seed)
        session.run(**inputs)
        results = runtime.run(None, inputs)
        for port, expected in zip(session.outputs, results, strict=True):
            output = session.get_output(port.name)
            assert np.max(np.abs(output - expected)) <= 1e-4 * np.max(np.abs(expected))
        seen.append(results)
    # A network whose outputs do not vary would hide any wrong answer.
    for one, two in zip(*seen, strict=True):
        spread = np.max(np.abs(one))
        assert np.std(one) > 1e-3 * spread
        assert np.max(np.abs(one - two)) > 1e-3 * spread


@pytest.mark.parametrize(
    ("model", "merges"),
    [
        ("inception_block", True),
        ("lstm_small", False),
        ("two_inputs", False),
        ("several_outputs", True),
        *(
            pytest.param(model, merges, marks=pytest.mark.slow)
            for model, merges in (
                ("nasnet_cell", False),
                ("squeezenet", True),
                ("transformer_small", False),
                (light("shufflenet"), False),
                (light("squeezenet"), True),
                (light("inception_v1"), True),
                (light("inception_v2"), True),
                (light("resnet50"), True),
                (light("densenet121"), False),
                (light("bvlc_alexnet"), False),
                (light("vgg19"), False),
                (light("zfnet512"), False),
                ("inception_v3", True),
                ("resnet50", True),
                ("randwire", False),
                ("nasnet_a", False),
                ("nasnet_a_cifar", False),
                ("unet", False),
                ("resnext29", True),
                ("densenet121", False),
                ("mobilenet_v2", False),
                ("mobilenet_v3", False),
                ("efficientnet_b0", False),
                ("shufflenet_v2", False),
                ("lstm_tc", False),
                ("transformer", False),
            )
        ),
    ],
    ids=lambda value: Path(value).stem if isinstance(value, str) else "",
)
def test_outputs_equal_onnxruntime(model: str, merges: bool) -> None:
    check(logits(load_onnx(ModelSource(model, 0))), Path(model).stem, merges)


@pytest.mark.parametrize("upsampling", only(["linear"], ["transpose", "nearest", "linear"]))
def test_a_small_unet(upsampling: str) -> None:
    check(simplify(build_unet(0, 32, upsampling)), f"unet_{upsampling}", False)


def test_both_strategies_are_tried() -> None:
    units = form_units(graph_from_onnx(load_onnx("inception_block")))
    schedule = mixed_schedule(units)
    concurrent = [s for s in schedule.stages if s.strategy is Strategy.CONCURRENT]
    assert any(len(stage.groups) > 1 for stage in concurrent)
    assert len(concurrent) < len(schedule.stages)
