"""``tvm-ios bundle``: compile here, search and measure elsewhere."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape

from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Reporting, console, print_json, progress_bars, reports_errors
from tvm_ios.cli.options.model import Batch, Model, RandomWeights, Shapes, input_shapes
from tvm_ios.cli.options.search_options import (
    Arch,
    BlockOptions,
    CompileOptions,
    Lanes,
    MeasuringOptions,
    Policies,
    PrecisionOption,
    Target,
    TargetKind,
    TuningLog,
    Verification,
    Winograd,
    WinogradOption,
    chosen_policies,
    search_options,
)
from tvm_ios.cli.options.values import refuse
from tvm_ios.contest.outputs import Verify

if TYPE_CHECKING:
    from runtime_ext.bundle.writing.write import BundleSummary


class Ship(StrEnum):
    """The form of a bundle's weights: stored, or as the seed to draw random ones."""

    stored = "stored"
    drawn = "drawn"


class ReferenceRuntime(StrEnum):
    """The runtime whose outputs ``run.py`` compares with."""

    tvm = "tvm"
    torch = "torch"


PAGE = HelpPage(
    (
        "tvm-ios bundle squeezenet --arch x86-64-v3 --lanes 8 -o squeezenet.bundle",
        "tvm-ios bundle inception_v3 --target cuda --arch sm_90 --weights drawn",
    ),
    "`python MODEL.bundle/run.py` searches and measures on the other machine.",
)


@reports_errors
def bundle(
    model: Model,
    reporting: Reporting,
    blocks: BlockOptions,
    output: Annotated[
        Path | None, panels.output("-o", "--output", help="The folder.  [MODEL.bundle]")
    ] = None,
    target: Target = TargetKind.llvm,
    arch: Arch = None,
    precision: PrecisionOption = None,
    cudnn: Annotated[
        bool | None,
        panels.target(
            "--cudnn/--no-cudnn",
            help="Let run.py measure cuDNN's convolutions beside the bundle's.  [for a GPU]",
        ),
    ] = None,
    lanes: Lanes = None,
    policy: Policies = None,
    weights: Annotated[
        Ship,
        panels.target(
            help="stored: in the bundle; drawn: random ones instead, which run.py draws again."
        ),
    ] = Ship.stored,
    max_merges: Annotated[
        int, panels.limits(min=0, help="Merge candidates to compile, at most; small ones first.")
    ] = 300,
    max_fused: Annotated[
        int,
        panels.limits(
            min=0,
            help="Co-scheduled stages to compile ahead for a GPU, at most; the promising first.",
        ),
    ] = 12,
    reference: Annotated[
        ReferenceRuntime | None,
        panels.running(
            help="Who computes the outputs instead: tvm, or torch, which is fast on large batches."
        ),
    ] = None,
    verify: Verification = Verify.onnx,
    with_tvm: Annotated[
        bool, panels.running("--with-tvm", help="TVM's own build, too, for run.py --peers tvm.")
    ] = False,
    winograd: WinogradOption = Winograd.auto,
    batch: Batch = None,
    shape: Shapes = None,
    random_weights: RandomWeights = None,
    log: TuningLog = None,
) -> None:
    """Compile a model here, to search, verify and measure it on a machine without a compiler.

    The folder holds the kernels of all units, of their rKernels and of what may be merged, the
    weights, an input with the output that it should have, and run.py, which needs
    Python 3.11, NumPy, and apache-tvm-ffi for a CPU or cuda-bindings for a GPU. What run.py brings
    back in results/ is a log for --cost, schedules for --schedule, and the measurements.
    """
    from tvm_ios.costs.costs import Offer
    from tvm_ios.policies.registry import OURS, tried_policies

    tried, _ = tried_policies({Offer.STAGES, Offer.RTASKS})
    policies, shapes = chosen_policies(policy, tried), input_shapes(shape)
    if verify is Verify.off:
        refuse("nothing is compared by --verify off", {"--reference": reference})
    options = search_options(
        lanes,
        MeasuringOptions(**asdict(blocks), winograd=winograd),
        compiled=CompileOptions(target=target, precision=precision),
        arch=arch,
        log=log,
        cudnn=target is TargetKind.cuda if cudnn is None else cudnn,
        runs_here=False,
    )
    from tvm_ios.api.bundle import bundle_model
    from tvm_ios.models.source import ModelSource

    with progress_bars() as update:
        done = bundle_model(
            ModelSource(model, random_weights, shapes, batch),
            output or Path(f"{Path(model).stem}.bundle"),
            options=options,
            # The other machine may lack packages that add policies.
            policies=policies or [name for name in tried if name in OURS],
            draw_weights=weights is Ship.drawn,
            max_merges=max_merges,
            max_fused=max_fused,
            reference=None if reference is None else reference.value,
            verify=verify,
            with_tvm=with_tvm,
            progress=update,
        )
    if reporting.as_json:
        print_json(_json(done))
    else:
        _print(done)


def _json(done: BundleSummary) -> dict[str, Any]:
    data = asdict(done)
    return {
        "model": data.pop("model"),
        "bundle": str(data.pop("path")),
        "bytes": data.pop("nbytes"),
        **data,
    }


def _print(done: BundleSummary) -> None:
    out = console()
    out.print(
        f"[bold]{escape(done.model)}[/bold]: {done.units} units, {done.kernels} kernels, "
        f"{done.merges} of {done.merge_candidates} merge candidates, {done.fused} stages as one "
        f"kernel, {done.nbytes / 2**20:.1f} MiB"
    )
    if done.tuned is not None:
        out.print(
            f"kernels of the tuning log: {done.tuned.found}, which run.py measures beside the "
            f"default ones; {done.tuned.missing} are not in it"
        )
    compared = "nothing (--verify off)" if done.reference is None else done.reference
    out.print(escape(f"programs will be compared with: {compared}"))
    if done.glibc:
        out.print(f"runs with glibc {done.glibc} or newer")
    out.print(escape(f"there: python {done.path}/run.py"))
