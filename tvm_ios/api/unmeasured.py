"""From a model to an executable for a machine that is not here."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.api.candidates import find_schedules, fitting
from tvm_ios.api.contests import reference_for
from tvm_ios.api.destination import Destination, KeptProgram, destination_of
from tvm_ios.api.optimized import Compiled
from tvm_ios.api.tvm_build import TvmBuild
from tvm_ios.contest.contest import verified
from tvm_ios.contest.outputs import Verify
from tvm_ios.costs.costs import Offer
from tvm_ios.costs.named import costs_named
from tvm_ios.errors import MemoryBudgetError, SearchError, UserError
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.models.source import AnyModel
from tvm_ios.policies.registry import tried_policies
from tvm_ios.program.bfloat16 import FORM, computed_precision, require_precision
from tvm_ios.progress import Progress, silent
from tvm_ios.schedule.published.imported import read_schedule
from tvm_ios.search import Search

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from relay_passes.search_options import SearchOptions
    from runtime_ext.execution.built_model import BuiltModel


def compile_unmeasured(
    model: AnyModel | LoadedModel,
    output: Path | Destination,
    cost: str,
    *,
    options: SearchOptions,
    policies: Sequence[str] | None = None,
    schedule: Path | None = None,
    memory_budget: int | None = None,
    verify: Verify = Verify.onnx,
    states: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Compiled:
    """Compile a model for a machine that is not here, by described or recorded costs.

    What this machine's CPU runs all the same is verified.

    Parameters
    ----------
    model, output, options, memory_budget, verify, states, progress
        As of :func:`tvm_ios.api.optimize`.
    schedule
        A file; what it has is compiled, and nothing else.
    cost
        A device's name or file, or a log (``.jsonl``) of measurements on such a machine.
    policies
        The one that takes the least time by these costs is kept. By default those of IOS,
        ``sequential`` and ``greedy``: where rTasks run can be said only for profiled kernels.

    Raises
    ------
    UserError
        If the model cannot be read, compiled or scheduled; one sentence says why.
    VerificationError
        If the program computes something else.
    MemoryBudgetError
        If no program fits into the memory budget.
    """
    from relay_passes.load import load_model

    destination = destination_of(output)
    destination.require_writable()
    report = progress or silent
    loaded = load_model(model, report)
    from relay_passes.checks import (
        left_out_of,
        require_numpy_types,
        require_states,
        without_elements,
    )
    from relay_passes.measured_module import measured_module
    from runtime_ext.target_architecture import cuda_arch

    prepared = loaded.prepared()
    require_numpy_types(prepared)
    require_states(prepared, states or {}, loaded.tail)
    module = measured_module(prepared, options, progress)
    if options.precision == FORM and schedule is None:
        raise UserError(
            f"units for {FORM} are chosen by measuring, and by {cost} nothing is measured: leave "
            "out the precision or the cost"
        )
    target: Any = module.units.backend.compiler.target
    broken: tuple[str, ...] = ()
    refused: dict[str, str] = {}
    if schedule is None:
        if policies is None:
            policies, broken = tried_policies({Offer.STAGES}, prepared.units)
        search = (
            module.recorded(Path(cost))
            if cost.endswith(".jsonl")
            else Search(module.problem, costs_named(cost), options.limits, report)
        )
        tried = policies or ("sequential",)
        searches, refused = find_schedules(module, tried, search, memory_budget, priced=True)
        schedules = {policy: found.schedule for policy, found in searches.items()}
        if not schedules:
            kind = SearchError if memory_budget is None else MemoryBudgetError
            raise kind("; ".join(dict.fromkeys(refused.values())))
    elif policies:
        raise UserError(
            f"without measuring only {schedule} would be compiled: "
            "leave out the schedule or the policies"
        )
    else:
        given = read_schedule(schedule, prepared.units).schedule
        require_precision(given.policy, given.kernels.values(), options.precision)
        schedules = {"given": given}
    expected = {policy: s.latency for policy, s in schedules.items()}
    fastest = min(expected, key=lambda policy: expected[policy])
    compiled = [fastest] if memory_budget is None else list(schedules)

    def compiling(done: int, total: int) -> None:
        report("compiling kernels", done, total)

    built = {policy: module.build(schedules[policy], compiling) for policy in compiled}
    allowed = fitting(built, memory_budget, refused)
    kept = min((p for p in built if p in allowed), key=lambda policy: expected[policy])
    compared = _verify_here(loaded, kept, built[kept], options, verify, report)
    unfit = [left_out_of(schedules[kept], loaded.dialect), without_elements(prepared.units)]
    executable = destination.save(
        KeptProgram(
            built[kept],
            prepared.outliner.extraction.graph,
            loaded.tail,
            kept,
            None,
            {
                "model": loaded.name,
                "kept": kept,
                "cost": cost,
                "reference": compared,
                "precision": computed_precision(
                    options.precision, schedules[kept].kernels.values()
                ),
                **({"states": dict(states)} if states else {}),
            },
        )
    )
    return Compiled(
        model=loaded.name,
        expected=expected,
        stages={policy: len(s.stages) for policy, s in schedules.items()},
        kept=kept,
        cost=cost,
        target=cuda_arch(target) or str(target.attrs["mcpu"]),
        memory=built[kept].memory,
        executable=executable,
        notes=(
            *([] if loaded.tail is None else [loaded.tail.sentence]),
            *filter(None, unfit),
            *broken,
            *(f"{policy}: {reason}" for policy, reason in refused.items()),
        ),
    )


def _verify_here(
    loaded: LoadedModel,
    policy: str,
    program: BuiltModel,
    options: SearchOptions,
    verify: Verify,
    report: Progress,
) -> str | None:
    """Verify a program that this machine's CPU runs; return whose outputs it was compared with."""
    from runtime_ext.machine.cpu_features import missing_features, required_features
    from runtime_ext.machine.this_machine import available_lanes
    from runtime_ext.target_architecture import cuda_arch
    from runtime_ext.verification.reference import judged

    target = options.resolved_target
    if verify is Verify.off or options.fleet is not None or options.lanes > available_lanes():
        return None
    if cuda_arch(target) is not None or _machine(target) not in ("", platform.machine()):
        return None
    if missing_features(required_features(target)):
        return None
    with temporary_folder() as folder, closing(program.session()) as session:
        own = TvmBuild(loaded, options, folder / "tvm.so", report)
        reference = reference_for(
            loaded, program, own, options, verify, report, on_cpu=True, beside_tvm=False
        )
        reference, _ = judged(loaded.original, reference, partial(verified, policy, session))
    return reference.source


def _machine(target: Any) -> str:
    """The machine that a target's triple names, as ``uname`` does; empty if it has none."""
    return str(target.attrs.get("mtriple", "")).partition("-")[0]
