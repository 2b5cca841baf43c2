"""Read the function of a called unit, after passes may have replaced data by constants."""

# TVM's nodes get their attributes at run time.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

from typing import Any, NamedTuple

import tvm
from tvm import relax
from tvm.ir import GenericConst

from runtime_ext.ir_form import GROUP, STAGE, UNIT, ModuleError
from runtime_ext.kernels.operator_function import replace_variables

#: The attribute of a function that another code generator compiles.
_CODEGEN = "Codegen"


class CalledUnit(NamedTuple):
    """A call of a unit: its function, whose parameters are first the data and then the constants.

    ``data`` are variables of ``main``, each once; ``constants`` the values of the other parameters.
    """

    function: relax.Function
    data: tuple[relax.Var, ...]
    constants: tuple[GenericConst, ...]


def called_unit(call: relax.Call, module: tvm.IRModule) -> CalledUnit:
    """Return the unit that a call of ``main`` calls, with its data and constants.

    Since the module was scheduled, data may have become constants (``BindParams``) or one variable
    (``EliminateCommonSubexpr``), and constants variables (``LiftTransformParams``). Raise
    ModuleError if it is no unit, or another code generator compiles some of it.
    """
    name, function = call.op.name_hint, module[call.op]
    attributes = dict(function.attrs.items()) if function.attrs else {}
    if not isinstance(function, relax.Function) or not {UNIT, STAGE, GROUP} <= attributes.keys():
        raise ModuleError(
            f"main calls {name}, which is no unit of its schedule: run IOSSchedule() on it again"
        )
    leaves = all(isinstance(argument, relax.Var | GenericConst) for argument in call.args)
    if not leaves or len(call.args) != len(function.params):
        raise ModuleError(
            f"main calls {name} with other arguments than it takes: run IOSSchedule() after the "
            "pass that changed them"
        )
    function = _with_callees(function, module)
    places = dict.fromkeys(a for a in call.args if isinstance(a, relax.Var))
    pairs = list(zip(function.params, call.args, strict=True))
    parameters = [next(p for p, a in pairs if a.same_as(variable)) for variable in places]
    weights = [(p, a) for p, a in pairs if not isinstance(a, relax.Var)]
    wanted = [*parameters, *(p for p, _ in weights)]
    if not _same(wanted, function.params) or int(attributes["num_input"]) != len(parameters):
        by_variable = dict(zip(places, parameters, strict=True))
        new = {p: by_variable[a] for p, a in pairs if isinstance(a, relax.Var)}
        function = relax.Function(
            wanted,
            _replaced(function.body, new),
            function.ret_ty,
            function.is_pure,
            function.attrs,
        ).with_attr("num_input", len(parameters))
    return CalledUnit(function, tuple(places), tuple(constant for _, constant in weights))


def _same(some: list[relax.Var], others: Any) -> bool:
    return len(some) == len(others) and all(map(relax.Var.same_as, some, others))


def _replaced(body: relax.SeqExpr, new: dict[Any, Any]) -> relax.SeqExpr:
    """Return the body with variables replaced by ``new``."""

    def replaced(binding: relax.VarBinding) -> relax.VarBinding:
        return relax.VarBinding(binding.var, replace_variables(binding.value, new))

    blocks = [type(block)(list(map(replaced, block.bindings))) for block in body.blocks]
    return relax.SeqExpr(blocks, replace_variables(body.body, new))


def _with_callees(function: relax.Function, module: tvm.IRModule) -> relax.Function:
    """Inline the Relax functions that a function calls, as ``FuseOpsByPattern`` makes them.

    Raise ModuleError if another code generator compiles one of them.
    """
    callees: dict[tvm.ir.GlobalVar, Any] = {}
    values = (binding.value for block in function.body.blocks for binding in block.bindings)
    for value in values:
        callee = value.op if isinstance(value, relax.Call) else None
        if isinstance(callee, tvm.ir.GlobalVar) and isinstance(module[callee], relax.Function):
            callees[callee] = module[callee]
            if callees[callee].attrs and _CODEGEN in callees[callee].attrs:
                raise ModuleError(
                    f"unit {str(function.attrs[UNIT])!r} calls {callee.name_hint}, which another "
                    "code generator compiles: partition without annotate_codegen"
                )
    if not callees:
        return function
    alone = {v: f for v, f in module.functions_items() if not isinstance(f, relax.Function)}
    inlined = tvm.IRModule({**alone, "unit": function.inline_functions(callees)})
    passes = [relax.transform.Normalize(), relax.transform.CanonicalizeBindings()]
    return _with_callees(tvm.transform.Sequential(passes)(inlined)["unit"], module)
