"""``tvm-ios explain``: why an executable is not faster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.executables import refuse_models
from tvm_ios.cli.help_pages import HelpPage
from tvm_ios.cli.output import Debug, Json, console, print_json, reports_errors

if TYPE_CHECKING:
    from runtime_ext.explain import Explanation
    from tvm_ios.explain.bounds import Region

#: Median over fastest run, and times that the lanes are stopped a run, that deserve a warning.
_DISTURBED, _PREEMPTED = 1.3, 0.5


PAGE = HelpPage(
    ("tvm-ios explain out/", "tvm-ios explain out/ --plot timeline.svg"),
    "What helps is said below the tables: `tvm-ios tune` for faster kernels, "
    "`tvm-ios optimize` with a wider search for idle lanes.",
)


@reports_errors
def explain(
    executable: Annotated[Path, typer.Argument(help="What `tvm-ios optimize -o` wrote.")],
    repeat: Annotated[
        int, typer.Option(min=1, help="Runs to profile; of each block the fastest tenth counts.")
    ] = 40,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw one run, lanes over time, into this .svg or .png."),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Say what bounds an executable, block by block, and what would help.

    It runs on random inputs, and the time of every launch is taken. No block can be faster than
    the longest chain of kernels that need each other's results (critical path) or than all its
    kernels shared evenly by the lanes; whatever the kernels, not faster than its arithmetic and
    the memory traffic at this machine's measured peaks. The largest of these bounds, and what the
    lanes did besides, say what would help.
    """
    from runtime_ext.explain import explain as find_out
    from tvm_ios.plot import plot_blocks, require_picture, save_picture

    refuse_models(executable)
    if plot is not None:
        require_picture(plot)
    found = find_out(executable, repeat)
    if plot is not None:
        blocks = [region.units for region in found.blocks]
        save_picture(plot_blocks(found.timeline.steps, blocks), plot)
    if as_json:
        print_json(_json(found))
    else:
        _print(executable, found)


def _json(found: Explanation) -> dict[str, Any]:
    total, *blocks = [
        {**_region_json(region, found.names), "advice": advice}
        for region, advice in zip((found.total, *found.blocks), found.advice, strict=True)
    ]
    return {
        "policy": found.policy,
        "measured_ms": {policy: seconds * 1e3 for policy, seconds in found.measured.items()},
        "lanes": found.lanes,
        "memory": {"arena_bytes": found.arena, "unshared_bytes": found.unshared},
        "latency_ms": found.latency * 1e3,
        "disturbance": found.disturbance,
        "preemptions": found.preemptions,
        "peak": {
            "gflops": found.peaks.flops / 1e9,
            "gbps": found.peaks.bandwidth / 1e9,
            "cache_bytes": found.peaks.cache,
        },
        "total": total,
        "blocks": blocks,
        "hot": [
            {
                "units": [found.names[unit] for unit in row.units],
                "kernels": row.kernels,
                "ms": row.seconds * 1e3,
                "share": row.share,
                "gflops": None if row.flops_per_second is None else row.flops_per_second / 1e9,
                "gbps": row.bytes_per_second / 1e9,
            }
            for row in found.hot
        ],
    }


def _region_json(region: Region, names: tuple[str, ...]) -> dict[str, Any]:
    return {
        "units": [names[unit] for unit in region.units],
        "ms": region.seconds * 1e3,
        "bounds_ms": {
            bound.value.replace(" ", "_"): seconds * 1e3 for bound, seconds in region.bounds.items()
        },
        "bound": region.bound.value.replace(" ", "_"),
        "ratio": region.ratio,
        "busy": region.busy,
        "waiting": region.waiting,
        "launching": region.launching,
        "launches": region.launches,
        "flops": region.flops,
        "bytes": region.nbytes,
        "memory_bytes": region.memory_bytes,
    }


def _print(path: Path, found: Explanation) -> None:
    from tvm_ios.explain.bounds import Bound

    out = console()
    out.print(
        f"[bold]{escape(str(path))}[/bold]: {found.policy}, {len(found.names)} units on "
        f"{found.lanes} lanes, {found.latency * 1e3:.3f} ms; this machine reaches "
        f"{found.peaks.flops / 1e9:.0f} GFLOP/s and {found.peaks.bandwidth / 1e9:.1f} GB/s on them"
    )
    out.print(
        f"tensors between units share {found.arena / 2**20:.2f} MiB, apart they would take "
        f"{found.unshared / 2**20:.2f} MiB"
    )
    if found.measured:
        latencies = (f"{policy} {seconds * 1e3:.3f}" for policy, seconds in found.measured.items())
        out.print(f"when it was made, in ms: {', '.join(latencies)}")
    columns = ("block", "units", "ms", *Bound, "seen/bound", "busy", "waiting", "launching")
    table = Table(*columns, caption="bounds in ms, the largest in bold; shares of the lanes' time")
    for column in table.columns[1:]:
        column.justify = "right"
    rows = [*((str(n), region) for n, region in enumerate(found.blocks)), ("all", found.total)]
    for name, region in rows:
        table.add_row(
            name,
            str(len(region.units)),
            f"{region.seconds * 1e3:.3f}",
            *(_bound_cell(region, bound) for bound in Bound),
            f"{region.ratio:.2f}",
            f"{region.busy:.0%}",
            f"{region.waiting:.0%}",
            f"{region.launching:.0%}",
            end_section=name == str(len(found.blocks) - 1),
        )
    out.print(table)
    out.print(_hot_table(found))
    _print_advice(found)


def _bound_cell(region: Region, bound: Any) -> str:
    seconds = region.bounds.get(bound)
    text = "-" if seconds is None else f"{seconds * 1e3:.3f}"
    return f"[bold]{text}[/bold]" if bound is region.bound else text


def _hot_table(found: Explanation) -> Table:
    table = Table("most time", "ms", "share", "GFLOP/s", "of peak", "GB/s")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in found.hot:
        count = len(row.units)
        speed = row.flops_per_second
        table.add_row(
            escape(found.names[row.units[0]]) + (f" x {count}" if count > 1 else ""),
            f"{row.seconds * 1e3:.3f}",
            f"{row.share:.0%}",
            "-" if speed is None else f"{speed / 1e9:.0f}",
            "-" if speed is None else f"{speed / found.peaks.flops:.0%}",
            f"{row.bytes_per_second / 1e9:.0f}",
        )
    return table


def _print_advice(found: Explanation) -> None:
    """Of the program, and of the blocks that matter and differ from it."""
    out = console()
    if found.disturbance > _DISTURBED or found.preemptions > _PREEMPTED:
        out.print(
            "[yellow]something else keeps this machine busy: lanes were stopped "
            f"{found.preemptions:.1f} times a run, and half of the runs took "
            f"{found.disturbance:.1f} times as long as the fastest, or longer. What follows may be "
            "about that: repeat it when nothing else runs, or with a larger --repeat[/yellow]"
        )
    overall, *advice = found.advice
    out.print(f"[bold]{escape(overall)}[/bold]")
    said = {overall}
    slowest = sorted(
        zip(found.blocks, advice, range(len(advice)), strict=True), key=lambda b: -b[0].seconds
    )
    for region, sentence, number in slowest[:3]:
        if sentence not in said:
            share = region.seconds / sum(block.seconds for block in found.blocks)
            out.print(f"block {number} ({share:.0%} of the time): {escape(sentence)}")
