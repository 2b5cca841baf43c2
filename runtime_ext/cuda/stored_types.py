"""The type in which a program on a GPU stores the model's float32 tensors."""

from __future__ import annotations

from dataclasses import replace

from runtime_ext.units.unit import UnitPlan
from tvm_ios.program.constant_transform import ParamTransform
from tvm_ios.program.program import BufferType


def stored_as(plan: UnitPlan, dtype: str) -> UnitPlan:
    """Return the plan with float32 tensors and weights stored in another type."""
    if dtype == "float32":
        return plan

    def types(buffers: tuple[BufferType, ...]) -> tuple[BufferType, ...]:
        return tuple(replace(b, dtype=dtype) if b.dtype == "float32" else b for b in buffers)

    cast = ("astype", dtype)
    constants = tuple(
        replace(use, transform=ParamTransform((*use.transform.steps, cast)))
        if kind.dtype == "float32"
        else use
        for use, kind in zip(plan.constants, plan.constant_types, strict=True)
    )
    return replace(
        plan,
        inputs=types(plan.inputs),
        constants=constants,
        constant_types=types(plan.constant_types),
        outputs=types(plan.outputs),
        scratch=types(plan.scratch),
    )
