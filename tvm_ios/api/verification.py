"""What the programs of a model have to compute, and where one that does not goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from tvm_ios.contest.outputs import (
    Reference,
    Sample,
    VerificationError,
    Verify,
    is_rounding,
    output_errors,
    precision_of,
)
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edge_inputs import edge_inputs
from tvm_ios.progress import Progress

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from relay_passes.search_options import SearchOptions
    from runtime_ext.execution.built_model import BuiltModel


def reference_of(
    loaded: LoadedModel,
    inputs: Mapping[str, Array],
    tvm_build: Path,
    precision: str,
    verify: Verify,
    *,
    on_cpu: bool,
) -> Reference:
    """What the programs of a model have to compute.

    Parameters
    ----------
    loaded
        The model.
    inputs
        Random inputs of the programs.
    tvm_build
        TVM's own build of it for a CPU, a ``.so``.
    precision
        The precision of the programs.
    verify
        What they are compared with.
    on_cpu
        Whether they run on a CPU.
    """
    from runtime_ext.peers.tvm_peer import start_library
    from runtime_ext.verification.expected import expected_outputs

    samples = [Sample(inputs)]
    if verify is Verify.off:
        return Reference(samples, precision, None)
    if verify is Verify.onnx and loaded.onnx is not None:
        # Of infinities alone TVM's reductions make finite numbers, in Relay and on GPUs also ours.
        infinities = loaded.dialect.name == "relax" and on_cpu
        if (edges := edge_inputs(loaded.onnx, inputs, infinities=infinities)) is not None:
            samples.append(Sample(edges, kind="for inputs with infinities, ties or last indices"))
    wide = [in_computed_types(sample.inputs, precision) for sample in samples]
    started = [start_library(tvm_build, sample) for sample in wide]
    outputs_of_tvm = [tvm.outputs(tvm.run()) for tvm in started]
    expected = expected_outputs(loaded.original, wide, lambda: outputs_of_tvm, verify)
    # At edges TVM is no judge.
    outputs = expected.outputs[:1] if expected.by_tvm else expected.outputs
    return Reference(
        [replace(s, outputs=o) for s, o in zip(samples, outputs, strict=False)],
        precision_of(outputs[0], precision),
        expected.source,
        outputs_of_tvm,
    )


def second_opinion(original: object, reference: Reference) -> Reference | None:
    """What ``onnx.reference`` makes of a model, where ONNX Runtime makes something else of it.

    Some of ONNX Runtime's kernels begin with the lowest number where there should be an infinity.
    It is asked for when a program seems to be wrong, for it takes long.

    Parameters
    ----------
    original
        The model in its own framework.
    reference
        What the program differs from.

    Returns
    -------
    Reference, or None
        None where it says the same, or does not run the model.
    """
    from runtime_ext.verification.not_computed import NotComputed
    from runtime_ext.verification.onnx_outputs import evaluated_outputs

    if not isinstance(original, onnx.ModelProto):
        return None
    wide = [in_computed_types(s.inputs, reference.precision) for s in reference.samples]
    try:
        outputs, source = evaluated_outputs(original, wide)
    except NotComputed:
        return None
    pairs = [*zip(reference.samples, outputs, strict=False)]
    if all(is_rounding(output_errors(s.outputs, o), reference.precision) for s, o in pairs):
        return None
    return replace(
        reference,
        samples=[replace(sample, outputs=array) for sample, array in pairs],
        source=f"{source}, from which {reference.source} differs",
    )


def in_computed_types(inputs: Mapping[str, Array], precision: str) -> dict[str, Array]:
    """The inputs of programs in the types that the model itself computes in.

    In float16 only what a GPU stores is so.
    """
    if precision != "float16":
        return dict(inputs)
    return {n: v.astype("float32") if v.dtype == "float16" else v for n, v in inputs.items()}


def located(
    error: VerificationError,
    loaded: LoadedModel,
    built: Mapping[str, BuiltModel],
    reference: Reference,
    options: SearchOptions,
    verify: Verify,
    progress: Progress,
    *,
    on_cpu: bool,
) -> VerificationError:
    """The same error with the first operator whose output differs, as far as it can be told.

    Parameters
    ----------
    error
        Names the policy.
    loaded, built
        The model, and its programs by policy.
    reference
        What they have to compute.
    options, verify, progress, on_cpu
        As of :func:`reference_of`, and of :func:`tvm_ios.api.contests.compare_policies`.
    """
    from relay_passes.first_wrong_operator import first_wrong_operator
    from runtime_ext.execution.first_wrong_unit import first_wrong_unit

    inputs = [sample.inputs for sample in reference.samples]
    if error.policy == "sequential":
        where = first_wrong_operator(loaded, inputs, options, verify, progress)
    else:
        where = "while the program of one unit after another is right"
        programs = built["sequential"], built[error.policy]
        units = (first_wrong_unit(*programs, i, reference.precision) for i in inputs if on_cpu)
        if (unit := next(filter(None, units), None)) is not None:
            where = f"first after unit {unit}, {where}"
    return VerificationError(error.difference, error.policy, where)
