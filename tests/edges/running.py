"""What a model of many operators computes: by us, and by those who say what is right."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from relay_passes.relax.importer import import_onnx
from tests.edges.table import numbers
from tests.onnx_sketch import Sketch
from tests.relax.relax_sketch import sequential_outputs
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.simplify import simplify

#: Makes an output of the inputs of :func:`tests.edges.table.numbers`.
Case = Callable[[Sketch], str]


def model_of(cases: Mapping[str, Case], opset: int = 20) -> Any:
    """A model with an output for each case."""
    sketch = Sketch(opset=opset)
    sketch.inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
        for name, array in numbers().items()
    ]
    return sketch.model(*[case(sketch) for case in cases.values()])


def ours(module: Any) -> list[Array]:
    """The outputs of the program of one unit after another of a canonical module."""
    return sequential_outputs(module, [numbers()[p.name] for p in module["main"].params])


def wrong_cases(cases: Mapping[str, Case]) -> dict[str, str]:
    """By name where our result is neither ONNX Runtime's nor that of ``onnx.reference``."""
    model = model_of(cases)
    computed = ours(import_onnx(simplify(model)))
    wrong: dict[str, str] = {}
    for (name, case), mine, theirs in zip(cases.items(), computed, _of_runtime(model), strict=True):
        if difference(mine, theirs):
            found = difference(mine, theirs, *_evaluated(case))
            wrong |= {name: found} if found else {}
    return wrong


def without_subnormals(compute: Callable[[], Any]) -> Any:
    """Return what a function computes in a thread where subnormal numbers are zeros, as in ours."""
    # In a thread of its own, for the others are to stay as they are.
    with ThreadPoolExecutor(1, initializer=_flush_subnormals) as thread:
        return thread.submit(compute).result()


def _flush_subnormals() -> None:
    # glibc's fenv_t of x86-64 ends with the control word MXCSR; its bits 6 and 15 flush.
    environment, library = (ctypes.c_uint32 * 8)(), ctypes.CDLL("libm.so.6")
    library.fegetenv(environment)
    environment[7] |= 1 << 6 | 1 << 15
    library.fesetenv(environment)


def _of_runtime(model: Any) -> list[Array]:
    """What ONNX Runtime computes, with subnormal numbers as zeros, as our programs have them."""
    options: Any = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1

    def outputs() -> Any:
        return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, numbers())

    return without_subnormals(outputs)


def _evaluated(case: Case) -> list[Array]:
    """What ``onnx.reference`` computes; nothing where it fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            outputs: Any = ReferenceEvaluator(model_of({"": case})).run(None, numbers())
        # It raises what it likes.
        except Exception:
            return []
    return outputs


def difference(ours: Array, *references: Array) -> str:
    """Where our numbers are those of none of the references; empty if nowhere."""
    if ours.shape != references[0].shape:
        return f"shape {ours.shape} for {references[0].shape}"
    right = np.zeros(ours.shape, bool)
    with np.errstate(all="ignore"):
        for reference in references:
            right |= np.isclose(ours, reference, 1e-4, 1e-6, equal_nan=True)
    places = np.argwhere(~right)
    if not len(places):
        return ""
    place = tuple(places[0])
    expected = " or ".join(str(reference[place]) for reference in references)
    return f"at {[*map(int, place)]} {ours[place]} for {expected}, {len(places)} in all"
