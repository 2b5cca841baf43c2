"""A trial run of all compiled code: ``python -m runtime_ext.doctor.trial``.

It runs in a process of its own, because what is broken here may end the process. Each step
prints one line of JSON when it is done.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable


def main() -> None:
    """Run the steps; a failed one does not keep the next from running."""
    steps: dict[str, Callable[[], str]] = {
        "tvm": _tvm,
        "native executor": _executor,
        "kernel": _kernel,
    }
    for name, step in steps.items():
        print(json.dumps({"begin": name}), flush=True)
        try:
            line = {"step": name, "detail": step()}
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
            line = {"step": name, "error": reason}
        print(json.dumps(line), flush=True)


def _tvm() -> str:
    import tvm
    from tvm.target.codegen import llvm_version_major

    return f"{tvm.__version__} imports, LLVM {llvm_version_major()}"


def _executor() -> str:
    from runtime_ext.native_library import load_native_library

    return f"loads (interface {load_native_library()['interface_version']()})"


def _kernel() -> str:
    """A matrix product and a ReLU: compiled, linked, loaded, run on all lanes, compared."""
    import numpy as np
    from tvm import relax

    from runtime_ext.cpu.compiler import KernelCompiler
    from runtime_ext.execution.session import Session
    from runtime_ext.machine.this_machine import available_lanes, host_target
    from runtime_ext.units.unit import UnitSource
    from tvm_ios.graph.elements import Operator, Tensor
    from tvm_ios.graph.op_graph import OpGraph
    from tvm_ios.program.lower import lower
    from tvm_ios.schedule.schedule import Schedule
    from tvm_ios.schedule.stage import sequential_stages

    shape = (32, 32)
    builder = relax.BlockBuilder()
    parameters = [relax.Var(name, relax.TensorType(shape, "float32")) for name in ("a", "b")]
    with builder.function("unit", parameters, attrs={"num_input": 2}):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(*parameters))
            result = builder.emit_output(relax.op.nn.relu(product))
        builder.emit_func_output(result)
    tensors = tuple(Tensor(name, shape) for name in ("a", "b", "c"))
    graph = OpGraph("trial", (Operator("unit", "dense", (0, 1), (2,)),), tensors, (0, 1), (2,))
    lanes = available_lanes()
    with tempfile.TemporaryDirectory(prefix="tvm-ios-") as folder:
        compiler = KernelCompiler(host_target(lanes), lanes, folder)
        source = UnitSource(builder.finalize()["unit"], ("", "", ""))
        code = compiler.compile({"unit": source})["unit"].code
        schedule = Schedule(graph.fingerprint, sequential_stages(graph), policy="sequential")
        program = lower(graph, schedule, {0: code}, lanes=lanes)
        functions = {symbol: compiler.function(symbol) for symbol in program.kernels}
        session = Session(program, functions, {})
    inputs = session.random_inputs(0)
    session.run(**inputs)
    expected = np.maximum(inputs["a"] @ inputs["b"], 0)
    output = session.get_output("c")
    session.close()
    error = float(np.max(np.abs(output - expected)))
    if not error < 1e-3:
        raise ArithmeticError(f"its result differs by {error}")
    return f"compiled, and right on {lanes} lanes"


if __name__ == "__main__":
    main()
