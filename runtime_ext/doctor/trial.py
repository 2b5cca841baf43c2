"""A trial run of compiled code: ``python -m runtime_ext.doctor.trial STEP...``.

It runs in a process of its own, because a broken library may end the process. Each step
prints one line of JSON when it is done.
"""

# TVM's nodes get their attributes at run time.
# pyright: reportArgumentType=false
from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from typing import Any


def main() -> None:
    """Run the named steps; after a failed one the next ones still run."""
    steps: dict[str, Callable[[], str]] = {
        "tvm": _tvm,
        "native executor": _executor,
        "kernel": _kernel,
        "program": _program,
    }
    for name in sys.argv[1:]:
        step = steps[name]
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
    """Compile, link and run a matrix product with ReLU on all lanes, and compare its result."""
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


def _program() -> str:
    """Run a Python function as a tile on each lane, if kernels cannot be compiled here."""
    import numpy as np
    import tvm_ffi

    from runtime_ext.execution.session import Session
    from runtime_ext.machine.this_machine import available_lanes
    from tvm_ios.program.program import Buffer, BufferType, KernelUse, Launch, Program, Role

    lanes = available_lanes()
    rows = BufferType((lanes, 16))

    def negate(source: tvm_ffi.Tensor, result: tvm_ffi.Tensor, begin: int, end: int) -> None:
        np.from_dlpack(result)[begin:end] = np.negative(np.from_dlpack(source)[begin:end])

    program = Program(
        lanes=tuple((Launch(0, (0, 1), lane, lane + 1, 0),) for lane in range(lanes)),
        kernels=("negate",),
        buffers=(Buffer("x", rows, Role.INPUT), Buffer("y", rows, Role.OUTPUT)),
        units=("negate",),
        uses=(KernelUse(lanes, 2, (1,)),),
    )
    session: Any = Session(program, {"negate": negate}, {})
    inputs = session.random_inputs(0)
    session.run(**inputs)
    same = np.array_equal(session.get_output("y"), np.negative(inputs["x"]))
    session.close()
    if not same:
        raise ArithmeticError("its result differs")
    return f"right on {lanes} lanes"


if __name__ == "__main__":
    main()
