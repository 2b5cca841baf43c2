"""``tvm-ios optimize`` with a range of shapes: one program for all of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from tvm_ios.cli.frame.output import Reporting, print_json, progress_bars
from tvm_ios.cli.options.search_options import (
    CompileOptions,
    MeasuringOptions,
    Winograd,
    chosen_policies,
    search_options,
)
from tvm_ios.cli.options.values import bytes_of, names_in, numbers_in, refuse, wrong_use
from tvm_ios.cli.tables.deployed import print_deployed
from tvm_ios.contest.outputs import Verify
from tvm_ios.deployment.registry import is_deployment


def shapes_of_range(
    models: Sequence[str],
    shapes: Sequence[str],
    others: Mapping[str, Any],
    compiled: CompileOptions,
    measuring: MeasuringOptions,
) -> Sequence[str] | None:
    """Return the shapes, if one has a range, or those of a model that has open dimensions.

    ``others`` are the options, by name, that programs of a range do not have: with a range they are
    wrong uses, and without one the model is not asked for its own.
    """
    # These import NumPy and ONNX, for which help need not wait.
    from tvm_ios.models.open_model import default_shapes
    from tvm_ios.shapes.ranges import has_range

    refused = {
        **others,
        "MODEL...": len(models) > 1,
        "--target, --dialect and --precision": compiled != CompileOptions(),
        "options of the search": measuring != MeasuringOptions(winograd=measuring.winograd),
    }
    if has_range(shapes):
        refuse("it is for programs of one shape, and --shape has a range", refused)
        return shapes
    if shapes or any(refused.values()):
        return None
    taken = default_shapes(models[0])
    if not taken:
        return None
    told = " ".join(f"--shape {shape}" for shape in taken)
    print(f"tvm-ios: one program for a range of shapes: {told}", file=sys.stderr)
    return taken


def optimize_range_command(
    model: str,
    shapes: Sequence[str],
    output: Path | None,
    *,
    winograd: Winograd,
    policy: str | None,
    lanes: str | None,
    arch: str | None,
    time_limit: float | None,
    verify: Verify,
    memory_budget: str | None,
    reporting: Reporting,
) -> None:
    """Compile a model for a range of shapes, save it, and print the times in the range.

    With several architectures or numbers of lanes, or a deployment as output, the programs are
    entries of that.
    """
    from tvm_ios.cli.tables.ranges import print_range
    from tvm_ios.shapes.input_shapes import InputShapeError
    from tvm_ios.shapes.ranges import parse_ranges

    lane_counts, archs = numbers_in(lanes, "--lanes"), names_in(arch or "")
    path = output or Path(f"{Path(model).stem}.ios")
    deploys = max(len(lane_counts), len(archs)) > 1 or is_deployment(path)
    try:
        ranges = parse_ranges(shapes)
    except InputShapeError as error:
        raise wrong_use("--shape", error) from error
    search = search_options(
        max(lane_counts, default=None),
        MeasuringOptions(winograd=winograd),
        arch=archs[0] if len(archs) == 1 else None,
        time_limit=time_limit,
        runs_here=not deploys,
    )
    budget = bytes_of(memory_budget, "--memory-budget")
    from tvm_ios.api import Options, optimize_range
    from tvm_ios.api.range_schedules import RANGE_POLICIES

    policies = chosen_policies(policy, RANGE_POLICIES)
    options = Options(search=search, verify=verify, policies=policies, memory_budget=budget)
    if deploys:
        from tvm_ios.api.deployments.deployed import deploy_range
        from tvm_ios.models.source import ModelSource

        with progress_bars() as update:
            made = deploy_range(
                ModelSource.of(model),
                ranges,
                archs or [None],
                lane_counts or [search.lanes],
                path,
                options,
                update,
            )
        print_deployed(made, reporting.as_json)
        if made.left_out:
            raise typer.Exit(1)
        return None
    with progress_bars() as update:
        result = optimize_range(model, ranges, path, options, update)
    if reporting.as_json:
        return print_json(result.to_json())
    return print_range(result)
