"""What the programs of a model have to compute, and where one that does not goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.contest.outputs import (
    Reference,
    Sample,
    VerificationError,
    Verify,
    largest_errors,
    output_errors,
)
from tvm_ios.files.array_files import Array
from tvm_ios.progress import Progress

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from relay_passes.search_options import SearchOptions


def reference_of(
    loaded: LoadedModel,
    inputs: Mapping[str, Array],
    tvm_build: Path,
    precision: str,
    verify: Verify,
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
    """
    from runtime_ext.peers.tvm_peer import start_library
    from runtime_ext.verification.expected import expected_outputs

    samples = [inputs]
    wide = [in_computed_types(sample, precision) for sample in samples]

    def tvm_outputs() -> list[list[Array]]:
        started = [start_library(tvm_build, sample) for sample in wide]
        return [tvm.outputs(tvm.run()) for tvm in started]

    if verify is Verify.off:
        return Reference([Sample(inputs)], precision, None, None)
    outputs_of_tvm = tvm_outputs()
    expected = expected_outputs(loaded.original, wide, lambda: outputs_of_tvm, verify)
    errors = map(output_errors, outputs_of_tvm, expected.outputs)
    return Reference(
        list(map(Sample, samples, expected.outputs)),
        precision,
        expected.source,
        largest_errors(errors),
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
    reference: Reference,
    options: SearchOptions,
    verify: Verify,
    progress: Progress,
) -> VerificationError:
    """The same error with the first operator whose output differs, as far as it can be told."""
    from relay_passes.first_wrong_operator import first_wrong_operator

    if error.policy != "sequential":
        where = "while the program of one unit after another does not: its stages are wrong"
    else:
        inputs = [sample.inputs for sample in reference.samples]
        where = first_wrong_operator(loaded, inputs, options, verify, progress)
    return VerificationError(error.difference, error.policy, where)
