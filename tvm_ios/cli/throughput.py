"""``optimize --objective throughput``: what serves the most requests a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.cli.frame.output import progress_bars
from tvm_ios.cli.options.values import refuse
from tvm_ios.cli.tables.served import print_served
from tvm_ios.deployment.registry import is_deployment

if TYPE_CHECKING:
    from relay_passes.search_options import SearchOptions
    from tvm_ios.models.source import ModelSource


def optimize_for_throughput(
    models: Sequence[ModelSource],
    archs: Sequence[str],
    lane_counts: Sequence[int],
    path: Path,
    make_options: Callable[..., SearchOptions],
    unfit: Mapping[str, object],
    how: Mapping[str, Any],
    as_json: bool,
) -> None:
    """Make one executable, and print what was measured.

    Parameters
    ----------
    models, archs, lane_counts
        Of each there may be one.
    path
        Where to.
    make_options
        Makes the options of a search, given lanes and ``arch``.
    unfit
        Options that do not go with this, true where they were given.
    how
        As of :func:`tvm_ios.api.optimize_throughput`.
    """
    several = {"--batch": models, "--arch": archs, "--lanes": lane_counts}
    refuse(
        "throughput is measured here, of one program of ours on CPUs",
        {
            **unfit,
            **{option: len(values) > 1 for option, values in several.items()},
            "--output": is_deployment(path),
        },
    )
    from tvm_ios.api import optimize_throughput

    lanes, arch = next(iter(lane_counts), None), next(iter(archs), None)

    def options(wanted: int | None) -> SearchOptions:
        return make_options(wanted or lanes, arch=arch)

    with progress_bars() as update:
        served = optimize_throughput(models[0], path, options, progress=update, **how)
    print_served(served, as_json)
