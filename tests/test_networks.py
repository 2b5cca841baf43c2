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
from tvm_ios.graph import OpGraph, bits
from tvm_ios.merge_rule import mergeable
from tvm_ios.models import load_onnx
from tvm_ios.schedule import Schedule, Stage, Strategy
from tvm_ios.search.baselines import greedy_schedule

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
    maker = {node.output[0]: node for node in cut.graph.node}
    node = maker[cut.graph.output[0].name]
    while node.op_type in ("Reshape", "Softmax"):
        cut.graph.node.remove(node)
        node = maker[node.input[0]]
    cut.graph.output[0].name = node.output[0]
    cut.graph.output[0].type.tensor_type.ClearField("shape")
    return cut


@pytest.mark.parametrize(
    ("model", "merges"),
    [
        ("inception_block", True),
        ("nasnet_cell", False),
        ("squeezenet", True),
        ("lstm_small", False),
        ("transformer_small", False),
        (str(LIGHT / "light_squeezenet.onnx"), True),
        pytest.param(str(LIGHT / "light_inception_v1.onnx"), True, marks=pytest.mark.slow),
        pytest.param("inception_v3", True, marks=pytest.mark.slow),
        pytest.param("resnet50", True, marks=pytest.mark.slow),
        pytest.param("randwire", False, marks=pytest.mark.slow),
        pytest.param("nasnet_a", False, marks=pytest.mark.slow),
        pytest.param("lstm_tc", False, marks=pytest.mark.slow),
        pytest.param("transformer", False, marks=pytest.mark.slow),
    ],
    ids=lambda value: Path(value).stem if isinstance(value, str) else "",
)
def test_logits_equal_onnxruntime(model: str, merges: bool) -> None:
    proto = logits(load_onnx(model, 0))
    prepared = prepare(import_onnx(proto), Path(model).stem)
    schedule = mixed_schedule(prepared.units)
    strategies = [stage.strategy for stage in schedule.stages]
    assert (Strategy.MERGE in strategies) == merges
    assert any(
        len(stage.groups) > 1 and stage.strategy is Strategy.CONCURRENT for stage in schedule.stages
    )
    session = build(apply_schedule(prepared, schedule), lanes=2).session()
    runtime = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    seen = []
    for seed in (0, 1):
        inputs = session.random_inputs(seed)
        session.run(**inputs)
        (expected,) = runtime.run(None, inputs)
        found = session.get_output()
        assert np.max(np.abs(found - expected)) <= 1e-4 * np.max(np.abs(expected))
        seen.append(expected)
    # A network whose outputs do not vary would hide any wrong answer.
    spread = np.max(np.abs(seen[0]))
    assert np.std(seen[0]) > 1e-3 * spread
    assert np.max(np.abs(seen[0] - seen[1])) > 1e-3 * spread
