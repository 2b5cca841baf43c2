"""Costs by name: those of a device, or of a cost model that another package adds."""

from __future__ import annotations

from tvm_ios.costs.costs import Costs, costs_of_model
from tvm_ios.costs.described import described_costs
from tvm_ios.costs.model import CostModel
from tvm_ios.devices.device import DeviceError, device_names, load_device
from tvm_ios.devices.memory_hierarchy import hierarchy_names
from tvm_ios.extensions import extensions, load_extension

#: The entry points of other packages' cost models.
GROUP = "tvm_ios.costs"

#: The name of costs measured on this machine. Measuring needs a module, so :func:`costs_named`
#: does not accept it.
MEASURED = "measured"


def cost_names() -> tuple[str, ...]:
    """Return the names of all costs."""
    return tuple(dict.fromkeys((MEASURED, *device_names(), *extensions(GROUP))))


def costs_named(name: str) -> Costs:
    """Return the costs of a device, or of a cost model that another package adds.

    ``name`` is one of :func:`cost_names` but ``measured``, or the path of a device's ``.json``
    file. Raise DeviceError if there is no such device, ExtensionError if the package is broken.
    """
    if name in extensions(GROUP) and name not in device_names():
        return costs_of_model(load_extension(GROUP, name, CostModel))
    if name in hierarchy_names() and name not in device_names():
        raise DeviceError(f"{name} is an accelerator: only --policy graphturbo plans for it")
    return described_costs(load_device(name))
