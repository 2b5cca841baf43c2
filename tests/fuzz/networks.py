"""Random networks of many operators: what is built of one computes what ONNX Runtime does."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from tvm_ios.files.array_files import Array

from .composing import COMPOSES
from .computing import COMPUTES
from .containing import CONTAINS
from .drawn_network import Network
from .moving import MOVES
from .mutators import Random
from .quantising import QUANTISES

#: Of the largest element; what is seen is below 1e-5.
_TOLERANCE = 1e-3


def random_network(random: Random) -> onnx.ModelProto:
    """A network of up to fourteen operators with two or three inputs."""
    network = Network(random)
    for _ in range(network.pick(*range(4, 15))):
        network.step(MOVES, network.pick(COMPUTES, COMPUTES, COMPOSES, CONTAINS, QUANTISES))
    return network.model()


def network(sound: Path, room: Path, random: Random) -> None:
    """Build a network as a user would, in the dialect that the installed TVM has, and run it."""
    # Without it nothing would be compared.
    import onnxruntime  # noqa: F401

    from relay_passes.load import load_model
    from relay_passes.pipeline import apply_schedule, prepare
    from runtime_ext.build import build
    from runtime_ext.verification.not_computed import NotComputed
    from runtime_ext.verification.onnx_outputs import runtime_outputs
    from tvm_ios.models.source import ModelSource

    model = random_network(random)
    path = room / "model.onnx"
    onnx.save(model, path)
    feeds = feeds_of(model, random)
    (expected,), runtime = runtime_outputs(model, [feeds])
    if not all(np.isfinite(array).all() for array in expected):
        raise NotComputed(f"{runtime} computes infinities")
    dialect = "relay" if find_spec("tvm.relay") else "relax"
    prepared = prepare(load_model(ModelSource(str(path), dialect=dialect)).module)
    lanes = int(random.integers(1, 4))
    schedule = _schedule(prepared, lanes, random)
    executor: Any = random.choice(["native", "poisoning"])
    session = build(apply_schedule(prepared, schedule), lanes=lanes).session(executor=executor)
    try:
        session.run(**feeds)
        outputs = [session.get_output(place) for place in range(len(session.outputs))]
    finally:
        session.close()
    for port, ours, theirs in zip(session.outputs, outputs, expected, strict=True):
        assert ours.shape == theirs.shape, f"{port.name}: {ours.shape}, not {theirs.shape}"
        error = np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-6)
        assert error <= _TOLERANCE, f"{port.name} differs by {error:.2g} of the largest element"


def feeds_of(model: onnx.ModelProto, random: Random) -> dict[str, Array]:
    """Normal numbers for each input, and indices of either sign."""
    feeds: dict[str, Array] = {}
    for value in model.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        integer = value.type.tensor_type.elem_type == TensorProto.INT64
        drawn = random.integers(-1, 1, shape) if integer else random.standard_normal(shape)
        feeds[value.name] = drawn if integer else drawn.astype(np.float32)
    return feeds


def _schedule(prepared: Any, lanes: int, random: Random) -> Any:
    """Unsearched, or one that merges all that can be merged or runs parts of batch or images."""
    from tvm_ios.costs.costs import NO_COSTS
    from tvm_ios.graph.merge_rule import mergeable
    from tvm_ios.graph.op_graph import bits
    from tvm_ios.graphturbo.policy import choose_instances, schedule_on_lanes
    from tvm_ios.policies.policy import Problem
    from tvm_ios.schedule.schedule import Schedule
    from tvm_ios.schedule.stage import Stage, Strategy
    from tvm_ios.search import search

    graph = prepared.units
    policies = ["sequential", "greedy", "memory", "merging", "merging", "instances", "instances"]
    policy = str(random.choice(policies))
    if policy == "instances":
        operators = prepared.outliner.extraction.graph
        capacity = 1 << int(random.integers(8, 16))
        split = choose_instances(operators, graph, lanes=lanes, capacity=capacity)
        return schedule_on_lanes(graph, split, lanes=lanes)
    if policy != "merging":
        return search(Problem.of(graph, 40), policy, NO_COSTS).schedule
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
