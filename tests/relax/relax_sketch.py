"""Small Relax modules for tests, and what TVM alone makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_passes.pipeline import apply_schedule, prepare
from runtime_ext.build import build
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.execution.executable import Executable
from tests.onnx_sketch import relative_error
from tvm_ios.files.array_files import Array
from tvm_ios.policies.sequential import sequential_schedule

#: Threads of everything that these tests build.
LANES = 2


class RelaxSketch:
    """A Relax ``main`` under construction; weights are random constants."""

    def __init__(self, *shapes: Sequence[int], seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = relax.BlockBuilder()
        types = [relax.TensorType(shape, "float32") for shape in shapes]
        self.inputs = [relax.Var(f"x{i}", kind) for i, kind in enumerate(types)]

    def const(self, array: Any) -> Any:
        return relax.const(tvm.runtime.tensor(np.asarray(array, "float32")))

    def normal(self, *shape: int) -> Any:
        return self.const(self.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:])))

    def positive(self, *shape: int) -> Any:
        return self.const(self.rng.uniform(0.5, 1.5, shape))

    def conv(
        self,
        x: Any,
        channels: int,
        kernel: tuple[int, int] = (3, 3),
        pads: Sequence[int] | None = None,
        **attributes: Any,
    ) -> Any:
        before = int(x.ty.shape[1]) // attributes.get("groups", 1)
        pads = pads or (kernel[0] // 2, kernel[1] // 2) * 2
        weight = self.normal(channels, before, *kernel)
        return self.emit(relax.op.nn.conv2d(x, weight, padding=list(pads), **attributes))

    def bias(self, x: Any) -> Any:
        return self.emit(relax.op.add(x, self.normal(1, int(x.ty.shape[1]), 1, 1)))

    def norm(self, x: Any, **attributes: Any) -> Any:
        attributes.setdefault("training", False)
        channels = int(x.ty.shape[1])
        statistics = (self.positive(channels), *(self.normal(channels) for _ in range(2)))
        call = relax.op.nn.batch_norm(x, *statistics, self.positive(channels), axis=1, **attributes)
        return self.emit(relax.TupleGetItem(self.emit(call), 0))

    def emit(self, call: Any) -> Any:
        return self.builder.emit(call)


def module_of(
    shapes: Sequence[Sequence[int]], body: Callable[..., Any], seed: int = 0
) -> tvm.IRModule:
    """A module whose ``main`` is ``body(sketch, *inputs)``; a tuple is several outputs."""
    sketch = RelaxSketch(*shapes, seed=seed)
    with sketch.builder.function("main", sketch.inputs):
        with sketch.builder.dataflow():
            result = body(sketch, *sketch.inputs)
            if isinstance(result, tuple):
                result = relax.Tuple(list(result))
            result = sketch.builder.emit_output(result)
        sketch.builder.emit_func_output(result)
    return sketch.builder.finalize()


def pyramid(batch: int) -> Callable[..., Any]:
    """A body of two stages, the second of half the size, a head, and an inner output."""

    def body(sketch: RelaxSketch, x: Any) -> Any:
        emit, ops = sketch.emit, relax.op

        def conv(x: Any, channels: int, stride: int) -> Any:
            weight = sketch.normal(channels, int(x.ty.shape[1]), 3, 3)
            return emit(ops.nn.conv2d(x, weight, strides=stride, padding=1))

        first = emit(ops.nn.relu(conv(x, 8, 1)))
        first = emit(ops.nn.relu(emit(ops.add(first, conv(first, 8, 1)))))
        second = emit(ops.nn.relu(conv(first, 8, 2)))
        second = emit(ops.add(second, conv(second, 8, 1)))
        flat = emit(ops.reshape(second, (batch, 8 * 16)))
        return emit(ops.matmul(flat, sketch.normal(8 * 16, 5))), second

    return body


def inputs_of(module: tvm.IRModule, seed: int = 0) -> list[Array]:
    """Normal numbers for each parameter of ``main``."""
    rng = np.random.default_rng(seed)
    shapes = [[int(extent) for extent in p.ty.shape] for p in module["main"].params]
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def run(module: tvm.IRModule, inputs: Sequence[Array] | None = None) -> list[Array]:
    """Outputs of ``main`` by TVM's default pipeline and virtual machine."""
    # It computes next to nothing: optimising it would take most of its time.
    target = tvm.target.Target({"kind": "llvm", "num-cores": LANES, "opt-level": 0})
    machine = relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())
    arrays = inputs_of(module) if inputs is None else inputs
    result = machine["main"](*(tvm.runtime.tensor(array) for array in arrays))
    return [result.numpy()] if hasattr(result, "numpy") else [part.numpy() for part in result]


