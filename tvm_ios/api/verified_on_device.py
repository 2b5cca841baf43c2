"""What programs of a model compute on a timing device that computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tvm_ios.contest.contest import verified
from tvm_ios.contest.outputs import Verify
from tvm_ios.contest.tolerance import rounds
from tvm_ios.files.array_files import Array
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.measuring.timing_device import RunningDevice, TimingDevice
from tvm_ios.progress import Progress
from tvm_ios.schedule.first_difference import kinds

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from relay_passes.search_options import SearchOptions
    from runtime_ext.execution.built_model import BuiltModel
    from tvm_ios.measuring.launch_graph import LaunchGraph


def verify_on_device(
    loaded: LoadedModel,
    device: TimingDevice,
    built: Mapping[str, BuiltModel],
    graphs: Mapping[str, LaunchGraph],
    options: SearchOptions,
    verify: Verify,
    report: Progress,
) -> tuple[dict[str, float], str | None, str]:
    """Compare the outputs of programs on a device with those of the model's own framework.

    Parameters
    ----------
    loaded
        The model.
    device
        The device.
    built, graphs
        For each policy its program, and the launches of this.
    options
        The precision.
    verify
        What the programs are compared with.
    report
        Called with (what, done, total).

    Returns
    -------
    tuple of dict, str or None, str
        The largest relative error of each policy's program; whose outputs they were compared
        with, or None and then the reason why they were not, a sentence.

    Raises
    ------
    VerificationError
        If one computes something else.
    """
    from runtime_ext.cuda.plugged_device import PluggedSession
    from runtime_ext.execution.session import random_values
    from runtime_ext.verification.reference import ComparedModel, judged, reference_of

    if not isinstance(device, RunningDevice):
        return {}, None, f"not verified: the device {device.name!r} times programs, and runs none"
    if verify is Verify.off:
        return {}, None, "not verified: --verify off"
    inputs = random_values(built["sequential"].inputs)
    report("computing the reference", 0, 1)
    reference = reference_of(
        ComparedModel(loaded.original, loaded.onnx, partial(_tvm_outputs, loaded, options)),
        inputs,
        verify,
        precision=options.precision or "float32",
        quantised=rounds(kinds(built["sequential"].schedule.get("graph", {}))),
        infinities=False,
        beside_tvm=False,
    )
    report("computing the reference", 1, 1)
    errors: dict[str, float] = {}
    for done, (policy, graph) in enumerate(graphs.items()):
        report("verifying", done, len(graphs))
        session = PluggedSession(device, built[policy], graph)
        reference, of_all = judged(loaded.original, reference, partial(verified, policy, session))
        if of_all is not None:
            errors[policy] = of_all[1]
    report("verifying", len(graphs), len(graphs))
    return errors, reference.source, ""


def _tvm_outputs(
    loaded: LoadedModel, options: SearchOptions, samples: Sequence[Mapping[str, Array]]
) -> list[list[Array]]:
    from runtime_ext.execution.bound_model import library_outputs

    with temporary_folder() as folder:
        build = folder / "tvm.so"
        loaded.dialect.compile_tvm_build(loaded.module, options, build)
        return library_outputs(build, samples)
