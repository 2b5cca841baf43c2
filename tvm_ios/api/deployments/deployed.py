"""From a model to a deployment: a program for each combination of shapes, machine and lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.api.deployments.combinations import Combination, Recipe
from tvm_ios.api.deployments.entries import PaddingError, PlaceInDeployment
from tvm_ios.api.measured import optimize
from tvm_ios.api.unmeasured import compile_unmeasured
from tvm_ios.contest.outputs import VerificationError, Verify
from tvm_ios.deployment.entry import Entry
from tvm_ios.deployment.registry import read_registry
from tvm_ios.errors import UserError
from tvm_ios.models.identity import model_identity
from tvm_ios.progress import Progress, silent

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from relay_passes.search_options import SearchOptions


@dataclass(frozen=True)
class Deployed:
    """What became of a deployment.

    Attributes
    ----------
    model
        The model's name.
    folder
        The deployment.
    entries
        What was added.
    others
        What was there and is still.
    left_out
        What was not made, and why, a sentence each.
    """

    model: str
    folder: Path
    entries: tuple[Entry, ...]
    others: tuple[Entry, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Making:
    """How the programs of a deployment are made.

    Attributes
    ----------
    folder
        The deployment.
    options
        The options of the search for a combination.
    cost
        A device or a log to schedule by, in the place of measuring.
    policies, schedule, memory_budget, verify
        As of :func:`tvm_ios.api.optimize`.
    progress
        Called with (what, done, total).
    """

    folder: Path
    options: Callable[[Combination], SearchOptions]
    cost: str | None = None
    policies: Sequence[str] | None = None
    schedule: Path | None = None
    memory_budget: int | None = None
    verify: Verify = Verify.onnx
    progress: Progress = silent


def optimize_deployment(wanted: Sequence[Combination], making: Making) -> Deployed:
    """Make a program for each combination, and add it to a deployment as soon as it is kept.

    What this machine can run is searched, verified and measured as
    :func:`tvm_ios.api.optimize` does; what it cannot is scheduled by a description or a log, and
    says so. Programs of other runtimes are not kept: a deployment's programs run from C++ too.

    Parameters
    ----------
    wanted
        Of one model; what was there for the same combination is replaced.
    making
        How.

    Raises
    ------
    UserError
        If none can be made, the folder is of something else, or a program computes something else.
    """
    from relay_passes.load import load_model
    from runtime_ext.machine.this_machine import available_lanes

    # TVM binds the threads that it starts, and with them this process's mask.
    cpus = available_lanes()
    source = wanted[0].source
    model, identity = source.name, model_identity(source)
    PlaceInDeployment(making.folder, model, identity, 1, runs_here=False).require_writable()
    added: dict[str, str] = {}
    left_out: list[str] = []
    done = 0
    for source, group in groupby(wanted, key=lambda combination: combination.source):
        loaded: LoadedModel | None = None
        for combination in group:
            making.progress("programs", done, len(wanted))
            done += 1
            if str(combination) in added:
                continue
            try:
                # Once for all machines and lanes.
                loaded = loaded or load_model(source)
                executable = _make(loaded, combination, identity, cpus, making)
                added[str(combination)] = executable.name
            except (VerificationError, PaddingError):
                raise
            except UserError as error:
                by = "" if combination.recipe is None else f" by {combination.recipe.path}"
                left_out.append(f"{combination}{by}: {error}")
    making.progress("programs", done, len(wanted))
    if not added:
        raise UserError(left_out[0])
    registry = read_registry(making.folder)
    return Deployed(
        model,
        making.folder,
        tuple(entry for entry in registry.entries if entry.id in added.values()),
        tuple(entry for entry in registry.entries if entry.id not in added.values()),
        tuple(left_out),
    )


def _make(
    loaded: LoadedModel, combination: Combination, identity: str, cpus: int, making: Making
) -> Path:
    """Make one program; the folder of its entry."""
    from runtime_ext.target_architecture import cuda_arch

    options = making.options(combination)
    runs_here, lanes = _runs_here(options), combination.lanes
    place = PlaceInDeployment(making.folder, loaded.name, identity, lanes, runs_here=runs_here)
    if combination.recipe is not None:
        return _make_by(combination.recipe, loaded, place, options, making)
    measurable = runs_here and (lanes <= cpus or cuda_arch(options.resolved_target) is not None)
    if making.cost is None and measurable:
        return optimize(
            loaded,
            place,
            options=options,
            policies=making.policies,
            schedule=making.schedule,
            memory_budget=making.memory_budget,
            fallback=(),
            verify=making.verify,
            progress=making.progress,
        ).executable
    cost = making.cost or _description(options)
    remark = "not measured" if making.schedule else f"not measured: scheduled by {cost}"
    return compile_unmeasured(
        loaded,
        replace(place, remarks=(remark,)),
        cost,
        options=options,
        policies=making.policies,
        schedule=making.schedule,
        memory_budget=making.memory_budget,
        verify=making.verify,
        progress=making.progress,
    ).executable


def _make_by(
    recipe: Recipe,
    loaded: LoadedModel,
    place: PlaceInDeployment,
    options: SearchOptions,
    making: Making,
) -> Path:
    """Make a program by what was recorded or scheduled elsewhere."""
    remark = f"by {recipe.path.name} of {recipe.device}, not measured here"
    return compile_unmeasured(
        loaded,
        replace(
            place,
            policy=recipe.policy,
            device=None if recipe.latency_ms is None else recipe.device,
            latency_ms=recipe.latency_ms,
            remarks=(remark,),
        ),
        str(recipe.path),
        options=replace(options, database=recipe.database or options.database),
        policies=None if recipe.schedule else making.policies,
        schedule=recipe.schedule,
        memory_budget=making.memory_budget,
        verify=making.verify,
        progress=making.progress,
    ).executable


def _runs_here(options: SearchOptions) -> bool:
    """Whether kernels of a target run on this machine."""
    from runtime_ext.machine.this_machine import LEVELS, host_flags, level_of
    from runtime_ext.target_architecture import cuda_arch

    target = options.resolved_target
    if (arch := cuda_arch(target)) is not None:
        return gpu_runs(arch)
    return LEVELS[level_of(str(target.attrs["mcpu"]))] <= host_flags()


def gpu_runs(arch: str) -> bool:
    """Whether the first GPU here runs code of an architecture."""
    from runtime_ext.cuda.nvidia.driver import open_device
    from runtime_ext.native_errors import CudaError

    try:
        open_device().require(arch)
    except CudaError:
        return False
    return True


def _description(options: SearchOptions) -> str:
    """The description of a device to schedule by for a machine that is not here."""
    from runtime_ext.target_architecture import cuda_arch
    from tvm_ios.devices.device import described_gpu

    arch = cuda_arch(options.resolved_target)
    return "cpu" if arch is None else described_gpu(arch)
