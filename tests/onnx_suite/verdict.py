"""What a case comes to: its outputs beside the expected ones."""

from __future__ import annotations

import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx

from tests.onnx_suite.cases import Case, all_cases, as_array
from tests.onnx_suite.ways import OURS, WAYS, Way
from tvm_ios.files.array_files import Array

#: ``tail`` is passed with the end of the model on ONNX Runtime, or on ``onnx.reference`` where that
#: is not installed; ``refused`` is one sentence of tvm-ios, ``wrong`` another value, shape or type,
#: ``error`` any other exception, ``outside`` a case that is not of tensors of numbers, or random.
VERDICTS = ("pass", "tail", "refused", "wrong", "error", "crash", "hang", "outside")

#: The suite's own is 1e-7, which few real kernels keep where results cancel.
_LEAST_ATOL = 1e-5

#: Two units in the last place, which the suite allows bfloat16 alone.
_NARROW_RTOL = {"bfloat16": 2**-6, "float16": 2**-9}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One of :data:`VERDICTS`, and what led to it."""

    verdict: str
    detail: str = ""


def examiner(way: str, form: str) -> Callable[[str], Verdict]:
    """A function that gives the verdict on the case of a name."""
    warnings.simplefilter("ignore")
    cases = all_cases(form)
    return lambda name: examine(cases[name], WAYS[way], refuses=way in OURS)


def start(way: str, form: str) -> Callable[[], Callable[[str], Verdict]]:
    """What a child process begins with."""
    return partial(examiner, way, form)


def examine(case: Case, way: Way, *, refuses: bool) -> Verdict:
    """The verdict on a case.

    Parameters
    ----------
    refuses
        Whether a :class:`UserError` is a refusal, not an error.
    """
    if (reason := case.outside) is not None:
        return Verdict("outside", reason)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _compare(case, way, Path(folder) / f"{case.test.name}.onnx")
    except Exception as error:
        from tvm_ios.errors import UserError

        text = " ".join(str(error).split())
        if refuses and isinstance(error, UserError):
            return Verdict("refused", text)
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        return Verdict("error", f"{type(error).__name__} at {place}: {text[:600]}")


def _compare(case: Case, way: Way, path: Path) -> Verdict:
    atol = max(case.test.atol, _LEAST_ATOL)
    passed = Verdict("pass")
    for inputs, expected in case.data_sets:
        model, feeds = case.formed(inputs)
        onnx.save(model, str(path))
        computed = way(model, path, feeds)
        outputs = computed.outputs
        if computed.tail:
            passed = Verdict("tail", computed.tail)
        if len(outputs) != len(expected):
            return Verdict("wrong", f"{len(outputs)} outputs, not {len(expected)}")
        for place, (reference, output) in enumerate(zip(expected, outputs, strict=True)):
            text = difference(as_array(reference), np.asarray(output), case.test.rtol, atol)
            if text is not None:
                return Verdict("wrong", f"output {place}: {text}")
    return passed


def difference(expected: Array, output: Array, rtol: float, atol: float) -> str | None:
    """How an output differs from what is expected, or None if it does not."""
    if output.shape != expected.shape:
        return f"shape {list(output.shape)}, not {list(expected.shape)}"
    if output.dtype != expected.dtype:
        return f"type {output.dtype}, not {expected.dtype}"
    if expected.dtype == bool or np.issubdtype(expected.dtype, np.integer):
        wrong = output != expected
    else:
        wide = np.complex128 if np.iscomplexobj(expected) else np.float64
        rtol = max(rtol, _NARROW_RTOL.get(expected.dtype.name, 0.0))
        output, expected = output.astype(wide), expected.astype(wide)
        wrong = ~np.isclose(output, expected, rtol=rtol, atol=atol, equal_nan=True)
    if not np.any(wrong):
        return None
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{np.count_nonzero(wrong)} of {wrong.size} numbers differ, the first at {list(where)}: "
        f"{output[where]}, not {expected[where]}"
    )
