"""Run a kernel with more threads than it has: the extra ones only take part in its barriers.

The hardware counts warps at a barrier, so a kernel whose threads do not fill whole warps is
run with whole ones. The extra threads may not leave, and may not touch memory.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx


def is_barrier(call: Any) -> bool:
    """Return whether a call waits for all threads of the block."""
    return (
        getattr(call.op, "name", "") == "tirx.tvm_storage_sync"
        and str(call.args[0].value) != "warp"
    )


def guarded(statement: Any, condition: Any) -> Any:
    """Return a statement whose threads only wait at its barriers unless a condition holds.

    Raise ValueError if a barrier is in a place that only some threads may reach.
    """
    if not _has_barrier(statement):
        return _if(condition, statement)
    if isinstance(statement, tirx.Evaluate):
        return statement
    if isinstance(statement, tirx.SeqStmt):
        return tirx.SeqStmt([s if _declares(s) else guarded(s, condition) for s in statement.seq])
    if isinstance(statement, tirx.For) and not _reads(statement.min, statement.extent):
        return tirx.For(
            statement.loop_var,
            statement.min,
            statement.extent,
            statement.kind,
            guarded(statement.body, condition),
            statement.thread_binding,
            statement.annotations,
        )
    if isinstance(statement, tirx.AttrStmt):
        body = guarded(statement.body, condition)
        return tirx.AttrStmt(statement.node, statement.attr_key, statement.value, body)
    raise ValueError(
        f"threads that fill no whole warps cannot pass a barrier inside {type(statement).__name__}"
    )


def _if(condition: Any, statement: Any) -> Any:
    # What is declared at the top must be known to what follows.
    if isinstance(statement, tirx.SeqStmt) and any(map(_declares, statement.seq)):
        return tirx.SeqStmt([s if _declares(s) else _if(condition, s) for s in statement.seq])
    return tirx.IfThenElse(condition, statement, None)


def _declares(statement: Any) -> bool:
    if isinstance(statement, tirx.Bind):
        if _reads(statement.value):
            raise ValueError("threads that fill no whole warps cannot bind what they load")
        return True
    return isinstance(statement, (tirx.AllocBuffer, tirx.DeclBuffer))


def _has_barrier(statement: Any) -> bool:
    barriers: list[bool] = []
    tvm_ffi.structural_walk(
        statement, (tvm.ir.Call, lambda call: barriers.append(is_barrier(call)))
    )
    return any(barriers)


def _reads(*values: Any) -> bool:
    loads: list[Any] = []
    for value in values:
        tvm_ffi.structural_walk(value, (tvm.ir.expr.TensorLoad, loads.append))
    return bool(loads)
