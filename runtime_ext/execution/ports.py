"""Inputs and outputs of a program, by the names that its user knows, and those that are states."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from runtime_ext.native_errors import SessionError
from tvm_ios.files.array_files import Array
from tvm_ios.files.json_text import natural
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.program import BufferType, Program, Role
from tvm_ios.program.program_builder import tensor_names
from tvm_ios.shapes.extent import at_values, is_open, symbols_in, symbols_of
from tvm_ios.shapes.ranges import value_of

#: In place of an extent that is open, in a file: the program's buffer has it.
_OPEN = -1

NO_STATES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output under the model's name for it.

    ``buffer`` is the name of the program's buffer, which has the same shape and type; extents of
    both may be open.
    """

    name: str
    buffer: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def is_open(self) -> bool:
        """Whether the shape depends on the run."""
        return any(map(is_open, self.shape))

    def to_json(self) -> dict[str, Any]:
        """Return plain data, from which :func:`read_ports` makes the port."""
        shape = tuple(_OPEN if is_open(extent) else extent for extent in self.shape)
        return {"name": self.name, "buffer": self.buffer, "shape": shape, "dtype": self.dtype}


def ports(
    program: Program, graph: OpGraph, tensors: Iterable[int], names: Iterable[str]
) -> tuple[Port, ...]:
    """Return the ports of a graph's inputs or outputs, under the model's names, in its program."""
    buffers = tensor_names(graph)
    # A GPU may store the graph's float32 as float16.
    types = {buffer.name: buffer.type for buffer in program.buffers}

    def port(tensor: int, name: str) -> Port:
        buffer = buffers[tensor]
        return Port(name, buffer, types[buffer].shape, types[buffer].dtype)

    return tuple(map(port, tensors, names))


def read_ports(data: Any, program: Program) -> tuple[Port, ...]:
    """Return the ports of a program from the data of :meth:`Port.to_json`.

    Raise ValueError or KeyError if it is none.
    """
    types = {buffer.name: buffer.type for buffer in program.buffers}

    def port(item: Any) -> Port:
        known = types[str(item["buffer"])].shape
        if len(known) != len(item["shape"]):
            raise ValueError(f"the shape of {item['name']!r}")
        extents = zip(known, item["shape"], strict=True)
        shape = tuple(own if extent == _OPEN else natural(extent) for own, extent in extents)
        return Port(str(item["name"]), str(item["buffer"]), shape, str(item["dtype"]))

    return tuple(map(port, data))


def ports_at(ports: Sequence[Port], shapes: Mapping[str, Sequence[int]]) -> tuple[Port, ...]:
    """Return inputs with the shapes that some of them are given, by name; see :func:`values_at`."""
    values = values_at(ports, shapes)
    return tuple(at_values(port, values) for port in ports)


def values_at(ports: Sequence[Port], shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return the values of the symbols of inputs, some of which are given shapes, by name.

    Symbols that no given shape has are at their hints. Raise SessionError if there is no such
    input, or it never has this shape beside the others.
    """
    given = {find_port(ports, name, "input"): tuple(shape) for name, shape in shapes.items()}
    symbols = symbols_in(tuple(port.shape for port in ports))
    values = {symbol.name: symbol.hint for symbol in symbols}
    for port, shape in given.items():
        for extent, number in zip(port.shape, shape, strict=False):
            for symbol in symbols_of(extent):
                values[symbol.name] = value_of(symbol, extent, number)
    for port, shape in given.items():
        inside = all(s.least <= values[s.name] <= s.most for s in symbols_in(port.shape))
        if not inside or at_values(port.shape, values) != shape:
            raise SessionError(
                f"input {port.name!r} is {list(port.shape)}, never {list(shape)} beside the others"
            )
    return values


def named_values(
    name: str | None, value: Any, values: Mapping[str, Any], inputs: Collection[str]
) -> Mapping[str, Any]:
    """Return the arguments of ``set_input(name, value, **values)`` as values by input name.

    Without a name, ``value`` is that of the only input. Raise SessionError if there are several, or
    if one is named without a value.
    """
    if value is None:
        if name is not None:
            raise SessionError(f"input {name!r} was given no value")
        return values
    if name is None and len(inputs) != 1:
        raise SessionError(f"name one of the {len(inputs)} inputs: {', '.join(inputs)}")
    return {**values, next(iter(inputs)) if name is None else name: value}


def buffer_ports(program: Program, role: Role) -> list[Port]:
    """Return the buffers of a role as ports under their own names."""
    return [
        Port(b.name, b.name, b.type.shape, b.type.dtype) for b in program.buffers if b.role is role
    ]


def check_ports(program: Program, ports: Sequence[Port]) -> None:
    """Require that each port has a buffer of its shape and type, or raise :class:`SessionError`."""
    types = {buffer.name: buffer.type for buffer in program.buffers}
    for port in ports:
        buffer_type = types.get(port.buffer)
        if buffer_type is None:
            raise SessionError(f"{port.name!r} belongs to buffer {port.buffer!r}, of none")
        if not buffer_type.is_same(BufferType(tuple(port.shape), port.dtype)):
            raise SessionError(
                f"{port.name!r} is {port.dtype}{list(port.shape)} but its buffer is "
                f"{buffer_type.dtype}{list(buffer_type.shape)}"
            )


def find_port(ports: Collection[Port], name: str, what: str) -> Port:
    """Return the port of a name, or raise :class:`SessionError`, where ``what`` names its kind."""
    for port in ports:
        if port.name == name:
            return port
    names = ", ".join(port.name for port in ports) or "none"
    raise SessionError(f"there is no {what} {name!r}; there are: {names}")


def port_value(port: Port, value: Any, *, any_shape: bool = False) -> Array:
    """Return an input's value as an array, or raise :class:`SessionError` if it does not fit."""
    if isinstance(value, np.ndarray):
        array: Array = value
    else:
        array = np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)
    # What shapes an open input has is known where all inputs are.
    if not (any_shape or port.is_open) and array.shape != tuple(port.shape):
        raise SessionError(
            f"input {port.name!r} has shape {list(array.shape)}, not {list(port.shape)}"
        )
    if array.dtype != _numpy_type(port.dtype):
        raise SessionError(f"input {port.name!r} is of type {array.dtype}, not {port.dtype}")
    return array


