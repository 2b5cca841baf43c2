"""Write a bundle: a model compiled here, to search and measure on a machine without a compiler."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.contest.outputs import Verify
from tvm_ios.errors import UserError
from tvm_ios.models.source import AnyModel, ModelSource
from tvm_ios.program.bfloat16 import FORM
from tvm_ios.progress import Progress, silent

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from relay_passes.search_options import SearchOptions
    from runtime_ext.bundle.writing.model import ModelToBundle
    from runtime_ext.bundle.writing.write import BundleSummary


def bundle_model(
    model: AnyModel,
    path: Path,
    *,
    options: SearchOptions,
    policies: Sequence[str],
    draw_weights: bool = False,
    max_merges: int = 300,
    max_fused: int = 12,
    reference: str | None = None,
    verify: Verify = Verify.onnx,
    with_tvm: bool = False,
    progress: Progress = silent,
) -> BundleSummary:
    """Write a bundle of a model: compiled here, to be searched and measured on another machine.

    Parameters
    ----------
    model
        A zoo name, a file, or a :class:`~tvm_ios.models.source.ModelSource`.
    path
        The folder to write; a bundle that is there is replaced.
    options
        Lanes, target, tuned kernels, and the limits of the searches on the other machine.
    policies
        The policies that the bundle's ``run.py`` tries by default.
    draw_weights
        Replace the model's weights by random ones, which the other machine draws again with the
        seed of the source, so that they need not travel.
    max_merges, max_fused, reference, verify, with_tvm
        As of :func:`runtime_ext.bundle.writing.write.write_bundle`.
    progress
        Called with (phase, done, total).

    Raises
    ------
    UserError
        If the model cannot be read, scheduled or compiled, or something else is at ``path``.
    """
    from relay_passes.load import load_model
    from runtime_ext.bundle.contents import require_replaceable

    require_replaceable(path)
    source = ModelSource.of(model)
    loaded = load_model(source, progress, options=options)
    if loaded.tail is not None:
        raise UserError(
            f"{loaded.tail.sentence}; a bundle has no runtime for it: export the model without it"
        )
    from runtime_ext.bundle.writing.write import write_bundle

    seed = (source.random_weights or 0) if draw_weights else None
    return write_bundle(
        model_to_bundle(loaded, options, seed=seed, progress=progress),
        path,
        policies=policies,
        max_merges=max_merges,
        max_fused=max_fused,
        reference=reference,
        verify=verify,
        with_tvm=with_tvm,
        progress=progress,
    )


def model_to_bundle(
    loaded: LoadedModel,
    options: SearchOptions,
    *,
    seed: int | None = None,
    progress: Progress = silent,
) -> ModelToBundle:
    """Return a loaded Relax model in the form that the writer of bundles takes.

    With a ``seed`` its weights are replaced by random ones drawn with it. Raise UserError if the
    model cannot be scheduled, or only TVM can make a program of it.
    """
    from relay_passes.checks import require_numpy_types
    from relay_passes.pipeline import prepare
    from relay_passes.relax.redraw import redraw_weights
    from relay_passes.relax.target_units import RelaxUnits
    from runtime_ext.bundle.writing.model import ModelToBundle
    from runtime_ext.ir_form import output_names

    if options.precision == FORM:
        raise UserError(f"bundles have no kernels in {FORM}: leave out --precision")
    module, drawn = loaded.module, {}
    if seed is not None:
        module, drawn = redraw_weights(module, seed)
    prepared = prepare(module, loaded.name)
    require_numpy_types(prepared)
    units = RelaxUnits(prepared, options)
    outliner = prepared.outliner
    return ModelToBundle(
        name=loaded.name,
        module=module,
        graph=prepared.units,
        source=units.source,
        unit_constants=lambda unit: [c.value.numpy() for c in outliner.unit(unit).constants],
        constant_outputs={
            tensor: outliner.value(tensor).value.numpy()
            for tensor in prepared.units.outputs
            if prepared.units.tensors[tensor].constant
        },
        parts=units.parts,
        operators=outliner.extraction.graph,
        operator_constant=lambda tensor: outliner.extraction.values[tensor].value.numpy(),
        output_names=output_names(module, len(prepared.units.outputs)),
        backend=units.backend,
        precision=options.precision or "float32",
        pruning=options.limits.pruning,
        max_block=options.limits.max_block,
        # Only the module has the redrawn weights: the ONNX models are left out.
        original=loaded.original if seed is None else None,
        simple=loaded.onnx if seed is None else None,
        drawn=drawn,
    )
