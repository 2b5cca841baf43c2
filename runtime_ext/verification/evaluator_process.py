"""Run ``onnx.reference`` in a process of its own.

``python -m runtime_ext.verification.evaluator_process PARENT`` is that process; see
:mod:`runtime_ext.fresh_process` for how it gets its task and reports its result. It reads
``model.onnx`` and ``inputs0.npz``, ``inputs1.npz``, ... of a folder, and writes ``outputs0.npz``,
... with the outputs by their places.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import onnx
from onnx.reference import ReferenceEvaluator

from runtime_ext.fresh_process import end_with_parent
from tvm_ios.files.array_files import read_arrays, write_arrays


def _main(parent: int) -> None:
    end_with_parent(parent)
    task = json.loads(sys.stdin.readline())
    folder = Path(task["folder"])
    # NumPy warns of logarithms of negative numbers, as any model may compute them.
    warnings.simplefilter("ignore")
    evaluator: Any = ReferenceEvaluator(onnx.load(folder / "model.onnx"))
    for place in range(task["samples"]):
        outputs = evaluator.run(None, read_arrays(folder / f"inputs{place}.npz"))
        write_arrays(
            folder / f"outputs{place}.npz", {str(n): output for n, output in enumerate(outputs)}
        )
    print(json.dumps({"samples": task["samples"]}))


if __name__ == "__main__":
    _main(int(sys.argv[1]))
