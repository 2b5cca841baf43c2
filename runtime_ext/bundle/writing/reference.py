"""Make the inputs and outputs with which a bundle's programs are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from runtime_ext.bundle.weights import Draw
from runtime_ext.bundle.writing.model import ModelToBundle
from runtime_ext.execution.bound_model import library_outputs
from runtime_ext.execution.buffers import content_key
from runtime_ext.machine.this_machine import host_target
from runtime_ext.peers.tvm_build import compile_tvm_build
from runtime_ext.verification.reference import ComparedModel, in_computed_types, reference_of
from tvm_ios.contest.outputs import Reference, Sample, Verify
from tvm_ios.contest.tolerance import rounds
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.graph.op_graph import OpGraph


def reference_inputs(
    graph: OpGraph, precision: str, arrays: dict[str, Array], drawn: dict[str, Draw]
) -> dict[str, str]:
    """Make random inputs of the types that the programs take; return their content keys by name.

    They are added to ``arrays`` and ``drawn``: numbers are drawn again where the bundle runs,
    because a batch of images is larger than all the rest. With ``float16`` inputs of float32 are
    stored as float16.
    """
    keys: dict[str, str] = {}
    for place, number in enumerate(graph.inputs):
        tensor = graph.tensors[number]
        if np.dtype(tensor.dtype).kind == "f":
            half = precision == "float16" and tensor.dtype == "float32"
            draw = Draw(tensor.shape, "float16" if half else tensor.dtype, 0.0, 1.0, place)
            array = draw.array()
            drawn[content_key(array)] = draw
        else:
            drawn_bits = np.random.default_rng(place).integers(0, 2, tensor.shape)
            array = drawn_bits.astype(tensor.dtype)
        keys[tensor.name] = content_key(array)
        arrays[keys[tensor.name]] = array
    return keys


def bundled_reference(
    model: ModelToBundle, inputs: Mapping[str, Array], verify: Verify, by: str | None
) -> Reference:
    """Compute the outputs that a bundle's programs are compared with, in float32.

    ``by`` is ``torch`` (far faster than TVM for a large batch), ``tvm`` (TVM's own build, with
    untuned loops), or None for the framework that ``verify`` names. Raise UserError if PyTorch is
    asked for and is missing, or lacks an operator.
    """
    quantised = rounds(unit.kind for unit in model.graph.operators)
    if by == "torch":
        wide = in_computed_types(inputs, model.precision)
        sample = Sample(inputs, _torch_outputs(model, wide))
        return Reference([sample], model.precision, quantised, "PyTorch")

    def tvm_outputs(samples: Sequence[Mapping[str, Array]]) -> list[list[Array]]:
        with temporary_folder() as folder:
            compile_tvm_build(model.module, host_target(1), folder / "tvm.so")
            return library_outputs(folder / "tvm.so", samples)

    return reference_of(
        ComparedModel(model.original, model.simple, tvm_outputs),
        inputs,
        Verify.tvm if by == "tvm" else verify,
        precision=model.precision,
        quantised=quantised,
        # As in ``optimize``.
        infinities=model.backend.executor == "native",
    )


def _torch_outputs(model: ModelToBundle, inputs: Mapping[str, Array]) -> list[Array]:
    try:
        import torch

        from runtime_ext.peers.torch_import.graph_network import graph_network
    except ImportError as error:
        raise UserError(
            "PyTorch is to compute the reference and is not installed: pip install "
            "'tvm-ios[torch]', or leave out --reference"
        ) from error
    network = graph_network(model.operators, model.constant_operands)
    with torch.inference_mode():
        outputs = network(*map(torch.from_numpy, inputs.values()))
    return [value.numpy() for value in outputs]
