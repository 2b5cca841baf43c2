"""Whether a model that was cut in two computes what it did before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_ios.contest.outputs import LARGEST_ERRORS, VerificationError, output_errors

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel


def require_same_tail(loaded: LoadedModel) -> None:
    """Compare the part before the tail and the tail, one after the other, with the whole model.

    Each runs on ONNX Runtime; where that is not installed nothing is compared. That the program
    computes what the part before the tail does is for others to see.

    Raises
    ------
    VerificationError
        If the outputs differ.
    UserError
        If what will run the tail refuses it.
    """
    from onnx import helper

    from runtime_ext.execution.ports import Port
    from runtime_ext.execution.session import random_values
    from runtime_ext.execution.tailed_session import open_tail
    from runtime_ext.peers.onnx_outputs import onnx_outputs

    head, whole, tail = loaded.original, loaded.whole, loaded.tail
    assert head is not None
    assert whole is not None
    assert tail is not None
    run_tail = open_tail(tail, 1)
    ports: list[Port] = []
    for value in head.graph.input:
        tensor: Any = value.type.tensor_type
        shape = tuple(extent.dim_value for extent in tensor.shape.dim)
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        ports.append(Port(value.name, "", shape, str(dtype)))
    inputs = random_values(ports)
    expected = onnx_outputs(whole, [*inputs.values()])
    made = onnx_outputs(head, [*inputs.values()])
    if expected is None or made is None:
        return
    names = [value.name for value in head.graph.output]
    values = {**inputs, **dict(zip(names, made[0], strict=True))}
    outputs = run_tail({name: values[name] for name in tail.reads})
    error = output_errors([np.asarray(o) for o in outputs], expected[0])[1]
    if not error <= LARGEST_ERRORS["float32"]:
        raise VerificationError(
            f"cut before its tail, {loaded.name} differs from the result of {expected[1]} by "
            f"{error:.1e} of the largest output; please report this model"
        )
