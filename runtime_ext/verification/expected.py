"""Choose the framework whose outputs are taken as right: the model's own, or TVM's own build."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnx

from runtime_ext.verification.not_computed import NotComputed
from runtime_ext.verification.onnx_outputs import evaluated_outputs, runtime_outputs
from runtime_ext.verification.torch_outputs import torch_outputs
from tvm_ios.contest.outputs import Verify
from tvm_ios.files.array_files import Array

#: A model as it is written in its own framework: an ONNX model, or a ``.pt2`` file.
Original = onnx.ModelProto | Path

Outputs = Sequence[Sequence[Array]]

TVM_BUILD = "TVM's own build"


@dataclass(frozen=True)
class Expected:
    """The outputs that a model should compute.

    ``outputs`` has those of each sample, in the model's order, for as many as were computed.
    ``source`` names the framework, and why not another; None if nothing is to be compared.
    """

    outputs: Outputs
    source: str | None


def expected_outputs(
    original: Original | None,
    inputs: Sequence[Mapping[str, Array]],
    tvm_outputs: Callable[[], Outputs],
    verify: Verify,
) -> Expected:
    """Return the outputs that a model should compute from each sample of inputs.

    ``original`` is the model in its own framework, None if that is TVM; ``tvm_outputs`` runs TVM's
    own build. ``verify`` selects the source: for an ONNX model ONNX Runtime if it is installed and
    runs the model, else ``onnx.reference`` within its time limit, else TVM.
    """
    if verify is Verify.off:
        return Expected([()] * len(inputs), None)
    reasons: list[str] = []
    if verify is Verify.onnx and original is not None:
        ways = (
            [partial(torch_outputs, original)]
            if isinstance(original, Path)
            else [partial(runtime_outputs, original), partial(evaluated_outputs, original)]
        )
        for way in ways:
            try:
                return Expected(*way(inputs))
            except NotComputed as error:
                reasons.append(str(error))
    because = f" ({'; '.join(reasons)})" if reasons else ""
    return Expected(tvm_outputs(), f"{TVM_BUILD}{because}")
