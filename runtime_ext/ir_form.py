"""The attributes that mark the IR of a scheduled module, in both dialects; needs no TVM."""

from __future__ import annotations

import json
from typing import Any

from tvm_ios.errors import UserError

#: Attributes of a unit's function: its name (merged units joined by ``+``), stage and group.
UNIT, STAGE, GROUP = "ios.unit", "ios.stage", "ios.group"
#: Attribute of a unit's function: the name of its rKernel, where that is not the usual one.
KERNEL = "ios.kernel"
#: Module attributes: the schedule, and the names of the outputs, as JSON.
SCHEDULE, OUTPUT_NAMES = "ios.schedule", "ios.output_names"
#: Module attribute: names of the nodes of the model that the module was imported from, as JSON.
NODE_NAMES = "ios.node_names"
#: In Relay, whose functions have no marks: unit, stage and group of each call of ``main``, as JSON.
CALLS = "ios.calls"


class ModuleError(UserError):
    """A module that is not in the scheduled form."""


def output_names(module: Any, count: int) -> tuple[str, ...]:
    """The model's names of the ``count`` outputs of a ``tvm.IRModule``, or else numbered ones."""
    attributes = dict(module.attrs.items()) if module.attrs else {}
    names = json.loads(str(attributes.get(OUTPUT_NAMES, "[]")))
    return (*names[:count], *(f"output{place}" for place in range(len(names), count)))
