"""A builder of Relax functions that is safe in threads and after errors."""

from __future__ import annotations

import threading
from typing import Any

import tvm
from tvm import relax

#: Held while building: kernels are compiled in threads, and all Relax builders share one stack.
RELAX_BUILDERS = threading.RLock()


class FunctionBuilder(relax.BlockBuilder):
    """TVM's builder, safe in several threads, which also closes its scopes after an error.

    ``name`` is the name of variables that are emitted without one; TVM makes it unique.
    """

    def __init__(self, module: tvm.IRModule | None = None) -> None:
        super().__init__(module)
        self.name = ""

    def emit(self, expr: Any, name_hint: str = "") -> relax.Var:
        """Bind an expression to a new variable."""
        return super().emit(expr, name_hint or self.name)

    def emit_result(self, expr: Any) -> relax.Var:
        """Bind a function's result to a new variable, of the same name if it is one."""
        if not isinstance(expr, relax.Var):
            return self.emit_output(expr)
        result = relax.Var(expr.name, expr.ty)
        self.emit_normalized(relax.VarBinding(result, expr))
        return result

    def _enter_function_scope(self, func_scope: Any) -> None:
        RELAX_BUILDERS.acquire()
        super()._enter_function_scope(func_scope)

    def _exit_function_scope(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        try:
            if exc_type is not None:
                self._end_block()
            super()._exit_function_scope(exc_type, exc_val, exc_tb)
        finally:
            RELAX_BUILDERS.release()
