"""Compile units for measuring, with one ``relay.build`` for all that are asked for at once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import tvm
from tvm import relay

from relay_passes.relay.kernels import RelayUnitFunction
from relay_passes.relay.outline import bind_kernels
from runtime_ext.relay.executor_graph import read_executor_graph
from runtime_ext.relay.in_place import code_in_place
from runtime_ext.relay.library import RelayLibrary, Sliced, build_library
from runtime_ext.relay.tuning_log import AutotvmLog
from tvm_ios.program.compiled_unit import CompiledUnit, ConstantUse
from tvm_ios.program.constant_transform import ParamTransform
from tvm_ios.program.program import UnitCode
from tvm_ios.progress import Steps

_COMMENT = re.compile(r"/\*.*?\*/")


class RelayKernels:
    """A compiler that builds each unit once, with ``relay.build`` and the tuned kernels of a log.

    See :class:`tvm_ios.measuring.device.Kernels`.
    """

    #: Co-scheduled units share lanes.
    fuser: None = None

    def __init__(self, target: tvm.target.Target, log: AutotvmLog | None = None) -> None:
        self.target = target
        self.log = log
        self._compiled: dict[str, CompiledUnit] = {}
        self._functions: dict[str, Any] = {}

    def compile_forms(
        self, units: Mapping[str, RelayUnitFunction], progress: Steps | None = None
    ) -> dict[str, tuple[CompiledUnit, ...]]:
        """Compile units; each has a single form."""
        keys = {name: self._key(unit) for name, unit in units.items()}
        new = {key: units[name] for name, key in keys.items() if key not in self._compiled}
        if new:
            self._build(new)
        if progress is not None:
            progress(len(new), len(new))
        return {name: (self._compiled[key],) for name, key in keys.items()}

    def chain_kernels(self, source: Any) -> int:
        """Return 0: Relay's units are never chained into one kernel."""
        return 0

    def compile_rkernels(
        self, units: Mapping[str, RelayUnitFunction], progress: Steps | None = None
    ) -> dict[str, dict[str, CompiledUnit]]:
        """Compile units; each has a single rKernel, the default."""
        forms = self.compile_forms(units, progress)
        return {name: {"default": form} for name, (form,) in forms.items()}

    def keep(self, forms: Sequence[CompiledUnit], best: CompiledUnit) -> None:
        """Do nothing, since there is only one form."""

    def function(self, symbol: str) -> Any:
        """Return the kernel with this symbol."""
        return self._functions[symbol]

    def _key(self, unit: RelayUnitFunction) -> str:
        """Return a hash of a unit's code; the text is without spans, which name the nodes."""
        text = _COMMENT.sub("", unit.kernels.astext(show_meta_data=False))
        tuned = self.log.digest if self.log else ""
        described = f"{text}\n{unit.cuts}{unit.silent}\n{self.target}\n{tvm.__version__}\n{tuned}"
        return hashlib.sha256(described.encode()).hexdigest()[:32]

    def _build(self, units: Mapping[str, RelayUnitFunction]) -> None:
        module, calls = _together(units)
        # Symbols carry the name of the module: those of several libraries must differ.
        name = "u" + hashlib.sha256("".join(units).encode()).hexdigest()[:12]
        library = build_library(module, self.target, name, self.log)
        read = read_executor_graph(
            library.factory.get_graph_json(), (), calls, library.forms, "units"
        )
        sliced: Sliced = {}
        for (key, unit), operator, code in zip(
            units.items(), read.graph.operators, read.code, strict=True
        ):
            names = [read.graph.tensors[t].name for t in operator.inputs]
            inputs = [int(name.rpartition("_")[2]) for name in names]
            results = [read.graph.outputs.index(t) for t in operator.outputs]
            first = min(results)
            order = [*inputs, *(len(inputs) + place - first for place in results)]
            weights = range(len(unit.data), len(inputs))
            code = _reordered(code, order)
            if unit.cuts:
                code = code_in_place(code, unit.cuts, sliced, runs=not unit.silent)
            self._compiled[key] = CompiledUnit(
                code=code,
                constants=tuple(ConstantUse(place, ParamTransform()) for place in weights),
                key=key,
                kernels=tuple(call.symbol for call in code.calls),
            )
        if isinstance(library, RelayLibrary):
            library = replace(library, sliced=sliced)
        symbols = {call.symbol for key in units for call in self._compiled[key].code.calls}
        self._functions |= {symbol: library.function(symbol) for symbol in symbols}


def _together(
    units: Mapping[str, RelayUnitFunction],
) -> tuple[tvm.IRModule, list[tuple[str, int, int]]]:
    """Return a module that calls the kernels of all units, and the place of each call.

    A place is a unit's key, its number as the stage, and the group 0.
    """
    parameters: list[relay.Var] = []
    bindings: list[tuple[relay.Var, relay.Call]] = []
    results: list[Any] = []
    calls: list[tuple[str, int, int]] = []
    for number, (key, unit) in enumerate(units.items()):
        data = [
            relay.Var(f"u{number}_{place}", parameter.checked_type)
            for place, parameter in enumerate(unit.kernels.params)
        ]
        parameters += data
        results += bind_kernels(unit, data, bindings)
        calls += [(key, number, 0)] * (len(bindings) - len(calls))
    body: Any = relay.Tuple(results)
    for variable, call in reversed(bindings):
        body = relay.Let(variable, call, body)
    module = tvm.IRModule.from_expr(relay.Function(parameters, body))
    return relay.transform.InferType()(module), calls


def _reordered(code: UnitCode, order: Sequence[int]) -> UnitCode:
    """Return the same code with its parameter ``i`` at position ``order[i]``."""
    parameters = list(code.parameters)
    for old, new in enumerate(order):
        parameters[new] = code.parameters[old]
    count = len(order)
    calls = tuple(
        replace(call, arguments=tuple(order[a] if a < count else a for a in call.arguments))
        for call in code.calls
    )
    return replace(code, parameters=tuple(parameters), calls=calls)
