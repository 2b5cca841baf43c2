"""Builds a program's buffers and launches from the code of units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from tvm_ios.errors import UserError
from tvm_ios.graph.op_graph import OpGraph, mask_of
from tvm_ios.program.lane_writer import PhaseWriter
from tvm_ios.program.program import (
    Buffer,
    BufferType,
    KernelUse,
    Launch,
    Part,
    PhaseCall,
    Program,
    Role,
    UnitCode,
    Wait,
)
from tvm_ios.program.regions import regions_of
from tvm_ios.program.tile_ranges import cut, same
from tvm_ios.shapes.extent import is_open

NO_PARTS: Mapping[int, Part] = MappingProxyType({})

#: Names a parameter's constant buffer, from the units that share the code and the parameter.
ConstantName = Callable[[tuple[int, ...], int], str]


class LoweringError(UserError):
    """Raised when a schedule and code do not fit together; names the first fault."""


@dataclass(frozen=True, slots=True)
class BegunWork:
    """Units that one code computes, with the buffers of this code.

    ``buffers`` are the code's parameters and then its scratch; ``unit`` is the number of this work
    among the program's units.
    """

    units: tuple[int, ...]
    code: UnitCode
    buffers: tuple[int, ...]
    unit: int


class ProgramBuilder:
    """Gives every tensor a buffer and turns units into launches, one unit after another.

    ``work`` lists what will be emitted, in order: units that one code computes, and the code.
    Constants of equal ``constant_name`` share a buffer. ``parts`` has the place of each tensor that
    lies in another one's memory, by numbers of tensors; the code of units was made for the whole.
    Raise LoweringError if two codes disagree about a tensor, or one does not fit its units.
    """

    def __init__(
        self,
        graph: OpGraph,
        work: Sequence[tuple[tuple[int, ...], UnitCode]],
        constant_name: ConstantName | None,
        parts: Mapping[int, Part] = NO_PARTS,
    ) -> None:
        self._graph = graph
        self._constant_name = constant_name or self._default_name
        self._parts = parts
        self._buffers: list[Buffer] = []
        self._number: dict[str, int] = {}
        self._kernels: dict[str, int] = {}
        self._uses: dict[str, KernelUse] = {}
        self._units: list[str] = []
        self._tensors = self._tensor_buffers(work)
        # Buffers that come later, constants and scratch, are whole and have a region each.
        self._regions = list(regions_of(self._buffers))
        self._last_region = max((regions[-1] for regions in self._regions), default=-1)

    def emit(
        self,
        writer: PhaseWriter,
        units: tuple[int, ...],
        code: UnitCode,
        lanes: Sequence[int],
    ) -> None:
        """Write the launches of some units' code, each phase's tiles spread over the lanes.

        Tiles whose number is open are spread over all of them, whatever the shape: where there are
        fewer tiles than lanes some ranges are empty.
        """
        begun = self.begin(units, code)
        for phase, call in enumerate(code.calls):
            width = len(lanes) if is_open(call.tiles) else max(1, min(len(lanes), call.tiles))
            cuts = [cut(call.tiles, i, width) for i in range(width + 1)]
            self.emit_phase(writer, begun, phase, list(zip(lanes, cuts, cuts[1:], strict=False)))

    def begin(self, units: tuple[int, ...], code: UnitCode) -> BegunWork:
        """Give some units' code its buffers, before its phases are emitted in order."""
        parameters = self._parameters(units, code)
        scratch = [self._scratch(kind) for kind in code.scratch]
        self._units.append(work_name(self._graph, units))
        return BegunWork(units, code, (*parameters, *scratch), len(self._units) - 1)

    def emit_phase(
        self,
        writer: PhaseWriter,
        begun: BegunWork,
        phase: int,
        ranges: Sequence[tuple[int, int, int]],
    ) -> None:
        """Write one phase's launches; ``ranges`` are (lane, first tile, last tile)."""
        code, buffers = begun.code, begun.buffers
        call = code.calls[phase]
        inputs = len(code.parameters) - code.outputs
        kernel = self._kernels.setdefault(call.symbol, len(self._kernels))
        # Code does not say which of these a phase only reads.
        written = {place for place, a in enumerate(call.arguments) if a >= inputs}
        self._note_use(call, written)
        arguments = tuple(buffers[a] for a in call.arguments)
        writer.phase(
            [
                (lane, Launch(kernel, arguments, first, last, begun.unit, call.values))
                for lane, first, last in ranges
            ],
            reads={r for a in call.arguments if a < inputs for r in self._regions[buffers[a]]},
            writes={r for place in written for r in self._regions[arguments[place]]},
        )

    def _note_use(self, call: PhaseCall, written: set[int]) -> None:
        use = self._uses.get(call.symbol)
        if use is not None:
            known = use.arguments, use.scalars
            if not same(use.tiles, call.tiles) or known != (len(call.arguments), call.scalars):
                raise LoweringError(f"two units launch kernel {call.symbol!r} differently")
            # An argument that is an input of any of the units is not written.
            written = written & set(use.writes)
        writes = tuple(sorted(written))
        self._uses[call.symbol] = KernelUse(call.tiles, len(call.arguments), writes, call.scalars)

    def program(self, lanes: Sequence[tuple[Launch | Wait, ...]]) -> Program:
        """Return the finished program with these lanes."""
        return Program(
            tuple(lanes),
            tuple(self._kernels),
            tuple(self._buffers),
            tuple(self._units),
            tuple(self._uses.values()),
        )

    def _tensor_buffers(self, work: Sequence[tuple[tuple[int, ...], UnitCode]]) -> dict[int, int]:
        """Make a buffer for each tensor: inputs and outputs in the graph's order, then the rest."""
        graph = self._graph
        types: dict[int, tuple[BufferType, str]] = {}
        produced: dict[int, None] = {}
        done = mask_of(unit for units, _ in work for unit in units)
        for units, code in work:
            name = work_name(graph, units)
            data, outputs = tensors_of(graph, units, code.outputs)
            produced |= dict.fromkeys(outputs)
            constants = len(code.parameters) - len(data) - len(outputs)
            if constants < 0 or code.outputs != len(outputs):
                raise LoweringError(
                    f"unit {name!r} has {len(data)} data inputs and {len(outputs)} outputs, but "
                    f"its code has {len(code.parameters)} parameters with {code.outputs} outputs"
                )
            kinds = (*code.parameters[: len(data)], *code.parameters[len(data) + constants :])
            for tensor, kind in zip((*data, *outputs), kinds, strict=True):
                other, first = types.setdefault(tensor, (kind, name))
                if not other.is_same(kind):
                    raise LoweringError(
                        f"tensor {graph.tensors[tensor].name!r} is {_type_text(other)} to unit "
                        f"{first!r} but {_type_text(kind)} to unit {name!r}"
                    )
        if done == graph.all_operators:
            # A graph may have inputs that nobody reads, and hand inputs or constants through.
            for tensor in (*graph.inputs, *graph.outputs):
                logical = graph.tensors[tensor]
                types.setdefault(tensor, (BufferType(logical.shape, logical.dtype), graph.name))
        for tensor in [t for t in types if t in self._parts]:
            types.setdefault(self._parts[tensor].of, types[tensor])
        # A tensor of which only parts are computed is an output too.
        wholes = {self._parts[t].of for t in produced if t in self._parts}
        produced |= dict.fromkeys(t for t in wholes if t in types)
        roles = {t: self._role(t, produced, done) for t in types}
        order = dict.fromkeys(t for t in (*graph.inputs, *graph.outputs) if t in types)
        order |= dict.fromkeys(types)
        names = tensor_names(graph)
        number = {tensor: place for place, tensor in enumerate(order)}
        for tensor in order:
            part = self._parts.get(tensor)
            place = None if part is None else replace(part, of=number[part.of])
            self._buffer(names[tensor], types[tensor][0], roles[tensor], place)
        return number

    def _role(self, tensor: int, produced: Mapping[int, None], done: int) -> Role:
        graph = self._graph
        if tensor not in produced:
            return Role.CONSTANT if graph.tensors[tensor].constant else Role.INPUT
        read_elsewhere = any(not done >> c & 1 for c in graph.consumers[tensor])
        return Role.OUTPUT if tensor in graph.outputs or read_elsewhere else Role.INTERMEDIATE

    def _default_name(self, units: tuple[int, ...], index: int) -> str:
        return f"{work_name(self._graph, units)}/{index}"

    def _parameters(self, units: tuple[int, ...], code: UnitCode) -> tuple[int, ...]:
        data, outputs = tensors_of(self._graph, units, code.outputs)
        constants: list[int] = []
        for index in range(len(data), len(code.parameters) - len(outputs)):
            name = self._constant_name(units, index)
            kind = code.parameters[index]
            number = self._number.get(name)
            if number is None:
                constants.append(self._late_buffer(name, kind, Role.CONSTANT))
                continue
            other = self._buffers[number]
            if other.role is not Role.CONSTANT or not other.type.is_same(kind):
                raise LoweringError(
                    f"constant {name!r} of unit {work_name(self._graph, units)!r} is "
                    f"{_type_text(kind)}, but that name stands for a {other.role.value} of "
                    f"{_type_text(other.type)}"
                )
            constants.append(number)
        return (
            *(self._tensors[t] for t in data),
            *constants,
            *(self._tensors[t] for t in outputs),
        )

    def _scratch(self, kind: BufferType) -> int:
        """Make a scratch buffer of its own; which buffers share bytes is up to a memory plan."""
        name = f"scratch {len(self._buffers)}"
        while name in self._number:
            name += "#"
        return self._late_buffer(name, kind, Role.SCRATCH)

    def _buffer(self, name: str, kind: BufferType, role: Role, part: Part | None = None) -> int:
        self._number[name] = len(self._buffers)
        self._buffers.append(Buffer(name, kind, role, part))
        return self._number[name]

    def _late_buffer(self, name: str, kind: BufferType, role: Role) -> int:
        number = self._buffer(name, kind, role)
        self._regions.append(range(self._last_region + 1, self._last_region + 2))
        self._last_region += 1
        return number


