"""Tuned kernels: find a unit's functions in a MetaSchedule database."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, s_tir
from tvm.s_tir import meta_schedule

from runtime_ext.kernels.generic import default_schedule
from runtime_ext.kernels.relax_function import calling_module, operator_name
from tvm_ios.errors import UserError

#: What two targets must agree on for the schedules of one to be used for the other.
_TARGET_KEYS = ("kind", "mcpu", "num-cores")


@dataclass(frozen=True, slots=True)
class TunedStep:
    """A function of TVM's that a unit calls.

    Attributes
    ----------
    function
        Scheduled PrimFunc, in the model's layouts.
    arguments
        Variables of the lowered function that it reads.
    tuned
        True if the schedule comes from the database.
    """

    function: Any
    arguments: tuple[Any, ...]
    tuned: bool


@dataclass(frozen=True, slots=True)
class TunedUnit:
    """A unit as TVM lowers it; ``steps`` tells what computes a variable of ``function``."""

    function: Any
    steps: Mapping[Any, TunedStep]


class TuningLog:
    """A MetaSchedule database for one target.

    Parameters
    ----------
    database
        A ``meta_schedule.Database``, or the folder of one (``database_workload.json`` and
        ``database_tuning_record.json``).
    target
        The target that kernels are made for.

    Raises
    ------
    UserError
        If the folder holds no database, or one made for another target.
    """

    def __init__(self, database: Any, target: Any) -> None:
        if isinstance(database, (str, os.PathLike)):
            database = _open(Path(database))
        self.database = database
        self.target = target
        records = list(database.get_all_tuning_records())
        for record in records:
            _require_same(record.target, target)
        #: Functions found in the database, and heavy ones not found, by structural hash.
        self.matched: set[int] = set()
        self.unmatched: set[int] = set()

    def find(self, function: Any) -> TunedUnit | None:
        """A unit's functions with the database's schedules.

        Returns
        -------
        TunedUnit or None
            None unless all of the unit's functions that need a schedule are in the database.
        """
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
            name = call.args[0].name_hint
            scheduled, heavy = self._schedule(prim_func, name), _is_heavy(prim_func)
            digest = tvm_ffi.structural_hash(prim_func, map_free_vars=True)
            if scheduled is not None:
                self.matched.add(digest)
                any_tuned = True
            elif heavy:
                self.unmatched.add(digest)
                complete = False
            made = default_schedule(prim_func) if scheduled is None else scheduled
            arguments = tuple(call.args[1].fields)
            # Weights are folded into nothing here, so a constant argument is a rare operator's.
            complete = complete and all(isinstance(a, relax.Var) for a in arguments)
            steps[binding.var] = TunedStep(made, arguments, scheduled is not None)
        return TunedUnit(unit, steps) if complete and any_tuned else None

    def _schedule(self, prim_func: Any, name: str) -> Any | None:
        """The function with the best schedule of the database, if it has one."""
        normalise = tvm.get_global_func("tvm.s_tir.meta_schedule.normalize_mod")
        found = self.database.query_ir_module(normalise(prim_func), self.target, name)
        if found is None:
            return None
        functions = list(found.functions.values())
        return functions[0] if len(functions) == 1 else None


def _open(folder: Path) -> Any:
    workloads, records = (
        folder / "database_workload.json",
        folder / "database_tuning_record.json",
    )
    for path in (workloads, records):
        if not path.is_file():
            raise UserError(
                f"{folder} is no tuning log: it has no {path.name}; give the folder that "
                "`tvm-ios tune` or MetaSchedule wrote"
            )
    try:
        return meta_schedule.database.JSONDatabase(
            str(workloads), str(records), allow_missing=False
        )
    except (RuntimeError, ValueError, TypeError) as error:
        raise UserError(f"the tuning log {folder} cannot be read: {error}") from error


def _require_same(recorded: Any, wanted: Any) -> None:
    if recorded is None:
        raise UserError("the tuning log does not say for which target it was made; tune again")
    have, want = _description(recorded), _description(wanted)
    if have != want:
        raise UserError(
            f"the tuning log was made for {_text(have)}, but kernels are made for {_text(want)}; "
            "tune on this target or leave the log out"
        )


def _description(target: Any) -> dict[str, Any]:
    exported = {k: v for k, v in json.loads(json.dumps(dict(target.export()), default=str)).items()}
    described = {key: exported.get(key) for key in _TARGET_KEYS}
    return {key: value for key, value in described.items() if value is not None}


def _text(description: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in description.items())


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
    """True if a function reduces over something: what a schedule is worth."""
    found: list[Any] = []

    def visit(block: Any) -> None:
        found.extend(v for v in block.iter_vars if int(v.iter_type) != 0)

    tvm_ffi.structural_walk(prim_func.body, (s_tir.SBlock, visit))
    return bool(found)
