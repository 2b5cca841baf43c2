"""The attributes that mark the IR of a scheduled module, in both dialects; needs no TVM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tvm_ios.errors import UserError
from tvm_ios.files.json_text import JsonError, json_object

#: Attributes of a unit's function, in Relay of its call: its name (merged units joined by ``+``),
#: stage and group.
UNIT, STAGE, GROUP = "ios.unit", "ios.stage", "ios.group"
#: Attribute of a unit's function: the name of its rKernel, if that is not the default one.
KERNEL = "ios.kernel"
#: Attribute of the function of a chain, which becomes one kernel; its units are joined by ``+``.
CHAIN = "ios.chain"
#: Module attributes: a line about the schedule, and the schedule as JSON that is not printed.
SCHEDULE, SCHEDULE_DATA = "ios.schedule", "ios.schedule_data"
#: Module attribute: names of the outputs, as JSON.
OUTPUT_NAMES = "ios.output_names"
#: Module attribute: names of the nodes of the model that the module was imported from, as JSON.
NODE_NAMES = "ios.node_names"
#: Module attribute of Relay in earlier versions, which did not mark the calls of ``main``: unit,
#: stage and group of each, as JSON.
CALLS = "ios.calls"


class ModuleError(UserError):
    """A module is not in the scheduled form."""


def attached_schedule(module: Any) -> dict[str, Any] | None:
    """Return the schedule that a ``tvm.IRModule`` carries, as JSON data; None if it has none.

    Raise ModuleError if it is damaged.
    """
    attributes = dict(module.attrs.items()) if module.attrs else {}
    if SCHEDULE not in attributes:
        return None
    # Earlier versions wrote the schedule into the attribute that is now the line about it.
    text = attribute_text(attributes.get(SCHEDULE_DATA, attributes[SCHEDULE]))
    try:
        return json_object(text)
    except JsonError as error:
        raise ModuleError(
            f"the schedule of the module is damaged ({error}): run IOSSchedule() on the module "
            "from before it"
        ) from error


def without_schedule(module: Any) -> Any:
    """Return the module without its schedule's attributes, if ``main`` no longer follows it."""
    for name in (SCHEDULE, SCHEDULE_DATA, CALLS):
        module = module.without_attr(name) if module.attrs and name in module.attrs else module
    return module


def attribute_text(attribute: Any) -> str:
    """Return an attribute's text: a string, or bytes in a tensor, which TVM does not print."""
    numpy = getattr(attribute, "numpy", None)
    return str(attribute) if numpy is None else numpy().tobytes().decode()


def schedule_line(schedule: Mapping[str, Any]) -> str:
    """Return a line about a schedule, given as JSON data."""
    device = f" for {schedule['device']}" if schedule["device"] else ""
    units, stages = len(schedule["units"]), len(schedule["stages"])
    return f"{schedule['policy']}{device}: {units} units in {stages} stages"


def output_names(module: Any, count: int) -> tuple[str, ...]:
    """Return the model's names of a module's ``count`` outputs, or numbered ones if it has none."""
    attributes = dict(module.attrs.items()) if module.attrs else {}
    names = json.loads(str(attributes.get(OUTPUT_NAMES, "[]")))
    return (*names[:count], *(f"output{place}" for place in range(len(names), count)))
