"""How ``optimize`` makes a deployment: the combinations, and the options of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.models.source import ModelSource

if TYPE_CHECKING:
    from relay_passes.search_options import SearchOptions
    from tvm_ios.api.deployments.deployed import Deployed


def make_deployment(
    models: Sequence[ModelSource],
    archs: Sequence[str],
    lanes: Sequence[int],
    folder: Path,
    options: Callable[..., SearchOptions],
    logs: Path | None,
    **making: Any,
) -> Deployed:
    """Make a deployment, or add to one.

    Parameters
    ----------
    models
        The model in all its shapes.
    archs, lanes
        What is compiled for; where none is given this machine, or with ``logs`` all that they have.
    folder
        The deployment.
    options
        The options of a search, given lanes and ``arch``.
    logs
        A folder of what was recorded or scheduled elsewhere; nothing is measured then.
    making
        More of :class:`tvm_ios.api.deployments.deployed.Making`.

    Raises
    ------
    UserError
        As :func:`tvm_ios.api.deployments.deployed.optimize_deployment`.
    """
    from tvm_ios.api.deployments.combinations import Combination, combinations, combinations_of
    from tvm_ios.api.deployments.recipes import read_recipes

    others: list[str] = []
    if logs is None:
        wanted = combinations(models, archs or [None], lanes or [options(None).lanes])
    else:
        recipes, others = read_recipes(logs)
        wanted = [
            combination
            for combination in combinations_of(recipes, models)
            if combination.arch in (archs or [combination.arch])
            and combination.lanes in (lanes or [combination.lanes])
        ]

    def options_of(combination: Combination) -> SearchOptions:
        return options(combination.lanes, arch=combination.arch, runs_here=False)

    # It imports what searches need: TVM, which counts its threads as the options say.
    from tvm_ios.api.deployments.deployed import Making, optimize_deployment

    done = optimize_deployment(wanted, Making(folder, options_of, **making))
    return replace(done, left_out=(*others, *done.left_out))
