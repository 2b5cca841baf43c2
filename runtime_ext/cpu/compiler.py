"""Compile units: each kernel once, in parallel, with a cache on disk."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tvm

from runtime_ext.cpu.forms.registry import named_plans, promising_plans
from runtime_ext.cpu.kernel_build import build_kernel
from runtime_ext.cpu.linker import link, require_cross_linker
from runtime_ext.cpu.machine_code import object_code
from runtime_ext.cpu.tilings import other_plans
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.levels import isa_of
from runtime_ext.kernels.artefact import Artefact, ArtefactCache
from runtime_ext.kernels.chain import Attention, Chained
from runtime_ext.kernels.relax_function import called_operators
from runtime_ext.target_architecture import machine_of
from runtime_ext.tuning_log.log import TuningLog
from runtime_ext.units.plans import different, plan_unit
from runtime_ext.units.unit import UnitPlan, UnitSource, Workload
from runtime_ext.units.unit_compiler import UnitCompiler
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.program.bfloat16 import FORM
from tvm_ios.program.program import LINE
from tvm_ios.shapes.extent import OpenExtentError

#: Loads object files, and returns a lookup of their symbols.
Opened = Callable[[Sequence[Path]], Callable[[str], Any]]


class KernelCompiler(UnitCompiler):
    """A compiler of units to machine code for a CPU, with a cache on disk.

    Raise UserError if the target is no CPU, or the database was made for another target.

    Parameters
    ----------
    target
        A ``tvm.target.Target`` of kind llvm, or an argument of its constructor.
    lanes
        How many lanes will share the kernels' tiles.
    cache_dir
        Folder of compiled kernels; several processes may share it.
    database
        A MetaSchedule database of tuned kernels, or its folder.
    without
        Kinds of forms that are not measured beside the default: ``winograd``.
    precision
        ``float32``; or ``bfloat16``: forms whose weights are rounded to it are measured too.
    opened
        Loads object files and returns a lookup of their symbols; by default they are linked and
        loaded into this process.
    """

    line = LINE

    def __init__(
        self,
        target: Any,
        lanes: int,
        cache_dir: str | os.PathLike[str],
        database: Any | None = None,
        opened: Opened | None = None,
        *,
        without: Iterable[str] = (),
        precision: str = "float32",
    ) -> None:
        self._without = frozenset((*without, *(() if precision == FORM else (FORM,))))
        self._opened = opened or self._loaded_here
        self.target = target if isinstance(target, tvm.target.Target) else tvm.target.Target(target)
        self.lanes = lanes
        self.space = VectorSpace(isa_of(self.target))
        # Without an instruction that multiplies bfloat16 they would be converted to floats again.
        rounds = precision == FORM and FORM in self.space.isa.matrices
        encodings = {"uint8": "int16" in self.space.isa.products, FORM: rounds}
        self.encodings = frozenset(numbers for numbers, used in encodings.items() if used)
        self._cache = ArtefactCache(cache_dir)
        self._functions: dict[str, Any] = {}
        self._loaded: list[Any] = []
        self._linked: set[str] = set()
        #: Held while kernels are loaded: programs may be timed on several devices at once.
        self._loading = threading.Lock()
        log = TuningLog(database, self.target) if database is not None else None
        #: The target without its number of lanes, on which no kernel depends: kernels are compiled
        #: once for all.
        self._code_target = tvm.target.Target(
            {name: value for name, value in self.target.export().items() if name != "num-cores"}
        )
        super().__init__(str(self._code_target), log)

    def function(self, symbol: str) -> Any:
        """Return the callable of a phase: ``function(*buffers, begin, end)``.

        Raise KeyError if no compiled unit has this symbol.
        """
        if symbol not in self._functions:
            self._load()
        return self._functions[symbol]

    def export(self, path: str | os.PathLike[str], symbols: Iterable[str]) -> None:
        """Write a shared library with these symbols, for ``tvm.runtime.load_module``."""
        keys = dict.fromkeys(self._key_of_symbol(symbol) for symbol in symbols)
        link(Path(path), [self._cache.code_file(key) for key in keys], command=self._linker())

    def chain_kernels(self, source: UnitSource) -> int:
        """Return the number of kernels of a chain of units; 0 if no kernel computes several units.

        Nothing is compiled.
        """
        kernels = plan_unit(source, self.space).kernels
        return len(kernels) if any(isinstance(k.spec, Chained) for k in kernels) else 0

    def attention_kernels(self, source: UnitSource) -> int:
        """Return the number of kernels of a chain of units, one of which is an attention, or 0.

        Nothing is compiled.
        """
        kernels = plan_unit(source, self.space).kernels
        return len(kernels) if any(isinstance(k.spec, Attention) for k in kernels) else 0

    def _plan(self, source: UnitSource) -> dict[str, UnitPlan]:
        try:
            default = plan_unit(source, self.space)
        except OpenExtentError as error:
            calls = dict.fromkeys(called_operators(source.function))
            raise OpenExtentError(f"{error}, in a unit of {', '.join(calls)}") from error
        return {**self._as_in_log(source, default, self.space), "default": default}

    def _named_plans(self, source: UnitSource) -> dict[str, UnitPlan]:
        return named_plans(source, self.space)

    def _measured_plans(self, source: UnitSource) -> dict[str, UnitPlan]:
        return promising_plans(source, self.space, self._without)

    def _rkernel_plans(self, source: UnitSource) -> dict[str, UnitPlan]:
        plans, others = self._planned(source, self._plan), other_plans(source, self.space)
        return different({"default": plans["default"], **plans, **others})

    def _find(self, key: str) -> Artefact | None:
        return self._cache.find(key)

    def _build(self, key: str, workload: Workload) -> Artefact:
        artefact, module = build_kernel(workload, key, self._code_target, self.space.isa)
        self._cache.add(artefact, object_code(module))
        return artefact

    def _load(self) -> None:
        """Link and load the kernels that were compiled since the last call."""
        with self._loading:
            keys = sorted(self._artefacts.keys() - self._linked)
            if not keys:
                return
            code_of = self._opened([self._cache.code_file(key) for key in keys])
            for key in keys:
                for phase in self._artefacts[key].phases:
                    self._functions[phase.symbol] = code_of(phase.symbol)
            self._linked.update(keys)

    def _linker(self) -> Sequence[str] | None:
        machine = machine_of(self.target)
        return None if machine == platform.machine() else require_cross_linker(machine)

    def _loaded_here(self, objects: Sequence[Path]) -> Callable[[str], Any]:
        if (machine := machine_of(self.target)) != platform.machine():
            raise UserError(
                f"programs for {machine} are measured there alone, and this machine is "
                f"{platform.machine()}: give optimize --cost cpu, or start `tvm-ios server` there "
                "and give --tracker HOST:PORT --key KEY"
            )
        with temporary_folder() as folder:
            path = folder / "kernels.so"
            link(path, objects)
            module = tvm.runtime.load_module(str(path))
        self._loaded.append(module)
        return lambda symbol: module[symbol]
