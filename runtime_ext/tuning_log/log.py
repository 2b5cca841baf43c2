"""Tuned kernels of units in a MetaSchedule database."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, s_tir

from runtime_ext.kernels.cut import ContractionCut
from runtime_ext.kernels.default_schedule import default_schedule
from runtime_ext.kernels.relax_function import calling_module, operator_name
from runtime_ext.kernels.spec import Contraction
from runtime_ext.tuning_log.folder import (
    mean_seconds,
    read_database,
    require_same_target,
    workload_name,
)
from runtime_ext.tuning_log.space import Notes, Space, noted


@dataclass(frozen=True, slots=True)
class TunedStep:
    """A PrimFunc of TVM that a unit calls.

    ``function`` is scheduled, in the model's layouts; ``arguments`` are the variables of the
    lowered function that it reads. ``tuned`` is its name in the database, or empty if its schedule
    is not from there.
    """

    function: Any
    arguments: tuple[Any, ...]
    tuned: str


@dataclass(frozen=True, slots=True)
class TunedUnit:
    """A unit lowered by TVM; ``steps`` has the PrimFunc call of each variable of ``function``."""

    function: Any
    steps: Mapping[Any, TunedStep]


class TuningLog:
    """A MetaSchedule database for one target, with contractions, TVM's functions or both.

    Parameters
    ----------
    database
        A ``meta_schedule.Database``, or the folder of one (``database_workload.json`` and
        ``database_tuning_record.json``).
    target
        The target for which kernels are made.
    schedule
        Schedules functions that need no tuning, for this target.

    Raises
    ------
    UserError
        If the folder holds no database, or one made for another target or TVM.
    """

    def __init__(
        self, database: Any, target: Any, schedule: Callable[[Any], Any] = default_schedule
    ) -> None:
        if isinstance(database, (str, os.PathLike)):
            database = read_database(Path(database))
        self.database = database
        self.target = target
        self._default = schedule
        self._cuts: dict[str, tuple[float, Notes]] = {}
        #: Whether the database has functions of TVM's, and not only contractions.
        self.has_functions = False
        for record in database.get_all_tuning_records():
            require_same_target(record.target, target)
            notes = noted(record.trace.as_json())
            if notes is None:
                self.has_functions = True
            else:
                best = (_seconds(record), notes)
                name = workload_name(record.workload.mod)
                previous = self._cuts.setdefault(name, best)
                self._cuts[name] = min(previous, best, key=lambda pair: pair[0])
        #: Names found in the database, and names of heavy functions that it lacks.
        self.matched: set[str] = set()
        self.unmatched: set[str] = set()

    def blocking(self, spec: Contraction, space: Space) -> tuple[str, ContractionCut] | None:
        """Return a contraction's name in the database and its best cut, or None if not there."""
        if not self._cuts:
            return None
        name = workload_name(space.workload(spec))
        best = space.point(self._cuts[name][1]) if name in self._cuts else None
        if best is None or not space.holds(spec, best):
            self.unmatched.add(name)
            return None
        self.matched.add(name)
        return name, spec.blocking if best == space.explicit(spec) else best

    def find(self, function: Any) -> TunedUnit | None:
        """Lower a unit by TVM and schedule its functions by the database.

        Return None unless some function is in the database, and all that need a schedule are.
        """
        if not self.has_functions:
            return None
        lowered = _lower(function, self.target)
        unit = lowered["unit"]
        steps: dict[Any, TunedStep] = {}
        complete, any_tuned = True, False
        for binding in (b for block in unit.body.blocks for b in block.bindings):
            call = binding.value
            if isinstance(call, (relax.Var, relax.Tuple, relax.TupleGetItem)):
                continue
            if not _is_call_tir(call):
                return None
            prim_func = lowered[call.args[0]]
            scheduled = self._schedule(prim_func, call.args[0].name_hint)
            name = workload_name(prim_func)
            if scheduled is not None:
                self.matched.add(name)
                any_tuned = True
            elif _is_heavy(prim_func):
                self.unmatched.add(name)
                complete = False
            step_function = self._default(prim_func) if scheduled is None else scheduled
            arguments = tuple(call.args[1].fields)
            # Weights are parameters here, so only rare operators have constant arguments.
            complete = complete and all(isinstance(a, relax.Var) for a in arguments)
            steps[binding.var] = TunedStep(
                step_function, arguments, name if scheduled is not None else ""
            )
        return TunedUnit(unit, steps) if complete and any_tuned else None

    def _schedule(self, prim_func: Any, name: str) -> Any | None:
        """Return the function with its best schedule from the database, or None."""
        normalise = tvm.get_global_func("tvm.s_tir.meta_schedule.normalize_mod")
        module = self.database.query_ir_module(normalise(prim_func), self.target, name)
        if module is None:
            return None
        functions = list(module.functions.values())
        return functions[0] if len(functions) == 1 else None


def _seconds(record: Any) -> float:
    """Return the mean of a record's run times; infinite if there are none."""
    return mean_seconds([float(s) for s in record.run_secs or ()])


def _lower(function: Any, target: Any) -> Any:
    """Legalise and fuse a unit as TVM's default pipeline does."""
    with target:
        return tvm.transform.Sequential(
            [
                relax.transform.LegalizeOps(),
                relax.transform.AnnotateTIROpPattern(),
                relax.transform.FoldConstant(),
                relax.transform.FuseOps(),
                relax.transform.FuseTIR(),
            ]
        )(calling_module(function, "unit"))


def _is_call_tir(call: Any) -> bool:
    return isinstance(call, relax.Call) and operator_name(call) == "relax.call_tir"


def _is_heavy(prim_func: Any) -> bool:
    """Return whether a function has reduction axes, so that a tuned schedule is worth it."""
    reduced_axes: list[Any] = []

    def visit(block: Any) -> None:
        reduced_axes.extend(v for v in block.iter_vars if int(v.iter_type) != 0)

    tvm_ffi.structural_walk(prim_func.body, (s_tir.SBlock, visit))
    return bool(reduced_axes)