def operators(module: tvm.IRModule, function: str = "main") -> list[str]:
    """The operators that a function calls, in order."""
    return [
        binding.value.op.name
        for block in module[function].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call) and isinstance(binding.value.op, tvm.ir.Op)
    ]


def branches(s: RelaxSketch, x: Any) -> Any:
    """Convolutions of one tensor: 3x3, 1x3, 3x1 and an even kernel with skewed pads, and a pool."""
    relu = s.emit(relax.op.nn.relu(s.bias(s.conv(x, 4))))
    row = s.bias(s.conv(x, 5, (1, 3)))
    column = s.emit(relax.op.nn.relu(s.conv(x, 6, (3, 1))))
    even = s.emit(relax.op.sigmoid(s.bias(s.conv(x, 3, (2, 2), (1, 0, 0, 1)))))
    pool = s.emit(relax.op.nn.max_pool2d(x, (3, 3), padding=(1, 1)))
    return s.emit(relax.op.concat([relu, row, column, even, pool], axis=1))


def wide(s: RelaxSketch, x: Any) -> Any:
    """Twice the branches, side by side, so that something is left to run beside something."""
    return s.emit(relax.op.concat([branches(s, branches(s, x)), branches(s, s.conv(x, 4))], axis=1))


def sequential_outputs(
    module: tvm.IRModule, inputs: Sequence[Array], lanes: int = 1
) -> list[Array]:
    """Return the outputs of the program of one unit after another of a module."""
    prepared = prepare(module)
    scheduled = apply_schedule(prepared, sequential_schedule(prepared.units))
    return outputs_of(build(scheduled, lanes=lanes), list(inputs))


def require_same_outputs(changed: tvm.IRModule, module: tvm.IRModule, within: float = 1e-5) -> None:
    """Require that TVM's programs of two modules compute the same of random inputs."""
    inputs = inputs_of(module)
    assert relative_error(run(changed, inputs), run(module, inputs)) <= within


def require_near(scheduled: tvm.IRModule, module: tvm.IRModule) -> None:
    """Require that a scheduled module computes in poisoned memory what TVM makes of another."""
    inputs = inputs_of(module)
    outputs = outputs_of(build(scheduled, lanes=LANES), inputs, executor="poisoning")
    for output, expected in zip(outputs, run(module, inputs), strict=True):
        np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)


def same_bits(model: BuiltModel, inputs: list[Array], seed: int = 0) -> list[Array]:
    """Return the outputs of the native executor, which the reference executor computes too."""
    native = outputs_of(model, inputs)
    reference = outputs_of(model, inputs, executor="reference", seed=seed)
    assert [a.tobytes() for a in native] == [a.tobytes() for a in reference]
    return native


def outputs_of(model: BuiltModel | Executable, inputs: list[Array], **options: Any) -> list[Array]:
    """Return the outputs of a session."""
    session = model.session(**options)
    names = [port.name for port in session.inputs]
    session.run(**dict(zip(names, inputs, strict=True)))
    outputs = [session.get_output(i) for i in range(len(session.outputs))]
    session.close()
    return outputs
