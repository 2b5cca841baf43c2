"""Compute the outputs that a model's programs must have, and compare programs with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from runtime_ext.verification.expected import Original, Outputs, expected_outputs
from runtime_ext.verification.not_computed import NotComputed
from runtime_ext.verification.onnx_outputs import evaluated_outputs, runtime_outputs
from runtime_ext.verification.torch_outputs import torch_outputs
from tvm_ios.contest.outputs import (
    EDGES,
    NAN,
    Reference,
    Sample,
    VerificationError,
    Verify,
    difference,
    output_errors,
)
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edge_inputs import edge_inputs
from tvm_ios.onnx.spreading_nan import spreading_nan

Inputs = Mapping[str, Array]
#: The kind of a sample of :func:`with_large_channels`.
LARGE_CHANNELS = "for inputs with some large channels"
_T = TypeVar("_T")


@dataclass(frozen=True)
class ComparedModel:
    """A model with which programs are compared."""

    #: As it is written in its own framework; None where that is TVM.
    original: Original | None
    #: The simplified ONNX model; None for a model that did not come from ONNX.
    simple: onnx.ModelProto | None
    #: Returns the outputs of TVM's own build for some samples of inputs.
    tvm_outputs: Callable[[Sequence[Inputs]], Outputs]


def reference_of(
    model: ComparedModel,
    inputs: Inputs,
    verify: Verify,
    *,
    precision: str,
    quantised: bool,
    infinities: bool,
) -> Reference:
    """Return the samples of inputs and outputs that a model's programs are compared with.

    To the random ``inputs`` of the programs, edge inputs are added, and inputs with large channels
    if the model rounds numbers (``quantised``). ``verify`` selects the source of the outputs.
    ``infinities`` says that reductions of the programs may meet nothing but infinities.
    """
    samples = [Sample(inputs)]
    if verify is Verify.off:
        return Reference(samples, precision, quantised, None)
    if verify is Verify.onnx and model.simple is not None:
        edges = edge_inputs(model.simple, inputs, infinities=infinities)
        if edges is not None:
            samples.append(Sample(edges, kind=EDGES))
    if quantised and (uneven := with_large_channels(inputs)) is not None:
        samples.append(Sample(uneven, kind=LARGE_CHANNELS))
    if verify is Verify.onnx and model.simple is not None and infinities:
        spread = spreading_nan(model.simple, inputs)
        samples += [] if spread is None else [Sample(spread, kind=NAN)]
    wide = [in_computed_types(sample.inputs, precision) for sample in samples]
    # At edges TVM is no judge.
    expected = expected_outputs(model.original, wide, lambda: model.tvm_outputs(wide[:1]), verify)
    return Reference(
        [replace(s, outputs=o) for s, o in zip(samples, expected.outputs, strict=False)],
        precision,
        quantised,
        expected.source,
    )


def with_tvm_outputs(
    reference: Reference, tvm_outputs: Callable[[Sequence[Inputs]], Outputs]
) -> Reference:
    """Return the reference with the outputs of TVM's own build, if anything is compared.

    The build is not run on samples with NaN, which its Relu drops.
    """
    if reference.source is None:
        return reference
    samples = [sample.inputs for sample in reference.samples if sample.kind != NAN]
    outputs = tvm_outputs([in_computed_types(inputs, reference.precision) for inputs in samples])
    return replace(reference, tvm_outputs=outputs)


def with_large_channels(inputs: Inputs) -> dict[str, Array] | None:
    """Return inputs as in trained networks: many small numbers beside channels of large ones.

    With these a quantised model rounds to long steps, so that one step of error counts. Return None
    if no input is floating-point.
    """
    generator = np.random.default_rng(2)
    drawn = dict(inputs)
    for name, array in inputs.items():
        if array.dtype.kind == "f" and array.ndim:
            channels = np.clip(generator.standard_t(2, array.shape[-1]), -30, 30)
            drawn[name] = (array * channels).astype(array.dtype)
    changed = any(drawn[name] is not array for name, array in inputs.items())
    return drawn if changed else None


def judged(
    original: Original | None, reference: Reference, attempt: Callable[[Reference], _T]
) -> tuple[Reference, _T]:
    """Compare programs with a reference by ``attempt``; return the last reference and the result.

    If a program seems wrong, attempt again with the reference's own rounding error taken into
    account, then with the outputs of ``onnx.reference``. Raise VerificationError if all attempts
    fail.
    """
    try:
        return reference, attempt(reference)
    except VerificationError as error:
        last = error
    for ask in (with_own_error, second_opinion):
        if (other := ask(original, reference)) is None:
            continue
        reference = other
        try:
            return reference, attempt(reference)
        except VerificationError as error:
            last = error
    raise last


def with_own_error(original: Original | None, reference: Reference) -> Reference | None:
    """Return the reference with the error that rounding alone causes for its random inputs.

    Some models magnify any rounding, so that the framework itself is as far from the exact result.
    Return None if that error is unknown, or within the tolerance that programs have anyway.
    """
    if original is None:
        return None
    inputs = in_computed_types(reference.samples[0].inputs, reference.precision)
    try:
        error = own_error(original, inputs)
    except NotComputed:
        return None
    other = replace(
        reference,
        own_error=error,
        source=f"{reference.source}, which itself differs by {error:.1e} of the largest output if "
        "inputs and weights change by one step of their type",
    )
    wider = math.isfinite(error) and other.tolerance.relative > reference.tolerance.relative
    return other if wider else None


def second_opinion(original: Original | None, reference: Reference) -> Reference | None:
    """Return the reference with outputs of ``onnx.reference``, if they differ from ONNX Runtime's.

    Some of ONNX Runtime's kernels begin with the lowest number where there should be an infinity.
    This is slow, so it is called only if a program seems wrong. Return None if the outputs agree,
    or ``onnx.reference`` does not run the model.
    """
    if not isinstance(original, onnx.ModelProto):
        return None
    wide = [in_computed_types(s.inputs, reference.precision) for s in reference.samples]
    try:
        outputs, source = evaluated_outputs(original, wide)
    except NotComputed:
        return None
    pairs = [*zip(reference.samples, outputs, strict=False)]
    if not any(difference(s.compared(o), s.outputs, reference.tolerance) for s, o in pairs):
        return None
    return replace(
        reference,
        samples=[replace(sample, outputs=arrays) for sample, arrays in pairs],
        source=f"{source}, from which {reference.source} differs",
    )


def in_computed_types(inputs: Inputs, precision: str) -> dict[str, Array]:
    """Return the inputs of programs in the types that the model itself computes in.

    With precision float16 a GPU only stores float16: these inputs become float32.
    """
    if precision != "float16":
        return dict(inputs)
    return {n: v.astype("float32") if v.dtype == "float16" else v for n, v in inputs.items()}


_DRAWS = 2
#: The types whose rounding counts.
_ROUNDED = (TensorProto.FLOAT, TensorProto.FLOAT16)


def own_error(original: Original, inputs: Mapping[str, Array]) -> float:
    """Return by how much rounding changes a model's outputs, relative to the largest of each.

    Infinite if NaN or infinities come and go. ``inputs`` are in the model's order. Raise
    NotComputed if ONNX Runtime or PyTorch does not run the model.
    """
    right = _outputs(original, inputs)
    others = (_outputs(original, inputs, np.random.default_rng(seed)) for seed in range(_DRAWS))
    return max(output_errors(outputs, right)[1] for outputs in others)


def _outputs(original: Original, inputs: Mapping[str, Array], draw: Any = None) -> list[Array]:
    """Return a model's outputs; with ``draw`` those from inputs and weights one step off."""

    def moved(array: Array) -> Array:
        return array if draw is None else _one_step_off(array, draw)

    sample = {name: moved(array) for name, array in inputs.items()}
    if isinstance(original, Path):
        outputs, _ = torch_outputs(original, [sample], moved)
    else:
        outputs, _ = runtime_outputs(_with_weights(original, moved), [sample])
    return outputs[0]


def _with_weights(model: onnx.ModelProto, moved: Callable[[Array], Array]) -> onnx.ModelProto:
    other = onnx.ModelProto()
    other.CopyFrom(model)
    for weight in other.graph.initializer:
        # Others can be extents, scales of images and the like.
        if weight.data_type in _ROUNDED and len(weight.dims) > 1:
            array = moved(numpy_helper.to_array(weight))
            weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    return other


def _one_step_off(array: Array, draw: Any) -> Array:
    if array.dtype not in (np.float32, np.float16):
        return array
    towards = np.where(draw.random(array.shape) < 0.5, -math.inf, math.inf)
    return np.nextafter(array, towards.astype(array.dtype))
