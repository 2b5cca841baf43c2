"""Compute the outputs of an ONNX model by ONNX Runtime, or by ONNX's own evaluator."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import numpy as np
import onnx
from onnx import helper

from runtime_ext.fresh_process import ProcessTimeLimit, run_fresh_process
from runtime_ext.verification.not_computed import NotComputed
from tvm_ios.files.array_files import Array, read_arrays, write_arrays
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.onnx.inputs import free_inputs
from tvm_ios.onnx.tail import NEWEST_FORMAT

#: Operators that multiply integers of eight bits.
_EIGHT_BITS = frozenset(
    {
        *("ConvInteger", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulInteger"),
        *("MatMulIntegerToFloat", "QAttention", "QGemm", "QLinearConv", "QLinearMatMul"),
    }
)
#: Samples that ONNX Runtime computes at once.
_AT_ONCE = 2
#: Time limit of ``onnx.reference``, which computes a convolution in NumPy in seconds.
EVALUATOR_SECONDS = 30.0


def runtime_outputs(
    model: onnx.ModelProto, inputs: Sequence[Mapping[str, Array]]
) -> tuple[list[list[Array]], str]:
    """Return the outputs that ONNX Runtime computes for each sample, and the runtime's name.

    ``model`` is as its user wrote it and runs operator by operator, without optimisations. A sample
    has arrays by the names of a program's inputs, in the model's order; the first one at least is
    computed. Raise NotComputed if ONNX Runtime is not installed, or refuses the model.
    """
    if find_spec("onnxruntime") is None:
        raise NotComputed("ONNX Runtime is not installed")
    import onnxruntime

    feeds = [named_by_model(model, sample) for sample in inputs]
    name = f"ONNX Runtime {onnxruntime.__version__}"
    try:
        session = reference_session(model)
        outputs = [_numbers(session.run(None, feeds[0]))]
    # It raises what it likes about operators that it lacks, and protobuf about 2 GB.
    except Exception as error:
        raise NotComputed(f"{name} refuses the model") from error
    # Each run takes one thread, and the memory of a sample.
    with ThreadPoolExecutor(_AT_ONCE) as pool, contextlib.suppress(Exception):
        for results in pool.map(lambda feed: session.run(None, feed), feeds[1:]):
            outputs.append(_numbers(results))
    return outputs, name


def reference_session(model: onnx.ModelProto) -> Any:
    """Return an ONNX Runtime session that runs a model as it is written, on one thread.

    On processors without VNNI its 8-bit products are added up in 16 bits, which overflow, unless
    its most precise kernels are requested; it has these for some models only.
    """
    import onnxruntime

    text = _in_float32(_in_known_format(model)).SerializeToString()

    def session(level: str) -> Any:
        options: Any = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        options.add_session_config_entry("session.x64quantprecision", "1")
        return onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])

    if any(node.op_type in _EIGHT_BITS for node in model.graph.node):
        # It raises what it likes where the kernels that it chose are not there.
        with contextlib.suppress(Exception):
            return session("ORT_ENABLE_EXTENDED")
    return session("ORT_DISABLE_ALL")


def evaluated_outputs(
    model: onnx.ModelProto, inputs: Sequence[Mapping[str, Array]]
) -> tuple[list[list[Array]], str]:
    """Return the outputs that ``onnx.reference`` computes for each sample, and its name.

    It runs in a process that is ended after :data:`EVALUATOR_SECONDS`. ``inputs`` are as of
    :func:`runtime_outputs`. Raise NotComputed if nothing was computed.
    """
    name = f"onnx.reference {onnx.__version__}"
    feeds = [named_by_model(model, sample) for sample in inputs]
    with temporary_folder() as folder:
        reason = f"{name} does not run the model"
        try:
            (folder / "model.onnx").write_bytes(model.SerializeToString())
            for place, feed in enumerate(feeds):
                write_arrays(folder / f"inputs{place}.npz", feed)
            run_fresh_process(
                [
                    *(sys.executable, "-m", "runtime_ext.verification.evaluator_process"),
                    str(os.getpid()),
                ],
                {"folder": str(folder), "samples": len(feeds)},
                limit=EVALUATOR_SECONDS,
            )
        except ProcessTimeLimit:
            reason = f"{name} takes more than {EVALUATOR_SECONDS:g} s"
        # A process that failed, and what protobuf says of 2 GB.
        except Exception:
            pass
        files = sorted(folder.glob("outputs*.npz"))
        try:
            outputs = [_numbers(read_arrays(file).values()) for file in files]
        except Exception as error:  # of types that NumPy has not
            raise NotComputed(reason) from error
    if not outputs:
        raise NotComputed(reason)
    return outputs, name


def named_by_model(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs of a program by the model's names, in the model's own types.

    Inputs that the program lacks, because nothing reads them, are zeros. Raise NotComputed if names
    do not match.
    """
    free = free_inputs(model)
    arrays = dict(inputs)
    feeds: dict[str, Array] = {}
    for value in free:
        tensor = value.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if value.name in arrays:
            feeds[value.name] = arrays.pop(value.name).astype(dtype, copy=False)
        elif all(d.HasField("dim_value") for d in tensor.shape.dim):
            feeds[value.name] = np.zeros([d.dim_value for d in tensor.shape.dim], dtype)
    if arrays or len(feeds) < len(free):
        raise NotComputed("the model's inputs have other names in the program")
    return feeds


def _in_known_format(model: onnx.ModelProto) -> onnx.ModelProto:
    if model.ir_version <= NEWEST_FORMAT:
        return model
    older = onnx.ModelProto()
    older.CopyFrom(model)
    older.ir_version = NEWEST_FORMAT
    return older


def _in_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with products of few-bit weights in float32, without rounding data."""
    if all(node.op_type != "MatMulNBits" for node in model.graph.node):
        return model
    exact = onnx.ModelProto()
    exact.CopyFrom(model)
    for node in exact.graph.node:
        for attribute in node.attribute:
            if node.op_type == "MatMulNBits" and attribute.name == "accuracy_level":
                attribute.i = 1
    return exact


def _numbers(outputs: Iterable[Any]) -> list[Array]:
    """Return the outputs as arrays; NumPy raises if one is not of numbers."""
    arrays = [np.asarray(output) for output in outputs]
    for array in arrays:
        array.astype(np.float64)
    return arrays
