"""Arenas of ExecuTorch's programs: its own planners beside ours, with and without our order.

Nothing is timed but our planning, so other work on the machine does no harm. Each program runs on
ExecuTorch's portable kernels by its greedy plan and by ours, and outputs have to be equal.
"""
# pyright: basic, reportMissingImports=warning

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Callable
from typing import Any

import torch
from executorch.backends.cadence.aot.memory_constraints import MemConstraints
from executorch.backends.cadence.aot.memory_planning import (
    GreedyWithHeuristic,
    PositionBasedGreedyWithHierarchy,
)
from executorch.backends.cadence.aot.memory_planning_algo import MemoryPlanningState
from executorch.backends.cadence.aot.utils import MemoryConfig
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.banked_memory_planning import Bank, BankedGreedy, TargetMemoryMap
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy, naive
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.tensor import ALIGNMENT
from executorch.runtime import Runtime
from rich.table import Table

from benchmarks.memory.executorch_models import MODELS, example
from benchmarks.report import read_figures, update_result
from tvm_ios.cli.frame.output import console
from tvm_ios.memory.executorch import LeastMemory

#: The bytes of a memory that holds any model, for planners that want to know.
_LARGE = 1 << 40


def of_suite(algorithm: Any) -> Callable[..., list[int]]:
    return MemoryPlanningAlgorithmSuite([algorithm])


def of_cadence(kind: Any) -> Callable[..., list[int]]:
    """A planner of Cadence's backend, without its operators that write into a concatenation."""
    memory = MemoryConfig([_LARGE], [ALIGNMENT])

    def place(_: int, specs: Any, graph_module: Any, signature: Any, padding: int) -> list[int]:
        state = MemoryPlanningState(memory)
        kind(memory).plan(specs, graph_module, signature, state, MemConstraints(), padding)
        return state.bufsizes

    return place


#: ExecuTorch's planners, by the field of their bytes: none that shares, the default, the one of
#: banks, and those of its backend Cadence.
THEIRS = {
    "unshared_bytes": of_suite(naive),
    "greedy_bytes": of_suite(greedy),
    "banked_bytes": of_suite(BankedGreedy(TargetMemoryMap([Bank("any", _LARGE, 1)]))),
    "hierarchy_bytes": of_cadence(PositionBasedGreedyWithHierarchy),
    "heuristic_bytes": of_cadence(GreedyWithHeuristic),
}


def plan_model(name: str, size: int, time_limit: float) -> dict[str, Any]:
    model, inputs = example(name, size)
    exported = torch.export.export(model, inputs)

    def made(algorithm: Callable[..., list[int]]) -> Any:
        memory = MemoryPlanningPass(memory_planning_algo=algorithm)
        return to_edge(exported).to_executorch(ExecutorchBackendConfig(memory_planning_pass=memory))

    theirs = {field: made(algorithm) for field, algorithm in THEIRS.items()}
    placing, both = (
        LeastMemory(reorder=False, time_limit=time_limit),
        LeastMemory(time_limit=time_limit),
    )
    made(placing)
    ours = made(both)
    results = [outputs(program, inputs) for program in (theirs["greedy_bytes"], ours)]
    if not all(map(torch.equal, *results)):
        raise SystemExit(f"{name}: the outputs are not those of ExecuTorch's own plan")
    targets = [node.target for node in ours.exported_program().graph.nodes]
    (placed,), (planned,) = placing.plans, both.plans
    return {
        "model": name,
        "size": size,
        "operators": sum(isinstance(target, torch._ops.OpOverload) for target in targets),
        **{field: nbytes(program) for field, program in theirs.items()},
        "placed_bytes": placed.nbytes,
        "arena_bytes": nbytes(ours),
        "bound_bytes": planned.bound,
        "placed_seconds": placed.seconds,
        "seconds": planned.seconds,
    }


def nbytes(program: Any) -> int:
    return sum(program.executorch_program.execution_plan[0].non_const_buffer_sizes)


def outputs(program: Any, inputs: tuple[Any, ...]) -> list[Any]:
    """What two calls return, the second after buffers have changed."""
    method: Any = Runtime.get().load_program(program.buffer).load_method("forward")
    return [each.clone() for _ in range(2) for each in method.execute(inputs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=[*MODELS])
    parser.add_argument("--size", type=int, default=4, help="images are 16 times as wide")
    parser.add_argument("--time-limit", type=float, default=30.0)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    for name in given.models:
        print(f"== {name}", flush=True)
        update_result(
            "executorch", [plan_model(name, given.size, given.time_limit)], "model", "size"
        )
    fields = (*THEIRS, "placed_bytes", "arena_bytes", "bound_bytes")
    table = Table("model", "operators", *(field.removesuffix("_bytes") for field in fields), "s")
    for row in read_figures("executorch"):
        sizes = (f"{row[field] / 1024:.1f}" for field in fields)
        table.add_row(row["model"], str(row["operators"]), *sizes, f"{row['seconds']:.3f}")
    console().print(table)


if __name__ == "__main__":
    main()
