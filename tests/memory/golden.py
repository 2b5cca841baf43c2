"""Writes ``golden.json``: graphs, peaks and proofs of the networks that the papers measure.

python tests/memory/golden.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tvm_ios.files.atomic import write_atomically
from tvm_ios.memory.footprint import Counting
from tvm_ios.memory.operators import with_activations, with_biases
from tvm_ios.memory.problem import memory_problem
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
from tvm_ios.models.load import load_operators
from tvm_ios.zoo import MEMORY_NETWORKS

#: Each tensor has memory of its own; element-wise operators write over an input; activations are
#: part of what makes their input.
COUNTS = ("separate", "in_place", "fused")

GOLDEN = Path(__file__).with_name("golden.json")


def facts(name: str) -> dict[str, Any]:
    """Of one network: its graph, and under each count the peaks in bytes and what is proven."""
    operators = load_operators(name)
    graph = with_biases(operators)
    figures: dict[str, Any] = {"fingerprint": graph.fingerprint, "operators": len(graph)}
    for label in COUNTS:
        counted = with_activations(operators) if label == "fused" else graph
        problem = memory_problem(counted, Counting(in_place=label == "in_place"))
        optimal = MEMORY_SCHEDULERS["optimal"](problem, 30.0)
        assert problem.footprints(optimal.order).peak == optimal.peak
        figures[label] = {
            "rpo": MEMORY_SCHEDULERS["rpo"](problem, 30.0).peak,
            "optimal": optimal.peak,
            "bound": optimal.bound,
            "proven": optimal.proven,
        }
    return figures


def main() -> None:
    """Write the file."""
    text = json.dumps({name: facts(name) for name in MEMORY_NETWORKS}, indent=1)
    write_atomically(GOLDEN, f"{text}\n".encode())


if __name__ == "__main__":
    main()