# Naming an array's type takes microseconds, ten times as long as comparing types.
_numpy_type = cache(np.dtype)


@dataclass(frozen=True, slots=True)
class State:
    """An output whose value is an input in the next run; the two have one shape and type."""

    output: Port
    input: Port


def bound_states(
    states: Mapping[str, str], inputs: Sequence[Port], outputs: Sequence[Port]
) -> tuple[State, ...]:
    """Return the states, given for outputs, by name, the inputs that they are in the next run.

    Raise SessionError if one does not exist, an input is named twice, or shape or type differ.
    """
    found: list[State] = []
    for output_name, input_name in states.items():
        output = find_port(outputs, output_name, "output")
        port = find_port(inputs, input_name, "input")
        if any(state.input is port for state in found):
            raise SessionError(f"input {input_name!r} is the state of two outputs: name it once")
        if output.is_open or port.is_open:
            raise SessionError(
                f"output {output_name!r} cannot be the state {input_name!r}: a state has one "
                "shape, and theirs are open"
            )
        if (tuple(output.shape), output.dtype) != (tuple(port.shape), port.dtype):
            raise SessionError(
                f"output {output_name!r} is {output.dtype}{list(output.shape)} and input "
                f"{input_name!r} is {port.dtype}{list(port.shape)}: a state has one shape and type"
            )
        found.append(State(output, port))
    return tuple(found)


def own_memory(program: Program, outputs: Sequence[Port]) -> frozenset[str]:
    """Return the names of the buffers of outputs that share their memory with nothing else.

    Others are outputs that are an input passed on, a constant, or share another output's memory.
    """
    numbers = {buffer.name: number for number, buffer in enumerate(program.buffers)}
    return frozenset(
        name
        for name in (port.buffer for port in outputs)
        if program.buffers[numbers[name]].role is Role.OUTPUT
        and program.whole_of(numbers[name]) == numbers[name]
    )


def exchangeable(program: Program, states: Sequence[State]) -> tuple[State, ...]:
    """Return the states whose two buffers may swap memory because nothing else needs the output's.

    Of several outputs with the same memory it is the first.
    """
    own = own_memory(program, [state.output for state in states])
    first = {state.output.buffer: state for state in reversed(states)}
    return tuple(
        state
        for state in states
        if state.output.buffer in own and first[state.output.buffer] is state
    )


def require_not_read(inputs: Collection[str], read: Iterable[str]) -> None:
    """Require that the model's tail, which runs after the program, reads no input that is a state.

    Raise SessionError naming the first that it reads.
    """
    for name in read:
        if name in inputs:
            raise SessionError(
                f"input {name!r} cannot be a state: what runs after the program reads it"
            )


def saved_states(notes: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the states that the notes of an executable name: for outputs their inputs."""
    return {str(output): str(port) for output, port in notes.get("states", {}).items()}