def tensor_names(graph: OpGraph) -> tuple[str, ...]:
    """Return the name of each tensor's buffer: its own, made unique and unlike a constant's."""
    taken: set[str] = set()
    names: list[str] = []
    for number, tensor in enumerate(graph.tensors):
        name = tensor.name
        if name in taken or name.rpartition("/")[2].isdigit():
            name = f"{name}#{number}"
        while name in taken:
            name += "#"
        taken.add(name)
        names.append(name)
    return tuple(names)


def work_name(graph: OpGraph, units: Iterable[int]) -> str:
    """Return the name in programs of a unit, or of several merged ones."""
    return "+".join(graph.operators[unit].name for unit in units)


def tensors_of(
    graph: OpGraph, units: Sequence[int], outputs: int | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the distinct data inputs of units in the order of first use, and their outputs.

    Code with fewer ``outputs`` than the units have is a chain's: only outputs that no unit of the
    chain reads are returned.
    """
    made = tuple(t for u in units for t in graph.operators[u].outputs)
    inputs = dict.fromkeys(t for u in units for t in graph.operators[u].inputs)
    data = tuple(t for t in inputs if not graph.tensors[t].constant and t not in made)
    if outputs is not None and outputs < len(made):
        made = tuple(t for t in made if t not in inputs)
    return data, made


def _type_text(kind: BufferType) -> str:
    return f"{kind.dtype}{list(kind.shape)}"
