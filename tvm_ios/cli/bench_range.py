"""``tvm-ios bench`` with a range of shapes: one program for all of them beside others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm_ios.cli.frame.output import Reporting, print_json, progress_bars
from tvm_ios.cli.optimize_range import shapes_of_range
from tvm_ios.cli.options.search_options import (
    CompileOptions,
    MeasuringOptions,
    chosen_policies,
    search_options,
)
from tvm_ios.cli.options.values import names_in, require_known, wrong_use
from tvm_ios.cli.tables.benched import print_benched, tell_failures
from tvm_ios.contest.outputs import Verify
from tvm_ios.contest.rules import Rules
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.models.source import ModelSource

Points = Sequence[tuple[int, ...]]

_POINT = re.compile(r"\d+(?:x\d+)*")


def range_to_bench(
    models: Sequence[str],
    shapes: Sequence[str],
    at: str | None,
    others: Mapping[str, Any],
    compiled: CompileOptions,
    measuring: MeasuringOptions,
) -> tuple[Sequence[str], Points] | None:
    """Return the range, as ``--shape`` has it, and the shapes of ``--at``; None without a range.

    ``others`` are the options, by name, that programs of a range do not have.
    """
    # It imports NumPy, for which help need not wait.
    from tvm_ios.shapes.ranges import has_range

    if at is None:
        if has_range(shapes):
            raise wrong_use("--shape", "it has a range: name shapes of it, as in --at 1x32,8x128")
        return None
    points = names_in(at)
    if not points or not all(map(_POINT.fullmatch, points)):
        raise wrong_use("--at", f"{at!r} names no shapes: write the open extents, as in 1x32,8x128")
    ranges = shapes_of_range(models, shapes, others, compiled, measuring)
    if ranges is None:
        raise wrong_use("--at", "it is of a range of shapes: give one, as --shape x:1..32,1..512")
    return ranges, [tuple(map(int, point.split("x"))) for point in points]


def bench_range_command(
    model: str,
    shapes: Sequence[str],
    points: Points,
    against: str,
    *,
    policy: str | None,
    lanes: int | None,
    time_limit: float | None,
    verify: Verify,
    output: Path | None,
    timing: Mapping[str, Any],
    rules: Rules,
    reporting: Reporting,
) -> None:
    """Compile a model for a range, time it at some shapes beside others, and print the times."""
    from runtime_ext.peers.registry import peer_named, peer_names, peers_to_compare
    from tvm_ios.shapes.input_shapes import InputShapeError
    from tvm_ios.shapes.ranges import parse_ranges

    try:
        ranges = parse_ranges(shapes)
    except InputShapeError as error:
        raise wrong_use("--shape", error) from error
    search = search_options(lanes, MeasuringOptions(), time_limit=time_limit)
    from runtime_ext.cpu.machine_description import describe_machine
    from tvm_ios.api import Options
    from tvm_ios.bench.document import BenchDocument
    from tvm_ios.bench.ranges import EXACT, bench_range, peers_of_ranges

    if against == "all":
        installed = peers_to_compare(with_log=False)
        names = [name for name in installed if peer_named(name).runs_open] + [EXACT]
    else:
        names = names_in(against)
    require_known(names, (*peer_names("cpu"), EXACT), "--against")
    libraries = [peer.library for peer in peers_of_ranges(names) if peer.library]
    options = Options(search=search, policies=chosen_policies(policy), verify=verify)
    settings = {
        **{"ranges": list(shapes), "against": names, "policies": options.policies},
        **{**timing, "time_limit": time_limit, "verify": verify.value},
    }
    with progress_bars() as update, temporary_folder() as folder:
        update("measuring the machine", 0, 1)
        document = BenchDocument(describe_machine(search.lanes, libraries), settings)
        update("measuring the machine", 1, 1)
        if output is not None:
            # Write now rather than after an hour: the file may not be writable.
            document.save(output)
        for result in bench_range(
            ModelSource(model),
            ranges,
            points,
            names,
            folder,
            rules=rules,
            processes=timing["processes"],
            options=options,
            progress=update,
        ):
            document.add(result)
            if output is not None:
                document.save(output)
    (print_json if reporting.as_json else print_benched)(document.to_json())
    tell_failures(document)
