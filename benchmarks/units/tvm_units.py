"""Units beside TVM's own kernels: on one lane, unit by unit, which are faster?

Each distinct unit runs as in our program, and as a module of its own that TVM builds by its default
pipeline, weights as constants. Runs are taken in turn in one process; a pair of runs during which
the system stopped the thread does not count. What TVM's virtual machine takes for a call is
measured once and left out. ``operators`` are models of one operator each.

TVM's kernels want the layouts of the model. To use one in our program would take copies besides, so
the gain is an upper bound.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from rich.table import Table
from tvm import relax

from benchmarks.report import model_of, read_figures, write_result
from benchmarks.units import single_operators
from relay_passes.load import load_model
from relay_passes.pipeline import prepare
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.cpu.device import random_buffers
from runtime_ext.execution.native_executor import NativeExecutor
from runtime_ext.kernels.relax_function import without_tir
from tvm_ios.cli.frame.output import console
from tvm_ios.contest.pairs import paired_ratio
from tvm_ios.program.lower import lower_stages
from tvm_ios.schedule.stage import Stage, Strategy

NETWORKS = (
    "squeezenet",
    "mobilenet_v2",
    "mobilenet_v3",
    "efficientnet_b0",
    "shufflenet_v2",
    "resnet50",
    "inception_block",
    "vit_tiny",
    "transformer",
    "bert_small",
    "dlrm",
    "operators",
)
#: Mean seconds of so many runs.
Runner = Callable[[int], float]

_PAIRS, _FEWEST_PAIRS, _SECONDS, _SAMPLE_SECONDS = 21, 7, 3.0, 3e-4
#: Where TVM takes so many times as long in the best of a few runs, pairs would say no more.
_HOPELESS = 3.0
#: A win is more than this, and more microseconds than calls of the machine vary by.
_WIN, _WIN_US = 0.95, 0.2


def measure(network: str) -> dict[str, Any]:
    call = tvm_runner(_nothing(), ())
    call_seconds = min(call(1000) for _ in range(9))
    rows = [row for model in _models(network) for row in unit_rows(*model, call_seconds)]
    total = sum(row["equal_units"] * row["us"] for row in rows)
    wins = [row for row in rows if _is_win(row)]
    gain = sum(row["equal_units"] * row["us"] * (1 - row["ratio"]["median"]) for row in wins)
    return {
        "network": network,
        "units": sum(row["equal_units"] for row in rows),
        "distinct": len(rows),
        "us": total,
        "tvm_wins": sum(row["equal_units"] for row in wins),
        "gain_at_most": gain / total,
        "wins": wins,
        "others": [row for row in rows if row not in wins],
    }


def _is_win(row: dict[str, Any]) -> bool:
    median, high = row["ratio"]["median"], row["ratio"]["high"]
    return median < _WIN and high < 1 and row["us"] * (1 - median) > _WIN_US


def _models(network: str) -> Iterator[tuple[str, str]]:
    if network != "operators":
        yield "", model_of(network)
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, model in single_operators.models():
            path = Path(folder) / "operator.onnx"
            onnx.save(model, path)
            yield name, str(path)


def unit_rows(name: str, model: str, call_seconds: float) -> Iterator[dict[str, Any]]:
    """A row for each distinct unit that has anything to do."""
    prepared = prepare(load_model(model).module)
    units, graph = RelaxUnits(prepared, SearchOptions(lanes=1)), prepared.units
    compiler = units.backend.compiler
    compiled = compiler.compile({str(unit): units.source((unit,)) for unit in range(len(graph))})
    equal: dict[str, list[int]] = {}
    for unit in range(len(graph)):
        equal.setdefault(compiled[str(unit)].key, []).append(unit)
    for unit, *others in equal.values():
        code = compiled[str(unit)].code
        stage = Stage(Strategy.CONCURRENT, ((unit,),))
        program = lower_stages(graph, (stage,), {unit: code}, lanes=1, parts=units.parts)
        if not program.kernels:
            continue
        functions = {symbol: compiler.function(symbol) for symbol in program.kernels}
        executor = NativeExecutor(program, functions, random_buffers(program))
        outlined = prepared.outliner.unit(unit)
        theirs = tvm_runner(units.source((unit,)).function, outlined.constants)
        samples = pairs(
            # As TVM's evaluator does, once before the runs that count.
            lambda number, e=executor: (e.run(), e.benchmark(number, 1))[1][0],
            lambda number, t=theirs: max(t(number) - call_seconds, 1e-9),
        )
        executor.close()
        yield {
            "unit": f"{name} {graph.operators[unit].name}".strip(),
            "kind": graph.operators[unit].kind,
            "kernels": [type(compiler.workload(call.symbol)).__name__ for call in code.calls],
            "equal_units": 1 + len(others),
            "us": 1e6 * float(np.median(samples[0])),
            "ratio": asdict(paired_ratio(samples[1], samples[0])),
        }


def pairs(ours: Runner, theirs: Runner) -> tuple[list[float], list[float]]:
    """Seconds of both, taken in turn while the system lets this thread run."""
    quickest = [min(run(1) for _ in range(3)) for run in (ours, theirs)]
    if quickest[1] > _HOPELESS * quickest[0] + 2e-6:
        return quickest[:1], quickest[1:]
    number = max(1, int(_SAMPLE_SECONDS / max(quickest[0], 1e-8)))
    undisturbed: list[tuple[float, float]] = []
    disturbed: list[tuple[float, float]] = []
    end = time.monotonic() + _SECONDS
    while len(undisturbed) < _PAIRS and time.monotonic() < end:
        before = _interruptions()
        pair = ours(number), theirs(number)
        (undisturbed if _interruptions() == before else disturbed).append(pair)
    taken = undisturbed if len(undisturbed) >= _FEWEST_PAIRS else undisturbed + disturbed
    return [pair[0] for pair in taken], [pair[1] for pair in taken]


def _interruptions() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def tvm_runner(function: Any, constants: Sequence[Any]) -> Runner:
    """A unit as TVM's default pipeline builds it, by itself."""
    target = SearchOptions(lanes=1).resolved_target
    data = len(function.params) - len(constants)
    function, functions = without_tir(function)
    main = relax.Function(function.params, function.body, function.ret_ty, function.is_pure)
    main = main.with_attr("global_symbol", "main")
    module = tvm.IRModule({**dict(functions.functions_items()), "main": main})
    weights = dict(zip(function.params[data:], (c.value for c in constants), strict=True))
    if weights:
        module = relax.transform.BindParams("main", weights)(module)
    with tvm.target.Target(target):
        built = relax.build(relax.get_pipeline("zero")(module), target=tvm.target.Target(target))
    cpu: Any = tvm.cpu()
    machine = relax.VirtualMachine(built, cpu)
    rng = np.random.default_rng(0)
    arguments: list[Any] = []
    for param in function.params[:data]:
        shape, dtype = tuple(int(e) for e in param.ty.shape), str(param.ty.dtype)
        numbers = rng.random(shape, np.float32) - 0.5 if "float" in dtype else np.zeros(shape)
        arguments.append(tvm.runtime.tensor(numbers.astype(dtype)))

    def run(number: int) -> float:
        evaluate = machine.time_evaluator("main", cpu, number=number, repeat=1)
        return float(evaluate(*arguments).mean)

    run(1)
    return run


def _nothing() -> Any:
    builder = relax.BlockBuilder()
    shape: Any = (1,)
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.add(x, x))
        builder.emit_func_output(result)
    return builder.finalize()["main"]


def show(rows: Sequence[dict[str, Any]]) -> None:
    table = Table("network", "units", "µs", "TVM wins", "gain at most", "where TVM wins")
    for row in rows:
        wins = (
            f"{w['unit']} ({', '.join(w['kernels'])}): {w['us']:.1f} µs, {w['ratio']['median']:.2f}"
            for w in row["wins"]
        )
        table.add_row(
            row["network"],
            str(row["units"]),
            f"{row['us']:.0f}",
            str(row["tvm_wins"]),
            f"{row['gain_at_most']:.2%}",
            "\n".join(wins),
        )
    console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="of the zoo, or files")
    parser.add_argument("--again", action="store_true", help="measure what the results have")
    given = parser.parse_args()
    figures = {row["network"]: row for row in read_figures("tvm_units")}
    for network in given.networks:
        if given.again or Path(network).stem not in figures:
            row = measure(network) | {"network": Path(network).stem}
            figures[row["network"]] = row
            write_result("tvm_units", list(figures.values()))
    show(list(figures.values()))


if __name__ == "__main__":
    main()
