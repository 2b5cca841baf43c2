"""A kernel by which machines of one kind are compared: schedules hold for all of them, or none."""

# TVM's nodes get their attributes at run time.
# pyright: reportArgumentType=false
from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping

from tvm import relax

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.cpu.device import Sampling
from runtime_ext.fleet.machine import Trial
from runtime_ext.units.unit import UnitSource
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.lower import lower_stages
from tvm_ios.program.program_json import program_to_json
from tvm_ios.schedule.stage import sequential_stages

#: Rows and columns of the matrices: a product takes some tenths of a millisecond, and they fit into
#: a cache.
_ROWS = 256
#: A sample is longer than 0.1 s, the period after which a limit of CPU time begins anew.
SAMPLING = Sampling(samples=1, sample_seconds=0.12, tries=1)
#: Times that each machine is sampled, in turn with the others; the fastest counts. There are more
#: rounds while machines seem to differ.
ROUNDS, MOST_ROUNDS = 3, 12


def calibration_trial(compiler: KernelCompiler, lanes: int) -> Trial:
    """Compile a matrix product whose tiles are spread over all lanes."""
    shape = (_ROWS, _ROWS)
    builder = relax.BlockBuilder()
    parameters = [relax.Var(name, relax.TensorType(shape, "float32")) for name in ("a", "b")]
    with builder.function("calibration", parameters, attrs={"num_input": 2}):
        with builder.dataflow():
            product = builder.emit_output(relax.op.matmul(*parameters))
        builder.emit_func_output(product)
    source = UnitSource(builder.finalize()["calibration"], ("", "", ""))
    tensors = tuple(Tensor(name, shape) for name in ("a", "b", "c"))
    product = Operator("calibration", "dense", (0, 1), (2,))
    graph = OpGraph("calibration", (product,), tensors, (0, 1), (2,))
    code = compiler.compile({"calibration": source})["calibration"].code
    program = lower_stages(graph, sequential_stages(graph), {0: code}, lanes=lanes)
    libraries = tuple(compiler.function(symbol) for symbol in program.kernels)
    return Trial(program_to_json(program), libraries)


def median_of(seconds: Iterable[float]) -> float:
    """Return the median; of an even number the lower of the middle two.

    So of two machines the slower one counts as differing.
    """
    return statistics.median_low(seconds)


def differing(seconds: Mapping[str, float], median: float, tolerance: float) -> dict[str, str]:
    """Return the machines whose time differs from the median by more than a tolerance, and why."""
    return {
        machine: f"it takes {took / median:.2f} times as long as the median of the machines"
        for machine, took in seconds.items()
        if abs(took / median - 1) > tolerance
    }
