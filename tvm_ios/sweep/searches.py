"""The search that a task needs: by a device's description, or measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.api.units import units_and_tail
from tvm_ios.costs.named import costs_named
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.lazy import Budget
from tvm_ios.models.source import ModelSource
from tvm_ios.policies.policy import Limits, Problem
from tvm_ios.search import Search
from tvm_ios.sweep.content import file_name
from tvm_ios.sweep.tasks import is_measured

if TYPE_CHECKING:
    from relay_passes.search_options import SearchOptions
    from tvm_ios.graph.op_graph import OpGraph

#: What a crossing's costs are asked for does not depend on how a search is pruned.
_PRUNING = (3, 8)


@dataclass(frozen=True)
class TaskSearch:
    """A search of a task.

    Attributes
    ----------
    search
        Finds schedules.
    end
        To be called when all is measured.
    """

    search: Search
    end: Callable[[], None] = lambda: None


def search_of(content: Mapping[str, Any], files: Mapping[str, Path]) -> TaskSearch:
    """The search of a task.

    Parameters
    ----------
    content, files
        As of :class:`tvm_ios.sweep.content.Job`.

    Raises
    ------
    UserError
        If the model cannot be read or scheduled, or the device cannot be had.
    """
    source = source_of(content, files)
    limits = Limits(
        pruning=Pruning(*content.get("pruning", _PRUNING)),
        max_block=content["max_block"],
        budget=Budget(content.get("max_measurements"), content.get("time_limit")),
    )
    device = content["device"]
    if is_measured(device["name"]):
        return _measured(source, _options(content, limits))
    costs = costs_named(_path_or_name(device, files))
    problem = Problem.of(units_of(source), limits.max_block)
    return TaskSearch(Search(problem, costs, limits))


def source_of(content: Mapping[str, Any], files: Mapping[str, Path]) -> ModelSource:
    """The model of a task, and how it is read."""
    shapes = {name: tuple(shape) for name, shape in content["shapes"].items()}
    model = _path_or_name(content["model"], files)
    return ModelSource(model, shapes=shapes, batch=content["batch"])


def units_of(source: ModelSource) -> OpGraph:
    """The graph of units of a model."""
    shapes = tuple((name, tuple(shape)) for name, shape in source.shapes.items())
    return _units(source.model, shapes, source.batch)


@lru_cache(maxsize=4)
def _units(
    model: str, shapes: tuple[tuple[str, tuple[int, ...]], ...], batch: int | None
) -> OpGraph:
    """The same, kept for the next tasks of a worker: neighbours are often of one model."""
    return units_and_tail(ModelSource(model, shapes=dict(shapes), batch=batch))[0]


def _path_or_name(named: Mapping[str, str], files: Mapping[str, Path]) -> str:
    """A file of the job, or what every installation has under a name."""
    path = files.get(file_name(named)) if "sha256" in named else None
    return named["name"] if path is None else str(path)


def _options(content: Mapping[str, Any], limits: Limits) -> SearchOptions:
    from runtime_ext.machine.this_machine import available_lanes

    lanes = content["lanes"] or available_lanes()
    # TVM reads this once, when its thread pool starts.
    os.environ["TVM_NUM_THREADS"] = str(lanes)
    from relay_passes.search_options import SearchOptions

    return SearchOptions(lanes=lanes, limits=limits)


def _measured(source: ModelSource, options: SearchOptions) -> TaskSearch:
    from relay_passes.load import load_model
    from relay_passes.measured_module import measured_module
    from relay_passes.pipeline import prepare

    loaded = load_model(source)
    module = measured_module(prepare(loaded.module, loaded.name), options)
    return TaskSearch(module.search, module.end_run)
