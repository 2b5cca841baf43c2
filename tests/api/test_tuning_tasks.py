"""What is tuned of a network: its units' contractions and those of its merge candidates."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_passes.load import load_model
from relay_passes.measured_module import MeasuredModule
from relay_passes.pipeline import prepare
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.kernels.spec import Contraction
from runtime_ext.tuning.contraction_task import ContractionTask
from runtime_ext.tuning.tune_model import tuning_tasks
from tvm_ios.api.tune import model_to_tune
from tvm_ios.graph.merge_rule import mergeable
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.policies.policy import Limits


def search(cache: Path, model: str, pruning: Pruning) -> MeasuredModule[RelaxUnits]:
    options = SearchOptions(lanes=2, cache=cache, limits=Limits(pruning=pruning))
    return MeasuredModule(RelaxUnits(prepare(load_model(model).module), options))


def tasks_of(module: MeasuredModule[RelaxUnits]) -> tuple[ContractionTask, ...]:
    return tuning_tasks(model_to_tune(module), module.units.backend.compiler.space)


@pytest.fixture(scope="module")
def block(tmp_path_factory: pytest.TempPathFactory) -> MeasuredModule[RelaxUnits]:
    return search(tmp_path_factory.mktemp("block"), "inception_block", Pruning(3, 2))


def test_every_contraction_of_a_unit_is_a_task_once(block: MeasuredModule[RelaxUnits]) -> None:
    tasks = tasks_of(block)
    assert all(isinstance(task.spec, Contraction) for task in tasks)
    units = [task for task in tasks if task.weight]
    assert sum(task.weight for task in units) == 14
    assert len(units) == 11, "equal ones count together"
    assert {task.weight for task in units} == {1, 2}
    assert tasks[: len(units)] == tuple(units), "units come first"
    assert all(task.flops > 0 for task in tasks)


def test_merge_candidates_are_those_of_the_pruning(block: MeasuredModule[RelaxUnits]) -> None:
    graph = block.prepared.units
    pairs = model_to_tune(block).merges
    assert all(len(units) == 2 and mergeable(graph, units) for units in pairs)
    every = {
        (a, b)
        for a in range(len(graph))
        for b in range(a + 1, len(graph))
        if mergeable(graph, (a, b))
    }
    # All convolutions that share an input are endings of some state here.
    assert set(pairs) == every
    tasks = [task for task in tasks_of(block) if task.merged]
    assert tasks
    assert all("+" in task.name and not task.weight for task in tasks)


def test_stages_of_one_group_leave_candidates_of_greedy_s_alone(tmp_path: Path) -> None:
    alone = search(tmp_path, "inception_block", Pruning(3, 1))
    assert model_to_tune(alone).merges == {(10, 11): [(10, 11)]}
    assert len(tasks_of(alone)) == 12


def test_squeezenet(tmp_path: Path) -> None:
    module = search(tmp_path, "squeezenet", Pruning(1, 2))
    tasks = tasks_of(module)
    places = model_to_tune(module).merges
    # The expansions of eight fire modules, and four bypasses beside a squeezing convolution.
    assert len(places) == 12
    assert sum(task.merged for task in tasks) == sum(map(len, places.values()))
    assert tasks[0].text == "7x7/2, 3 to 96 at 109x109"
    assert sum(task.weight for task in tasks) == 30
