"""Programs of open extents: one session for all shapes of a range.

The native library reads the values of symbols off the inputs' shapes, places buffers and gives
launches their tiles (``runtime_ext/native/shape_binding.cc``), for every executor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm_ffi

from runtime_ext.execution.buffers import share_constant
from runtime_ext.execution.executor import Memory, Span
from runtime_ext.execution.host_memory import HostMemory
from runtime_ext.execution.native_executor import native_function
from runtime_ext.execution.ports import Port
from runtime_ext.execution.reference import ReferenceExecutor
from runtime_ext.native_errors import SessionError
from runtime_ext.native_library import load_native_library
from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.open_plan import OpenMemoryPlan
from tvm_ios.program.program import Program, Role
from tvm_ios.program.program_json import program_to_json


def _carry(memory: Memory, pairs: Sequence[tuple[str, str]]) -> None:
    """Copy the content of each pair's first buffer into the second."""
    values = [(target, memory.read(source)) for source, target in pairs]
    for target, value in values:
        memory.write(target, value)


class OpenRunner:
    """The memory and the executor of an open program, in C++; one thread a lane.

    Parameters
    ----------
    program, functions, constants, plan
        As of :class:`runtime_ext.execution.session.Session`. A kernel is a function of its
        buffers, the values of its symbols, ``begin`` and ``end``.
    inputs, outputs
        The ports that are written and read.
    pin, spin_seconds, patience_seconds
        As of :class:`runtime_ext.execution.native_executor.NativeExecutor`.
    """

    def __init__(
        self,
        program: Program,
        functions: Mapping[str, Callable[..., Any]],
        constants: Mapping[str, Array],
        plan: OpenMemoryPlan,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        *,
        pin: bool = False,
        spin_seconds: float = 1e-3,
        patience_seconds: float = 5e-6,
    ) -> None:
        names = [buffer.name for buffer in program.buffers if buffer.role is Role.CONSTANT]
        shared = {name: share_constant(np.asarray(constants[name])) for name in names}
        self._module: Any = load_native_library()["open_program"](
            [native_function(functions[symbol]) for symbol in program.kernels],
            *_texts(program, plan),
            {name: tvm_ffi.from_dlpack(array) for name, array in shared.items()},
            _names(inputs),
            _names(outputs),
            pin,
            spin_seconds,
            patience_seconds,
        )
        self._set_input = self._module["set_input"]
        self._get_output = self._module["get_output"]
        self._run = self._module["run"]
        self._inputs = {port.buffer: place for place, port in enumerate(inputs)}
        self._outputs = {port.buffer: place for place, port in enumerate(outputs)}

    def write(self, name: str, value: Array) -> None:
        """Copy an array into an input's buffer; SessionError if it never has this shape."""
        array = np.require(value, requirements=["C", "W"])
        self._set_input(self._inputs[name], tvm_ffi.from_dlpack(array))

    def read(self, name: str) -> Array:
        """Return a copy of an output's buffer, in the shape of the last run."""
        return np.from_dlpack(self._get_output(self._outputs[name]))

    carry = _carry

    def reserve(self) -> None:
        """Take the memory of the largest shape; ExecutableError if there is not as much."""
        self._module["reserve"]()

    def run(self) -> None:
        """Run the program once; SessionError if the inputs' shapes do not agree."""
        self._run()

    def benchmark(self, number: int, repeat: int) -> list[float]:
        """Return seconds a run: ``repeat`` samples, each the mean of ``number`` runs."""
        return list(self._module["benchmark"](number, repeat))

    def profile(self) -> tuple[Span, ...]:
        """Run once, and return the times of every launch, lane by lane."""
        names = ("lane", "launch", "begin", "end", "held_up", "runner")
        return tuple(
            Span(*(launch[name] for name in names)) for launch in self._module["profile"]()
        )

    def close(self) -> None:
        """End the threads; later runs are refused."""
        self._module["close"]()


