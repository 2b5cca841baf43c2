"""States: outputs of one step that are inputs of the next one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from runtime_ext.execution.ports import Port, find_port
from runtime_ext.native_errors import SessionError
from tvm_ios.program.program import Program, Role

NO_STATES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class State:
    """An output whose value is an input in the next run.

    Attributes
    ----------
    output, input
        The two, of one shape and type.
    """

    output: Port
    input: Port


def bound_states(
    states: Mapping[str, str], inputs: Sequence[Port], outputs: Sequence[Port]
) -> tuple[State, ...]:
    """Find the outputs and inputs of states.

    Parameters
    ----------
    states
        For each of these outputs, by name, the name of the input that it is in the next run.
    inputs, outputs
        All inputs and outputs.

    Raises
    ------
    SessionError
        If one does not exist, an input is named twice, or shape or type of two differ.
    """
    found: list[State] = []
    for output_name, input_name in states.items():
        output = find_port(outputs, output_name, "output")
        port = find_port(inputs, input_name, "input")
        if any(state.input is port for state in found):
            raise SessionError(f"input {input_name!r} is the state of two outputs: name it once")
        if (tuple(output.shape), output.dtype) != (tuple(port.shape), port.dtype):
            raise SessionError(
                f"output {output_name!r} is {output.dtype}{list(output.shape)} and input "
                f"{input_name!r} is {port.dtype}{list(port.shape)}: a state has one shape and type"
            )
        found.append(State(output, port))
    return tuple(found)


def exchangeable(program: Program, states: Sequence[State]) -> tuple[State, ...]:
    """Choose the states whose two buffers may change places: nobody else needs what is in them.

    An output may be an input that is passed on, or a constant, or lie where another output does.
    """
    numbers = {buffer.name: number for number, buffer in enumerate(program.buffers)}
    chosen: list[State] = []
    taken: set[str] = set()
    for state in states:
        number = numbers[state.output.buffer]
        buffer = program.buffers[number]
        own = buffer.role is Role.OUTPUT and program.whole_of(number) == number
        if own and buffer.name not in taken:
            taken.add(buffer.name)
            chosen.append(state)
    return tuple(chosen)


def require_not_read(inputs: Collection[str], read: Iterable[str]) -> None:
    """Refuse states, by their inputs, that the end of a model reads, which runs after its program.

    Raises
    ------
    SessionError
        Naming the first.
    """
    for name in read:
        if name in inputs:
            raise SessionError(
                f"input {name!r} cannot be a state: what runs after the program reads it"
            )


def saved_states(notes: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the states that the notes of an executable name: for outputs their inputs."""
    return {str(output): str(port) for output, port in notes.get("states", {}).items()}
