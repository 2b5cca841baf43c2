"""``tvm-ios optimize`` with a range of shapes: one program for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm_ios.cli.frame.output import Reporting, print_json, progress_bars
from tvm_ios.cli.options.search_options import CompileOptions, MeasuringOptions, search_options
from tvm_ios.cli.options.values import names_in, numbers_in, refuse, wrong_use
from tvm_ios.cli.tables.ranges import print_range
from tvm_ios.contest.outputs import Verify
from tvm_ios.deployment.registry import is_deployment
from tvm_ios.graph.input_shapes import InputShapeError
from tvm_ios.graph.shape_ranges import parse_ranges

#: The reason for which other options are refused.
_ONE_SHAPE = "it is for programs of one shape, and --shape has a range"


def optimize_range_command(
    model: Sequence[str],
    shapes: Sequence[str],
    output: Path | None,
    *,
    lanes: str | None,
    arch: str | None,
    verify: Verify,
    reporting: Reporting,
    compiled: CompileOptions,
    measuring: MeasuringOptions,
    others: Mapping[str, Any],
) -> None:
    """Compile a model for a range of shapes, save it, and print the times in the range.

    ``others`` are the options, by name, that programs of a range do not have.
    """
    refuse(_ONE_SHAPE, {**others, "MODEL...": len(model) > 1})
    refuse(_ONE_SHAPE, {"--target, --dialect and --precision": compiled != CompileOptions()})
    refuse(_ONE_SHAPE, {"options of the search": measuring != MeasuringOptions()})
    lane_counts, archs = numbers_in(lanes, "--lanes"), names_in(arch or "")
    path = output or Path(f"{Path(model[0]).stem}.ios")
    refuse(_ONE_SHAPE, {"--lanes": len(lane_counts) > 1, "--arch": len(archs) > 1})
    refuse(_ONE_SHAPE, {"--output": is_deployment(path)})
    try:
        ranges = parse_ranges(shapes)
    except InputShapeError as error:
        raise wrong_use("--shape", error) from error
    search = search_options(
        lane_counts[0] if lane_counts else None,
        measuring,
        compiled=compiled,
        arch=archs[0] if archs else None,
    )
    from tvm_ios.api import Options, optimize_range

    with progress_bars() as update:
        options = Options(search=search, verify=verify)
        result = optimize_range(model[0], ranges, path, options, update)
    if reporting.as_json:
        return print_json(result.to_json())
    return print_range(result)
