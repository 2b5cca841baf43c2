"""Read the graph executor's JSON as units, with each kernel's inputs, outputs and place."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Protocol

from runtime_ext.ir_form import ModuleError
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.program import BufferType, PhaseCall, UnitCode


class KernelForm(Protocol):
    """The calling form of a kernel: its phases and scratch buffers."""

    @property
    def scratch(self) -> tuple[BufferType, ...]:
        """Buffers that it needs beside its arguments."""
        ...

    def calls(self, symbol: str, buffers: int) -> tuple[PhaseCall, ...]:
        """Return the calls of its phases; the arguments' buffers come first, then its scratch."""
        ...


@dataclass(frozen=True)
class UnitGraph:
    """Units of a built module."""

    #: One operator for each unit; its inputs are data.
    graph: OpGraph
    #: For each unit its kernels. The parameters are its inputs, ``constants`` and its outputs.
    code: tuple[UnitCode, ...]
    #: For each unit the names of the constants among its parameters.
    constants: tuple[tuple[str, ...], ...]
    #: For each unit its stage and group.
    places: tuple[tuple[int, int], ...]
    #: For each output that is a constant its name.
    constant_outputs: Mapping[int, str]


def read_executor_graph(
    text: str,
    constants: Sequence[str],
    calls: Sequence[tuple[str, int, int]],
    forms: Mapping[str, KernelForm],
    name: str,
) -> UnitGraph:
    """Read the graph executor's JSON of a scheduled module as a graph of units.

    ``constants`` are names among its nodes, ``calls`` the unit, stage and group of each call of
    ``main``, and ``forms`` the calling form of each kernel. Raise ModuleError if a later pass
    changed the calls.
    """
    return _Reader(json.loads(text), frozenset(constants), forms).read(calls, name)


#: A value of the executor's graph: a node and the number of its output.
_Entry = tuple[int, int]


class _Reader:
    def __init__(
        self, data: Mapping[str, Any], constants: frozenset[str], forms: Mapping[str, KernelForm]
    ) -> None:
        self.nodes: list[dict[str, Any]] = data["nodes"]
        self.heads: list[_Entry] = [(node, place) for node, place, *_ in data["heads"]]
        self.rows: list[int] = data["node_row_ptr"]
        self.shapes: list[list[int]] = data["attrs"]["shape"][1]
        kinds: list[str] = data["attrs"]["dltype"][1]
        # TVM stores a Boolean in a byte, whatever type it writes here.
        self.types = ["bool" if kind == "uint1" else kind for kind in kinds]
        self.constants = constants
        self.forms = forms
        self.tensors: list[Tensor] = []
        self.number: dict[_Entry, int] = {}

    def read(self, calls: Sequence[tuple[str, int, int]], name: str) -> UnitGraph:
        launches = [i for i, node in enumerate(self.nodes) if node["op"] == "tvm_op"]
        if len(launches) != len(calls):
            raise ModuleError(
                f"main calls {len(launches)} kernels and its schedule has {len(calls)}: a later "
                "pass changed it; run IOSSchedule() after that pass"
            )
        inputs = tuple(
            self._tensor((i, 0))
            for i, node in enumerate(self.nodes)
            if node["op"] == "null" and node["name"] not in self.constants
        )
        units = [
            (place, [node for _, node in members])
            for place, members in groupby(
                zip(calls, launches, strict=True), key=lambda pair: tuple(pair[0])
            )
        ]
        readers: dict[_Entry, set[int]] = {head: {-1} for head in self.heads}
        for number, (_, members) in enumerate(units):
            for entry in (e for node in members for e in self._reads(node)):
                readers.setdefault(entry, set()).add(number)
        operators: list[Operator] = []
        code: list[UnitCode] = []
        constants: list[tuple[str, ...]] = []
        for number, ((unit, *_), members) in enumerate(units):
            operator, unit_code, names = self._unit(unit, number, members, readers)
            operators.append(operator)
            code.append(unit_code)
            constants.append(names)
        constant_outputs = {
            self._tensor(head, constant=True): self.nodes[head[0]]["name"]
            for head in dict.fromkeys(self.heads)
            if self._is_constant(head)
        }
        outputs = tuple(self.number[head] for head in self.heads)
        graph = OpGraph(name, tuple(operators), tuple(self.tensors), inputs, outputs)
        places = tuple((stage, group) for (_, stage, group), _ in units)
        return UnitGraph(graph, tuple(code), tuple(constants), places, constant_outputs)

    def _unit(
        self, name: str, number: int, members: Sequence[int], readers: Mapping[_Entry, set[int]]
    ) -> tuple[Operator, UnitCode, tuple[str, ...]]:
        written = [entry for node in members for entry in self._writes(node)]
        read = dict.fromkeys(e for node in members for e in self._reads(node))
        from_outside = [entry for entry in read if entry not in written]
        data = [entry for entry in from_outside if not self._is_constant(entry)]
        weights = [entry for entry in from_outside if self._is_constant(entry)]
        outputs = [entry for entry in written if readers.get(entry, set()) - {number}]
        scratch = [entry for entry in written if entry not in outputs]
        place = {e: i for i, e in enumerate((*data, *weights, *outputs, *scratch))}
        calls: list[PhaseCall] = []
        workspaces: list[BufferType] = []
        for node in members:
            symbol = self.nodes[node]["attrs"]["func_name"]
            buffers = [place[e] for e in (*self._reads(node), *self._writes(node))]
            form = self.forms[symbol]
            phases = form.calls(symbol, len(buffers))
            first = len(place) + len(workspaces)
            buffers += range(first, first + len(form.scratch))
            workspaces += form.scratch
            calls += [replace(c, arguments=tuple(buffers[a] for a in c.arguments)) for c in phases]
        code = UnitCode(
            tuple(self._type(e) for e in (*data, *weights, *outputs)),
            len(outputs),
            (*(self._type(e) for e in scratch), *workspaces),
            tuple(calls),
        )
        inputs = tuple(self.number[entry] for entry in data)
        results = tuple(self._tensor(entry) for entry in outputs)
        names = tuple(self.nodes[node]["name"] for node, _ in weights)
        return Operator(name, "unit", inputs, results), code, names

    def _reads(self, node: int) -> list[_Entry]:
        return [(source, place) for source, place, *_ in self.nodes[node]["inputs"]]

    def _writes(self, node: int) -> list[_Entry]:
        return [(node, place) for place in range(int(self.nodes[node]["attrs"]["num_outputs"]))]

    def _is_constant(self, entry: _Entry) -> bool:
        return self.nodes[entry[0]]["name"] in self.constants

    def _type(self, entry: _Entry) -> BufferType:
        row = self.rows[entry[0]] + entry[1]
        return BufferType(tuple(self.shapes[row]), self.types[row])

    def _tensor(self, entry: _Entry, *, constant: bool = False) -> int:
        buffer_type = self._type(entry)
        name = self.nodes[entry[0]]["name"] + (f".{entry[1]}" if entry[1] else "")
        self.number[entry] = len(self.tensors)
        self.tensors.append(Tensor(name, buffer_type.shape, buffer_type.dtype, constant))
        return self.number[entry]
