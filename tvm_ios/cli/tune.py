"""``tvm-ios tune``: find faster kernels for a model, and keep them in a log."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import (
    Bars,
    Reporting,
    console,
    print_json,
    progress_bars,
    reports_errors,
    tell_tail,
)
from tvm_ios.cli.options.fleet import FleetOptions
from tvm_ios.cli.options.model import Batch, Model, RandomWeights, Shapes, input_shapes
from tvm_ios.cli.options.search_options import (
    Arch,
    BlockOptions,
    CompileOptions,
    DialectName,
    Lanes,
    MeasuringOptions,
    TargetKind,
    search_options,
)
from tvm_ios.cli.options.values import refuse
from tvm_ios.cli.tables.fleet_report import fleet_report, tell_fleet

if TYPE_CHECKING:
    from tvm_ios.measuring.tuning import TuningResult

#: A line is printed whenever the model's latency has fallen by this share.
_WORTH_TELLING = 0.01


PAGE = HelpPage(
    (
        "tvm-ios tune squeezenet --log log/ --time-limit 600",
        "tvm-ios tune squeezenet --log log/ --tracker 127.0.0.1:9190 --key epyc",
    ),
    "`tvm-ios optimize --log` uses the log.",
)


@reports_errors
def tune(
    model: Model,
    log: Annotated[
        Path,
        panels.running(
            help="The tuning log, made or continued: a folder (MetaSchedule's); for Relay a file "
            "(AutoTVM's)."
        ),
    ],
    reporting: Reporting,
    blocks: BlockOptions,
    compiled: CompileOptions,
    servers: FleetOptions,
    trials: Annotated[
        int, panels.limits(min=1, help="Variants of each kernel to time, at most.")
    ] = 64,
    time_limit: Annotated[
        float | None,
        panels.limits(
            "--time-limit",
            "--seconds",
            help="Seconds of all the work, about; each kernel's default is timed in any case, and "
            "the round under way ends.",
        ),
    ] = None,
    shape: Shapes = None,
    batch: Batch = None,
    arch: Arch = None,
    all_blocks: Annotated[
        bool,
        panels.limits(
            "--all-blocks",
            help="Of Relay convolutions, try other blocks of channels than TVM's own too.",
        ),
    ] = False,
    lanes: Lanes = None,
    random_weights: RandomWeights = None,
    compact: Annotated[
        bool,
        panels.output("--compact", help="Keep each kernel's default and best alone at the end."),
    ] = False,
) -> None:
    """Find faster kernels for a model on this machine, and keep them in a log.

    The convolutions and matrix products of the model, and those of operators that the search may
    merge, are timed in many variants; a learned cost model chooses which, and the trials go where
    the model's latency falls most. The log can be killed, continued and given to `optimize --log`,
    or to `bundle --log`. With --target cuda the tiles of GPU kernels are tuned, on a GPU here; with
    --tracker the trials run on the servers of a key, several at once, and are compiled here.
    """
    if compiled.dialect is not DialectName.relay:
        only = "only AutoTVM tries blocks: give --dialect relay, or leave it out"
        refuse(only, {"--all-blocks": all_blocks})
    shapes = input_shapes(shape)
    options = search_options(
        lanes,
        MeasuringOptions(**asdict(blocks)),
        compiled=compiled,
        arch=arch,
        fleet=servers.choice(),
    )
    from tvm_ios.api.tune import tune_model
    from tvm_ios.models.source import ModelSource

    with progress_bars() as bars:
        done = tune_model(
            ModelSource(model, random_weights, shapes, batch, compiled.dialect.value),
            log,
            options=options,
            trials=trials,
            time_limit=time_limit,
            compacted=compact,
            all_blocks=all_blocks,
            progress=bars,
            tuning=_Falls(bars),
        )
    tell_tail(done.tail)
    tell_fleet(options.fleet)
    if reporting.as_json:
        print_json({**_json(done), **fleet_report(options.fleet)})
    else:
        _print(done, model + _again(batch, compiled, arch))


class _Falls:
    """Progress of tuning: a bar of trials, and a line whenever the model's latency has fallen."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._told: float | None = None

    def __call__(self, done: int, total: int, latency: float, default: float) -> None:
        """Show the trials done, and the model's seconds with tuned and default kernels."""
        self._bars("tuning kernels", done, total, f"model {latency * 1e3:.3f} ms")
        if self._told is None or latency < self._told * (1 - _WORTH_TELLING):
            self._told = latency
            self._bars.tell(
                f"{done} trials: model {latency * 1e3:.3f} ms, "
                f"{latency / default:.3f} of that with default kernels"
            )


