"""Functions that are built, side by side in threads, and with errors in between."""

from __future__ import annotations

import threading
from typing import Any

import tvm
from tvm import relax

#: Kernels are compiled in threads, and all builders of Relax functions share one stack.
RELAX_BUILDERS = threading.RLock()


class FunctionBuilder(relax.BlockBuilder):
    """TVM's builder, for several threads, which ends what an error left unfinished.

    Parameters
    ----------
    module
        A module that the functions are added to.

    Attributes
    ----------
    name
        What variables are called that are emitted without a name; TVM makes it unique.
    """

    def __init__(self, module: tvm.IRModule | None = None) -> None:
        super().__init__(module)
        self.name = ""

    def emit(self, expr: Any, name_hint: str = "") -> relax.Var:
        """Bind an expression to a new variable."""
        return super().emit(expr, name_hint or self.name)

    def emit_result(self, expr: Any) -> relax.Var:
        """Bind what a function returns; the variable has the name of the one that it stands for."""
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
