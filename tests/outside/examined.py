"""The verdict on a case: ours beside the reference."""

from __future__ import annotations

import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from tests.child_process import ChildProcess
from tests.onnx_suite.verdict import Verdict, difference
from tests.onnx_suite.ways import WAYS, compiled
from tests.outside import edges, files, learners, operators, optimised, recurrent, torch_modules
from tests.outside.case import KINDS, Case, drawn
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array

#: These fill the registry of kinds.
_ROOMS = (edges, files, learners, operators, optimised, recurrent, torch_modules)
#: Seconds that a case may take; most take about one.
_LIMIT = 120.0
_ATOL = 1e-4
#: The verdicts, from the best to the worst; ``open`` where no reference computes the model.
VERDICTS = ("pass", "tail", "open", "refused", "wrong", "error", "crash", "hang")
FAULTS = ("wrong", "error", "crash", "hang")


def names(cases: int) -> list[tuple[str, int]]:
    """Return so many cases, of all kinds in turn, that can be drawn here."""
    kinds = [k for k in KINDS if "torch" not in k or find_spec("torch") is not None]
    return [(kinds[i % len(kinds)], i // len(kinds)) for i in range(cases)]


def examine_all(cases: Sequence[tuple[str, int]], seed: int) -> Iterator[tuple[str, int, Verdict]]:
    """Yield the verdict on each case, from a process that a case may end."""
    worker: ChildProcess | None = None
    try:
        for kind, number in cases:
            worker = worker or ChildProcess(partial(_examiner, seed))
            outcome, answer = worker.ask(kind, number, limit=_LIMIT)
            if outcome != "answer":
                worker.end()
                worker, answer = None, Verdict(outcome, answer)
            yield kind, number, answer
    finally:
        if worker is not None:
            worker.end()


def _examiner(seed: int) -> Callable[[str, int], Verdict]:
    warnings.simplefilter("ignore")
    return partial(examine, seed)


def examine(seed: int, kind: str, number: int) -> Verdict:
    """Return the verdict on the case of a kind and a number."""
    case = drawn(kind, number, seed)
    references = _torch_outputs(case) if not isinstance(case.model, onnx.ModelProto) else None
    try:
        with tempfile.TemporaryDirectory() as folder:
            outputs, tail = _ours(case, Path(folder))
    except Exception as error:
        text = " ".join(str(error).replace(f"{folder}/", "").split())
        if isinstance(error, UserError):
            return Verdict("refused", text)
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        return Verdict("error", f"{type(error).__name__} at {place}: {text[:600]}")
    if references is None:
        references = [case.expected] if case.expected is not None else _onnx_outputs(case)
    if not references or not references[0]:
        return Verdict("open")
    texts = [_difference(reference, outputs, case) for reference in references]
    if all(texts):
        return Verdict("wrong", texts[0])
    return Verdict("tail" if tail else "pass")


def _ours(case: Case, folder: Path) -> tuple[Sequence[Array], str]:
    if isinstance(case.model, onnx.ModelProto):
        path = folder / "case.onnx"
        onnx.save(case.model, str(path))
        computed = WAYS["tvm-ios"](case.model, path, case.feeds)
    else:
        import torch

        path = folder / "case.pt2"
        given = tuple(torch.from_numpy(np.array(x)) for x in case.feeds.values())
        torch.export.save(torch.export.export(case.model, given), path)
        computed = compiled(path, case.feeds, {})
    return computed.outputs, computed.tail


def _torch_outputs(case: Case) -> list[Sequence[Array]]:
    import torch

    with torch.no_grad():
        result = case.model(*(torch.from_numpy(np.array(x)) for x in case.feeds.values()))
    results: Sequence[Any] = result if isinstance(result, tuple | list) else [result]
    return [[each.numpy() for each in results]]


def _onnx_outputs(case: Case) -> list[Sequence[Array]]:
    """Return what ONNX Runtime computes, and ``onnx.reference``, as far as they do."""
    computed: list[Sequence[Array]] = []
    feeds = dict(case.feeds)
    ways: list[Callable[[], Sequence[Array]]] = [
        lambda: WAYS["onnxruntime"](case.model, Path(), feeds).outputs,
        lambda: ReferenceEvaluator(case.model).run(None, feeds),
    ]
    for way in ways:
        try:
            computed.append(way())
        # They raise anything about models that they do not run.
        except Exception:
            continue
    return computed


def _difference(reference: Sequence[Array], outputs: Sequence[Array], case: Case) -> str:
    """Return how outputs differ from a reference; nothing if they do not."""
    if len(reference) != len(outputs):
        return f"{len(outputs)} outputs, not {len(reference)}"
    for place, (right, ours) in enumerate(zip(reference, outputs, strict=True)):
        right = np.asarray(right)
        size = np.abs(right[np.isfinite(right)]).max(initial=1.0) if right.dtype.kind == "f" else 1
        # Sums of numbers at the edge of float32 may end on either side of it.
        atol = _ATOL * min(float(size), 1e30)
        ours = np.asarray(ours)
        if case.steps and right.shape == ours.shape and right.dtype == ours.dtype:
            near = np.abs(right.astype(int) - ours.astype(int)) <= case.steps
            ours = np.where(near, right, ours)
        text = difference(right, ours, case.rtol, atol)
        if text is not None:
            return f"output {place}: {text}"
    return ""
