"""The search object of a task: priced by a device's description, or measured."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.api.units import units_and_tail
from tvm_ios.costs.named import costs_named
from tvm_ios.errors import UserError
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.lazy import Budget
from tvm_ios.models.source import ModelSource
from tvm_ios.policies.policy import Limits, Problem
from tvm_ios.search import Search
from tvm_ios.sweep.content import MODELS_KEPT, TRACKER, file_name
from tvm_ios.sweep.tasks import FLEET, HERE

if TYPE_CHECKING:
    from runtime_ext.fleet.choice import FleetChoice
    from tvm_ios.graph.op_graph import OpGraph

#: For crossings, whose costs do not depend on the pruning of a search.
_PRUNING = (3, 8)
#: Seconds to wait for servers that the task before has just released.
_PATIENCE = 5.0


@contextmanager
def search_of(content: Mapping[str, Any], files: Mapping[str, Path]) -> Generator[Search]:
    """Open the search of a task; a measured device is held until the context ends.

    ``content`` and ``files`` are those of a :class:`tvm_ios.sweep.content.Job`. Raise UserError if
    the model cannot be read or scheduled, the device is not available, or all of its servers are
    lost.
    """
    source = source_of(content, files)
    limits = Limits(
        pruning=Pruning(*content.get("pruning", _PRUNING)),
        max_block=content["max_block"],
        budget=Budget(content.get("max_measurements"), content.get("time_limit")),
    )
    device = content["device"]
    if device["name"] == HERE:
        with _measured_here(content, source, limits) as search:
            yield search
    elif device["name"].startswith(FLEET):
        with _measured_on_fleet(content, source, limits) as search:
            yield search
    else:
        costs = costs_named(_path_or_name(device, files))
        yield Search(Problem.of(units_of(source), limits.max_block), costs, limits)


def source_of(content: Mapping[str, Any], files: Mapping[str, Path]) -> ModelSource:
    """Return the model of a task, with its shapes and batch."""
    shapes = {name: tuple(shape) for name, shape in content["shapes"].items()}
    model = _path_or_name(content["model"], files)
    return ModelSource(model, shapes=shapes, batch=content["batch"])


def units_of(source: ModelSource) -> OpGraph:
    """Return the graph of units of a model."""
    shapes = tuple((name, tuple(shape)) for name, shape in source.shapes.items())
    return _units(source.model, shapes, source.batch)


@lru_cache(maxsize=MODELS_KEPT)
def _units(
    model: str, shapes: tuple[tuple[str, tuple[int, ...]], ...], batch: int | None
) -> OpGraph:
    """Return the graph of units of a model, cached: successive tasks are often of one model."""
    return units_and_tail(ModelSource(model, shapes=dict(shapes), batch=batch))[0]


def _path_or_name(named: Mapping[str, str], files: Mapping[str, Path]) -> str:
    """Return the path of a file of the job, or the name if it is a built-in one."""
    path = files.get(file_name(named)) if "sha256" in named else None
    return named["name"] if path is None else str(path)


@contextmanager
def _measured_here(
    content: Mapping[str, Any], source: ModelSource, limits: Limits
) -> Generator[Search]:
    from runtime_ext.machine.this_machine import announce_lanes, available_lanes

    lanes = content["lanes"] or available_lanes()
    announce_lanes(lanes)
    with _measured(source, lanes=lanes, limits=limits) as search:
        yield search


@contextmanager
def _measured_on_fleet(
    content: Mapping[str, Any], source: ModelSource, limits: Limits
) -> Generator[Search]:
    from runtime_ext.fleet.opening import open_fleet
    from runtime_ext.fleet.pool import told
    from runtime_ext.machine.this_machine import cache_folder

    name, machine = content["device"]["name"], content["device"]["machine"]
    choice = fleet_choice(content[TRACKER], name)
    with closing(open_fleet(choice, cache_folder() / "kernels", lanes=content["lanes"])) as fleet:
        if fleet.name != machine:
            raise UserError(
                f"the servers of {name} are {fleet.name}, and the sweep was begun with {machine}: "
                "begin it again, or give servers that differ keys of their own"
            )
        with _measured(source, lanes=fleet.lanes, fleet=fleet, limits=limits) as search:
            yield search
        if fleet.exhausted:
            raise UserError(f"all servers of {name} were lost: {told(fleet.lost)}")


@contextmanager
def _measured(source: ModelSource, **options: Any) -> Generator[Search]:
    from relay_passes.load import load_model
    from relay_passes.measured_module import measured_module
    from relay_passes.search_options import SearchOptions

    searching = SearchOptions(**options)
    module = measured_module(load_model(source, options=searching).prepared(), searching)
    yield module.search
    module.end_run()


def fleet_choice(tracker: str, device: str) -> FleetChoice:
    """Return the servers that a device name of a sweep refers to.

    Raise TrackerError if the tracker's address is invalid.
    """
    from runtime_ext.fleet.choice import FleetChoice
    from runtime_ext.fleet.tracker import Address

    return FleetChoice(Address.parse(tracker), device.removeprefix(FLEET), patience=_PATIENCE)
