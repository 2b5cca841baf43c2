"""From a model to a deployment: a program for each combination of shapes, machine and lanes."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.api.deployments.combinations import Combination
from tvm_ios.api.deployments.entries import PaddingError, PlaceInDeployment
from tvm_ios.api.optimizer import optimize
from tvm_ios.api.options import Options
from tvm_ios.api.ranges import optimize_range
from tvm_ios.contest.outputs import VerificationError
from tvm_ios.deployment.entry import Entry
from tvm_ios.deployment.registry import read_registry
from tvm_ios.errors import UserError
from tvm_ios.models.identity import model_identity
from tvm_ios.models.source import ModelSource
from tvm_ios.progress import Progress, silent
from tvm_ios.shapes.ranges import Ranges

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from relay_passes.search_options import SearchOptions


@dataclass(frozen=True)
class Deployed:
    """The result of making a deployment: entries added, entries kept, and programs left out.

    ``others`` are entries that were in the folder before; ``left_out`` has a sentence of reason for
    each program that was not made.
    """

    model: str
    folder: Path
    entries: tuple[Entry, ...]
    others: tuple[Entry, ...]
    left_out: tuple[str, ...]


def optimize_deployment(
    wanted: Sequence[Combination],
    folder: Path,
    options: Options | None = None,
    progress: Progress = silent,
) -> Deployed:
    """Make a program for each combination, and add each to a deployment once it is chosen.

    A program that this machine can run is searched, verified and measured as by
    :func:`tvm_ios.api.optimize`; any other is scheduled by a description or a log, and its remarks
    say so. Programs of other runtimes are not kept, because a deployment's programs must run from
    C++ too. An entry for the same combination is replaced. Raise UserError if no program can be
    made, the folder holds something else, or a program computes something else.
    """
    from relay_passes.load import load_model
    from runtime_ext.machine.this_machine import available_lanes

    options = replace(options or Options(), fallback=())
    # Count now: TVM binds the threads that it starts, and with them this process's CPU mask.
    cpus = available_lanes()
    source = wanted[0].source
    model, identity = source.name, model_identity(source)
    PlaceInDeployment(folder, model, identity, 1, runs_here=False).require_writable()
    added: dict[str, str] = {}
    left_out: list[str] = []
    done = 0
    for source, group in groupby(wanted, key=lambda combination: combination.source):
        loaded: dict[bool, LoadedModel] = {}
        for combination in group:
            progress("programs", done, len(wanted))
            done += 1
            if str(combination) in added:
                continue
            try:
                place, how = _place_and_options(combination, folder, identity, options, cpus)
                # Load each source once, for all CPUs and lanes, and once for GPUs.
                is_for_gpu = how.search.is_for_gpu
                if is_for_gpu not in loaded:
                    loaded[is_for_gpu] = load_model(source, options=how.search)
                executable = optimize(loaded[is_for_gpu], place, how, progress).executable
                assert executable is not None, "a place is given"
                added[str(combination)] = executable.name
            except (VerificationError, PaddingError):
                raise
            except UserError as error:
                by = "" if combination.recipe is None else f" by {combination.recipe.path}"
                left_out.append(f"{combination}{by}: {error}")
    progress("programs", done, len(wanted))
    return _deployed(model, folder, set(added.values()), left_out)


def deploy_range(
    source: ModelSource,
    ranges: Ranges,
    archs: Sequence[str | None],
    lanes: Sequence[int],
    folder: Path,
    options: Options | None = None,
    progress: Progress = silent,
) -> Deployed:
    """Make a program for a range of shapes for each machine and number of lanes of a deployment.

    Each is compiled, compared and timed as by :func:`tvm_ios.api.optimize_range`, and added; what
    this machine cannot run is left out. Raise UserError if no program can be made, the folder holds
    something else, or a program computes something else.
    """
    from relay_passes.relax.ranges.units import OpenModel, load_open_model
    from runtime_ext.machine.this_machine import announce_lanes
    from runtime_ext.named_target import target_of

    options = options or Options()
    identity = model_identity(source)
    PlaceInDeployment(folder, source.name, identity, 1, runs_here=True).require_writable()
    # TVM counts its threads once: their number can only fall.
    wanted = [(arch, count) for count in sorted(lanes, reverse=True) for arch in archs]
    read: dict[str | None, OpenModel] = {}
    added: set[str] = set()
    left_out: list[str] = []
    for done, (arch, count) in enumerate(wanted):
        progress("programs", done, len(wanted))
        announce_lanes(count)
        try:
            search = options.search.on_lanes(count)
            if arch is not None:
                kind = "cuda" if arch.startswith("sm_") else "llvm"
                search = replace(search, target=target_of(kind, arch, count, source.dialect))
                if kind == "cuda" or not runs_here(search):
                    raise UserError("a program for a range is made on a CPU that runs it")
            if arch not in read:
                read[arch] = load_open_model(source, ranges, search, progress)
            place = PlaceInDeployment(folder, source.name, identity, count, runs_here=True)
            made = optimize_range(
                read[arch], ranges, place, replace(options, search=search), progress
            )
            assert made.executable is not None, "a place is given"
            added.add(made.executable.name)
        except VerificationError:
            raise
        except UserError as error:
            left_out.append(f"{arch or 'this machine'} with {count} lanes: {error}")
    progress("programs", len(wanted), len(wanted))
    return _deployed(source.name, folder, added, left_out)


def _deployed(model: str, folder: Path, added: set[str], left_out: Sequence[str]) -> Deployed:
    """Return the result of adding entries; raise UserError, the first reason, if there is none."""
    if not added:
        raise UserError(left_out[0])
    registry = read_registry(folder)
    return Deployed(
        model,
        folder,
        tuple(entry for entry in registry.entries if entry.id in added),
        tuple(entry for entry in registry.entries if entry.id not in added),
        tuple(left_out),
    )


def _place_and_options(
    combination: Combination, folder: Path, identity: str, options: Options, cpus: int
) -> tuple[PlaceInDeployment, Options]:
    """Return where a combination's program goes, and the options that it is optimised with."""
    from runtime_ext.machine.this_machine import announce_lanes
    from runtime_ext.named_target import target_of
    from runtime_ext.target_architecture import cuda_arch

    source, arch, lanes, recipe = (
        combination.source, combination.arch, combination.lanes, combination.recipe
    )  # fmt: skip
    announce_lanes(lanes)
    search = options.search.on_lanes(lanes)
    if arch is not None:
        kind = "cuda" if arch.startswith("sm_") else "llvm"
        search = replace(search, target=target_of(kind, arch, lanes, source.dialect))
    is_here = runs_here(search)
    place = PlaceInDeployment(folder, source.name, identity, lanes, runs_here=is_here)
    if recipe is not None:
        place = replace(
            place,
            policy=recipe.policy,
            device=None if recipe.latency_ms is None else recipe.device,
            latency_ms=recipe.latency_ms,
            remarks=(f"by {recipe.path.name} of {recipe.device}, not measured here",),
        )
        return place, replace(
            options,
            search=replace(search, database=recipe.database or search.database),
            cost=str(recipe.path),
            policies=None if recipe.schedule else options.policies,
            schedule=recipe.schedule,
        )
    on_gpu = cuda_arch(search.resolved_target) is not None
    if options.cost is None and is_here and (lanes <= cpus or on_gpu):
        return place, replace(options, search=search)
    cost = options.cost or description_of(search)
    remark = "not measured" if options.schedule else f"not measured: scheduled by {cost}"
    return replace(place, remarks=(remark,)), replace(options, search=search, cost=cost)


def runs_here(options: SearchOptions) -> bool:
    """Return whether kernels compiled for a target run on this machine."""
    from runtime_ext.isa.levels import level_in, level_named
    from runtime_ext.machine.cpu_features import host_features
    from runtime_ext.target_architecture import cuda_arch

    target = options.resolved_target
    if (arch := cuda_arch(target)) is not None:
        return _gpu_runs(arch)
    level = level_named(level_in(str(target)) or "")
    return level.machine == platform.machine() and level.features <= host_features()


def _gpu_runs(arch: str) -> bool:
    """Return whether the first GPU here runs code of an architecture (``sm_...``)."""
    from runtime_ext.cuda.nvidia.driver import open_device
    from runtime_ext.native_errors import CudaError

    try:
        open_device().require(arch)
    except CudaError:
        return False
    return True


def description_of(options: SearchOptions) -> str:
    """Return the name of the device description that stands for a machine that is not here."""
    from runtime_ext.target_architecture import cuda_arch
    from tvm_ios.devices.device import described_gpu

    arch = cuda_arch(options.resolved_target)
    return "cpu" if arch is None else described_gpu(arch)
