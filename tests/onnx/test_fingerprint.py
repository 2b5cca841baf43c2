from __future__ import annotations

import random
from typing import Any

import onnx
import pytest

from tvm_ios import zoo
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.units import form_units
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.onnx.simplify import simplify


def rename_and_reorder(model: Any, seed: int) -> Any:
    """The same model with other names and another order of operators and constants."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    rng = random.Random(seed)
    kept = {value.name for value in (*copy.graph.input, *copy.graph.output)}
    for node in copy.graph.node:
        node.name = f"n{rng.random()}"
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                names[i] = name if name in kept or not name else f"other/{name}"
    for tensor in copy.graph.initializer:
        tensor.name = f"other/{tensor.name}"
    del copy.graph.value_info[:]
    done = {value.name for value in copy.graph.input} | {t.name for t in copy.graph.initializer}
    nodes = list(copy.graph.node)
    del copy.graph.node[:]
    while nodes:
        ready = [node for node in nodes if done.issuperset(filter(None, node.input))]
        node = rng.choice(ready)
        nodes.remove(node)
        done.update(node.output)
        copy.graph.node.append(node)
    return copy


@pytest.mark.parametrize("seed", range(3))
def test_the_fingerprint_ignores_names_and_order(seed: int) -> None:
    model = simplify(zoo.build("inception_block"))
    one = graph_from_onnx(model)
    two = graph_from_onnx(rename_and_reorder(model, seed))
    assert [op.kind for op in one.operators] != [op.kind for op in two.operators]
    assert one.fingerprint == two.fingerprint


def test_the_fingerprint_ignores_weights_but_not_shapes() -> None:
    prints = {graph_from_onnx(zoo.build("nasnet_cell", seed)).fingerprint for seed in (0, 1)}
    assert len(prints) == 1
    assert graph_from_onnx(zoo.build("inception_block")).fingerprint not in prints


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["nasnet_cell", "inception_block", "squeezenet"])
def test_units_and_blocks_keep_that_promise(name: str, seed: int) -> None:
    model = simplify(zoo.build(name))
    one = form_units(graph_from_onnx(model))
    two = form_units(graph_from_onnx(rename_and_reorder(model, seed)))
    assert one.fingerprint == two.fingerprint
    sizes = [[block.bit_count() for block in cut_blocks(graph)] for graph in (one, two)]
    assert sizes[0] == sizes[1]
