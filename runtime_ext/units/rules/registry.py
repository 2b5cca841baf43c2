"""The rule of each operator; those without, or that it does not fit, are compiled by TVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime_ext.kernels import recurrence_operator
from runtime_ext.units.rules import attention, shuffle, views
from runtime_ext.units.rules.contractions import convolution, product, transposed_convolution
from runtime_ext.units.rules.pooling import channel_mean, pool, spatial_mean
from runtime_ext.units.rules.recurrence import recurrence
from runtime_ext.units.rules.resize import resize
from runtime_ext.units.unit_draft import UnitDraft

#: Plans a call of a unit for a variable; returns False if it has no kernel for the call.
Rule = Callable[[UnitDraft, Any, Any], bool]

#: Operators whose rules look at the types of what they read; other rules are for floats alone.
OF_ANY_TYPES = frozenset({recurrence_operator.NAME})
#: The rules, by operator name.
RULES: dict[str, Rule] = {
    "relax.nn.conv2d": convolution,
    "relax.nn.conv2d_transpose": transposed_convolution,
    "relax.matmul": product,
    "relax.nn.max_pool2d": pool,
    "relax.nn.avg_pool2d": pool,
    "relax.nn.avg_pool3d": channel_mean,
    "relax.nn.softmax": attention.softmax,
    "relax.nn.layer_norm": attention.layer_norm,
    "relax.image.resize2d": resize,
    "relax.mean": spatial_mean,
    "relax.nn.adaptive_avg_pool2d": spatial_mean,
    "relax.concat": shuffle.concat,
    "relax.split": views.split,
    "relax.strided_slice": views.strided_slice,
    "relax.nn.pad": views.pad,
    "relax.permute_dims": views.transpose,
    "relax.broadcast_to": views.broadcast,
    "relax.reshape": shuffle.reshape,
    "relax.flatten": views.reshape,
    "relax.nn.batch_flatten": views.reshape,
    "relax.squeeze": views.squeeze,
    "relax.expand_dims": views.squeeze,
    recurrence_operator.NAME: recurrence,
}