class OpenReference:
    """The memory and the executor of an open program, one reference executor for each shape.

    Parameters
    ----------
    program, functions, constants, plan
        As of :class:`OpenRunner`.
    inputs
        The ports that are written.
    seed
        Seed of the executor's choices.
    poisoning
        Overwrite what a run does not need: intermediate buffers and scratch as
        :class:`runtime_ext.execution.reference.ReferenceExecutor` does, outputs before the first
        run of a shape, and what lies behind every buffer.
    """

    def __init__(
        self,
        program: Program,
        functions: Mapping[str, Callable[..., Any]],
        constants: Mapping[str, Array],
        plan: OpenMemoryPlan,
        inputs: Sequence[Port],
        *,
        seed: int = 0,
        poisoning: bool = False,
    ) -> None:
        self._program, self._functions, self._plan = program, functions, plan
        self._constants, self._inputs = constants, tuple(inputs)
        self._seed, self._poisoning = seed, poisoning
        self._bind = shape_binder(program, plan, inputs)
        self._values: dict[str, Array] = {}
        self._symbols: dict[str, int] = {}
        self._memory: HostMemory | None = None
        self._executor: ReferenceExecutor | None = None
        self._closed = False

    def write(self, name: str, value: Array) -> None:
        """Keep the value of an input's buffer; SessionError if it never has this shape."""
        self._bind({port.name: value.shape for port in self._inputs if port.buffer == name})
        self._values[name] = value.copy()

    def read(self, name: str) -> Array:
        """Return a copy of an input as it was written, or of an output of the last run."""
        if name in self._values:
            return self._values[name].copy()
        assert self._memory is not None, "only a run has outputs"
        return self._memory.read(name)

    carry = _carry

    def run(self) -> None:
        """Run the program once; SessionError if the inputs' shapes do not agree."""
        self._ready().run()

    def benchmark(self, number: int, repeat: int) -> list[float]:
        """Return seconds a run: ``repeat`` samples, each the mean of ``number`` runs."""
        return self._ready().benchmark(number, repeat)

    def profile(self) -> tuple[Span, ...]:
        """Run once, and return the times of every launch, lane by lane."""
        return self._ready().profile()

    def close(self) -> None:
        """Refuse later runs."""
        self._closed = True
        if self._executor is not None:
            self._executor.close()

    def _ready(self) -> ReferenceExecutor:
        """Return the executor of the inputs' shapes, with the inputs in its memory."""
        shapes = {port.name: self._values[port.buffer].shape for port in self._inputs}
        symbols = self._bind(shapes)
        if self._memory is None or self._executor is None or symbols != self._symbols:
            program, plan = self._program.at(symbols), self._plan.at(self._program, symbols)
            self._memory = HostMemory(program, self._constants, plan)
            if self._poisoning:
                self._memory.poison()
            poison = self._memory.arrays if self._poisoning else None
            # Another seed than the last shape's, or all would take the same first order.
            self._seed += 1
            self._executor = ReferenceExecutor(
                program, self._functions, self._memory.tensors, seed=self._seed, poison=poison
            )
            self._symbols = symbols
        if self._closed:
            self._executor.close()
        for name, value in self._values.items():
            self._memory.write(name, value)
        return self._executor


def shape_binder(
    program: Program, plan: OpenMemoryPlan, inputs: Sequence[Port]
) -> Callable[[Mapping[str, Sequence[int]]], dict[str, int]]:
    """Return a function of the inputs' shapes, by name, that returns the values of the symbols.

    It raises SessionError if an input never has such a shape, or those of all do not agree. If some
    are missing nothing is returned.
    """
    bind = load_native_library()["shape_binder"](*_texts(program, plan), _names(inputs))

    def symbols(shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        given = [list(shapes[port.name]) if port.name in shapes else None for port in inputs]
        bound = bind(given)
        return {} if bound is None else {str(s): int(v) for s, v in bound["symbols"].items()}

    return symbols


def open_memory(
    program: Program,
    functions: Mapping[str, Any],
    constants: Mapping[str, Array],
    plan: OpenMemoryPlan,
    executor: str,
    pin: bool | None,
    seed: int,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
) -> OpenRunner | OpenReference:
    """Return what is the memory and the executor of an open program, as of the session."""
    if executor.startswith("cuda"):
        raise SessionError("a program of open dimensions runs on a CPU alone")
    if executor == "native":
        return OpenRunner(program, functions, constants, plan, inputs, outputs, pin=bool(pin))
    poisoning = executor == "poisoning"
    return OpenReference(
        program, functions, constants, plan, inputs, seed=seed, poisoning=poisoning
    )


def _texts(program: Program, plan: OpenMemoryPlan) -> tuple[bytes, bytes]:
    """Return the program and its memory plan as their files have them."""
    return (
        json.dumps(program_to_json(program)).encode(),
        json.dumps(plan.to_json(program)).encode(),
    )


def _names(ports: Sequence[Port]) -> list[list[str]]:
    return [[port.name, port.buffer] for port in ports]
