"""Our passes among TVM's own: whatever comes before and after, the result is the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax
from tvm.relax.dpl import is_op, wildcard

from tests.build_flows import OURS, built_among
from tests.fast_run import examples
from tests.onnx_sketch import relative_error
from tests.relax.relax_sketch import RelaxSketch, branches, inputs_of, module_of, outputs_of, run

op, passes = relax.op, relax.transform


def network(s: RelaxSketch, x: Any) -> Any:
    """What can be merged, folded, is there twice, needs no computing, and two results."""
    wide = s.emit(op.nn.relu(s.norm(branches(s, x))))
    twice = s.emit(op.add(s.emit(op.sigmoid(wide)), s.emit(op.sigmoid(wide))))
    flat = s.emit(op.reshape(s.emit(op.nn.max_pool2d(twice, (2, 2), (2, 2))), (2, -1)))
    product = s.emit(op.matmul(flat, s.normal(21 * 16, 5)))
    shift = s.emit(op.multiply(s.normal(5), relax.const(2.0, "float32")))
    return s.emit(op.nn.softmax(s.emit(op.add(product, shift)), axis=-1)), wide


@cache
def reference() -> tuple[tvm.IRModule, Sequence[Any], Sequence[Any]]:
    module = module_of([(2, 3, 8, 8)], network)
    inputs = inputs_of(module)
    return module, inputs, run(module, inputs)


def _by_pattern(**options: bool) -> Any:
    convolution = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    return passes.FuseOpsByPattern([("ours.conv2d", convolution)], **options)


PASSES: dict[str, Callable[[], Any]] = {
    name: getattr(passes, name)
    for name in (
        "AdjustMatmulOrder",
        "CallTIRRewrite",
        "CanonicalizeBindings",
        "CombineParallelMatmul",
        "ConvertToDataflow",
        "DeadCodeElimination",
        "DecomposeOpsForInference",
        "EliminateCommonSubexpr",
        "ExpandMatmulOfSum",
        "ExpandTupleArguments",
        "FoldBatchnormToConv2D",
        "FoldConstant",
        "FuseOps",
        "InlinePrivateFunctions",
        "KillAfterLastUse",
        "LambdaLift",
        "LegalizeOps",
        "LiftTransformParams",
        "Normalize",
        "OptimizeLayoutTransform",
        "RemoveRedundantReshape",
        "RemoveUnusedOutputs",
        "RemoveUnusedParameters",
        "ReorderPermuteDimsAfterConcat",
        "ReorderTakeAfterMatmul",
        "ToNonDataflow",
        "TopologicalSort",
    )
} | {
    "ConvertLayout": lambda: passes.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]}),
    "FuseOpsByPattern": _by_pattern,
    "FuseOpsByPattern and Codegen": lambda: _by_pattern(annotate_codegen=True),
    "FuseOpsByPattern, constants bound": lambda: _by_pattern(bind_constants=True),
    "FuseTIR": lambda: tvm.transform.Sequential(
        [passes.LegalizeOps(), passes.AnnotateTIROpPattern(), passes.FuseOps(), passes.FuseTIR()]
    ),
}

_SEQUENCES = st.lists(st.sampled_from(sorted(PASSES)), max_size=3)


def _applied(name: str, module: tvm.IRModule) -> tvm.IRModule:
    """One of TVM's passes; as it is where TVM cannot apply it, which is not ours to mend."""
    try:
        return PASSES[name]()(module)
    except Exception:
        return module


@examples(24, deadline=None)
@given(_SEQUENCES, st.sampled_from(sorted(OURS)), _SEQUENCES)
def test_any_passes_around_ours(before: list[str], ours: str, after: list[str]) -> None:
    module, inputs, expected = reference()
    model = built_among(module, before, ours, after, _applied)
    if model is None:
        return
    outputs = outputs_of(model, list(inputs))
    assert relative_error(outputs, expected) <= 1e-4
