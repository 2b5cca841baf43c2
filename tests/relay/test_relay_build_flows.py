"""Our passes among TVM's own, of Relay: whatever comes before and after, the result is the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import relay
from tvm.relay.dataflow_pattern import is_op, wildcard

from tests.build_flows import OURS, built_among
from tests.fast_run import examples, is_fast
from tests.onnx_sketch import relative_error
from tests.relay.relay_sketch import RelaySketch, branches, inputs_of, module_of, run

passes = relay.transform


def network(s: RelaySketch, x: Any) -> Any:
    """What can be merged, folded, is there twice, needs no computing, and two results."""
    wide = relay.nn.relu(s.norm(branches(s, x), 21))
    twice = relay.add(relay.sigmoid(wide), relay.sigmoid(wide))
    flat = relay.nn.batch_flatten(relay.nn.max_pool2d(twice, (2, 2), (2, 2)))
    shift = relay.multiply(s.normal(5), relay.const(2.0))
    product = relay.nn.dense(flat, s.normal(5, 21 * 16))
    return relay.nn.softmax(relay.add(product, shift)), wide


@cache
def reference() -> tuple[tvm.IRModule, dict[str, Any], Sequence[Any]]:
    module = module_of([(2, 3, 8, 8)], network)
    inputs = inputs_of(module)
    return module, inputs, run(module, inputs)


def _composite() -> Any:
    convolution = is_op("nn.conv2d")(wildcard(), wildcard())
    return passes.MergeComposite([("ours.conv2d", convolution)])


PASSES: dict[str, Callable[[], Any]] = {
    name: getattr(passes, name)
    for name in (
        "AlterOpLayout",
        "AnnotateSpans",
        "BackwardFoldScaleAxis",
        "CanonicalizeCast",
        "CanonicalizeOps",
        "CombineParallelConv2D",
        "CombineParallelDense",
        "DeadCodeElimination",
        "DefuseOps",
        "DynamicToStatic",
        "EliminateCommonSubexpr",
        "FlattenAtrousConv",
        "FoldConstant",
        "FoldExplicitPadding",
        "ForwardFoldScaleAxis",
        "FuseOps",
        "InferType",
        "Inline",
        "LambdaLift",
        "Legalize",
        "PartitionGraph",
        "RemoveUnusedFunctions",
        "SimplifyExpr",
        "SimplifyInference",
        "ToANormalForm",
        "ToBasicBlockNormalForm",
        "ToGraphNormalForm",
    )
} | {
    "ConvertLayout": lambda: passes.ConvertLayout({"nn.conv2d": ["NHWC", "default"]}),
    "FuseOps, all": lambda: passes.FuseOps(2),
    "MergeComposite": _composite,
}

_SEQUENCES = st.lists(st.sampled_from(sorted(PASSES)), max_size=2)


def applied(name: str, module: tvm.IRModule) -> tvm.IRModule:
    """One of TVM's passes; as it is where TVM cannot apply it, which is not ours to mend."""
    # Some of TVM's change the module that they are given.
    copy = tvm.IRModule(dict(module.functions.items()), module.type_definitions, module.attrs)
    try:
        with tvm.target.Target("llvm"), tvm.transform.PassContext(opt_level=4):
            typed = passes.InferType()(copy)
            return passes.InferType()(PASSES[name]()(typed))
    except Exception:
        return module


# Each builds a network several times.
@examples(2 if is_fast() else 8, deadline=None)
@given(_SEQUENCES, st.sampled_from(sorted(OURS)), _SEQUENCES)
def test_any_passes_around_ours(before: list[str], ours: str, after: list[str]) -> None:
    module, inputs, expected = reference()
    model = built_among(module, before, ours, after, applied)
    if model is None:
        return
    session = model.session()
    session.run(**inputs)
    outputs = [session.get_output(place) for place in range(len(expected))]
    assert relative_error(outputs, expected) <= 1e-4