def _json(done: TuningResult) -> dict[str, Any]:
    return {
        "model": done.model,
        "tail": done.tail,
        "log": str(done.log),
        "latency_ms": {"default": done.default * 1e3, "tuned": done.tuned * 1e3},
        "kernels": [
            {
                "name": row.task.name,
                "kernel": row.task.text,
                "weight": row.task.weight,
                "merged": row.task.merged,
                "default_ms": None if row.default is None else row.default * 1e3,
                "tuned_ms": row.best * 1e3,
                "gflops": row.task.flops / row.best / 1e9,
                "trials": row.trials,
                "new_trials": row.new_trials,
            }
            for row in done.kernels
        ],
        "missing": done.missing,
        "untouched": done.untouched,
        "mended": done.mended,
        "failed": dict(done.failed),
        "seconds": done.seconds,
    }


def _again(batch: int | None, compiled: CompileOptions, arch: str | None) -> str:
    """Return the options with which other commands read what was tuned."""
    again = "" if batch is None else f" --batch {batch}"
    if compiled.dialect is DialectName.relay:
        again += " --dialect relay"
    elif compiled.target is TargetKind.cuda:
        again += f" --target cuda --arch {arch or 'sm_90'}"
    return again


def _print(done: TuningResult, model: str) -> None:
    out = console()
    if not (done.kernels or done.missing or done.untouched):
        out.print(
            f"there is nothing to tune in {escape(done.model)}: it has no convolution or matrix "
            "product with weights that are constants"
        )
        return
    table = Table("kernel", "weight", "default ms", "tuned ms", "speed-up", "GFLOP/s", "trials")
    for row in done.kernels:
        table.add_row(
            escape(row.task.text),
            str(row.task.weight) if row.task.weight else f"merge of {row.task.merged}",
            "-" if row.default is None else f"{row.default * 1e3:.4f}",
            f"{row.best * 1e3:.4f}",
            "-" if row.default is None else f"{row.default / row.best:.2f}",
            f"{row.task.flops / row.best / 1e9:.0f}",
            str(row.trials),
            style="" if row.task.weight else "dim",
        )
    out.print(table)
    new = sum(row.new_trials for row in done.kernels)
    earlier = sum(row.trials for row in done.kernels) - new
    out.print(
        f"{escape(done.model)}: {done.default * 1e3:.3f} ms with default kernels, "
        f"[bold green]{done.tuned * 1e3:.3f} ms[/bold green] with tuned ones (sum of its units, "
        "one after another)"
    )
    if done.mended:
        out.print(
            "[yellow]an unfinished line that a killed run left in the log was removed[/yellow]"
        )
    if done.missing:
        out.print(f"[yellow]{done.missing} operators of the model are not in the log[/yellow]")
    for reason, count in done.failed.items():
        out.print(f"[yellow]{count} trials could not be timed: {escape(reason)}[/yellow]")
    untouched = f"; {done.untouched} merge candidates were left" if done.untouched else ""
    out.print(f"{new} trials in {done.seconds:.0f} s, {earlier} were in the log before{untouched}")
    out.print(escape(f"tuning log: {done.log}  (tvm-ios optimize {model} --log {done.log})"))
