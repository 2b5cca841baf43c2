"""The result of optimising a model, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import console, counted, left_out_text
from tvm_ios.contest.verdict import TVM
from tvm_ios.files.byte_sizes import size_text

if TYPE_CHECKING:
    from tvm_ios.api.fallback import Faster
    from tvm_ios.api.result import Result
    from tvm_ios.api.served import Served
    from tvm_ios.contest.pairs import PairedRatio
    from tvm_ios.contest.verdict import PolicyResult
    from tvm_ios.program.arena.planner import PlannedMemory

#: Phases of the work whose names in JSON are not those in tables.
_PARTS = {"import": "read", "tvm": "TVM's own"}
#: Seconds; shorter phases are not printed.
_SHOWN = 0.05


def print_result(result: Result) -> None:
    """Print the size of the model, the programs that were compared, and the one that was saved."""
    out, size = console(), result.search
    out.print(
        f"[bold]{escape(result.model)}[/bold]: {counted(size.operators, 'operator')} in "
        f"{counted(size.units, 'unit')}, {counted(size.blocks, 'block')}"
        + (f" ({size.blocks_searched} different)" if size.blocks_searched else "")
    )
    out.print(_search_text(result))
    if size.left_out:
        out.print(left_out_text(size.left_out))
    for note in filter(None, (*result.notes, result.not_verified)):
        out.print(f"[yellow]{escape(note)}[/yellow]")
    if (log := size.tuned) is not None:
        out.print(
            f"tuning log: {log.found} kernels found, {log.used} used, {log.missing} not in it"
        )
    if result.served is not None:
        _print_served(result.served)
    else:
        out.print(_table(result))
        out.print(_kept_text(result))
    out.print(_memory_text(result.memory))
    tvm = result.confirmed.get(TVM)
    if result.faster is not None:
        out.print(f"[yellow]{_faster_text(result.faster)}[/yellow]")
    elif tvm is not None and tvm.high >= 1 and result.served is None:
        out.print("[yellow]TVM's own build is as fast on this model[/yellow]")
    if result.not_measured:
        out.print(f"[yellow]{escape(result.not_measured)}[/yellow]")
    if result.schedule is not None:
        out.print(escape(f"schedule: {result.schedule}"))
    if result.executable is not None:
        run = f"  (tvm-ios run {result.executable})" if result.timed_on == "here" else ""
        out.print(escape(f"executable: {result.executable}{run}"))


def _search_text(result: Result) -> str:
    size = result.search
    ended = "" if size.complete else " (ended before the proof)"
    by = counted(size.stages_measured, "stage") + " measured now"
    if size.candidates:
        by += f", {size.candidates} would be in a full search"
    if result.cost is not None:
        by = f"by {result.cost}"
    phases = [
        f"{_PARTS.get(part, part)} {seconds:.1f} s"
        for part, seconds in result.seconds.items()
        if part != "search" and seconds >= _SHOWN
    ]
    return escape(f"search {result.seconds['search']:.1f} s: {by}{ended}; {', '.join(phases)}")


def _table(result: Result) -> Table:
    on_device = any(row.launches is not None for row in result.policies)
    where = f"for {result.target}" if result.timed_on is None else f"on {result.timed_on}"
    caption = None if result.not_verified or result.not_measured else "not verified: --verify off"
    if result.reference is not None:
        caption = f"errors: to the outputs of {result.reference}"
    table = Table(
        "policy",
        "stages",
        *(["launches"] if on_device else []),
        "latency" if result.timed_on else "expected",
        "to sequential",
        "largest error",
        "gained, or why not",
        title=None if result.timed_on == "here" else escape(f"{result.model} {where}"),
        caption=caption,
    )
    launches = ("",) if on_device else ()
    for row in sorted(result.policies, key=lambda row: row.policy == TVM):
        table.add_row(
            row.policy,
            "" if row.stages is None else str(row.stages),
            *(str(row.launches) for _ in launches),
            f"{row.latency * 1e6:.1f} µs" if on_device else f"{row.latency * 1e3:.3f} ms",
            _to_sequential(result, row),
            "" if row.max_rel_error is None else f"{row.max_rel_error:.1e}",
            escape(result.outcomes[row.policy]),
            style="bold green" if row.policy == result.saved else "",
        )
    compared = {row.policy for row in result.policies}
    for policy, outcome in result.outcomes.items():
        if policy not in compared:
            table.add_row(policy, "", *launches, "", "", "", escape(outcome), style="dim")
    return table


def _to_sequential(result: Result, row: PolicyResult) -> str:
    """Return a program's ratio to the sequential one as text, from fresh processes if known."""
    confirmed = result.confirmed.get("sequential")
    ratio = confirmed.median if confirmed and row.policy == result.kept else row.ratio
    return "" if ratio is None else f"{ratio:.3f}"


def _kept_text(result: Result) -> str:
    verb = "kept" if result.faster is None else "fastest of ours"
    text = f"{verb} [bold green]{result.kept}[/bold green]"
    sequential, tvm = result.confirmed.get("sequential"), result.confirmed.get(TVM)
    if sequential is None:
        return text
    if result.kept == "sequential":
        text += ": no ratio to it has a 95 % interval below one"
    else:
        text += f": {_in_fresh_processes(sequential, 'runs')} of sequential {_interval(sequential)}"
    return text if tvm is None else f"{text}, {tvm.median:.3f} of TVM's own {_interval(tvm)}"


def _in_fresh_processes(ratio: PairedRatio, samples: str) -> str:
    return f"in {ratio.pairs} pairs of {samples} in fresh processes {ratio.median:.3f}"


def _interval(ratio: PairedRatio) -> str:
    return f"({ratio.low:.3f} to {ratio.high:.3f})"


def _print_served(served: Served) -> None:
    """Print the measured ways to serve many requests."""
    table = Table(
        *("way", "policy", "lanes x workers", "requests/s"),
        *("half within", "99 % within", "to in-turn"),
        caption=f"{served.in_flight} requests in flight; times of requests include waiting",
    )
    for way in served.ways:
        table.add_row(
            way.way,
            way.policy,
            f"{way.lanes} x {way.workers}",
            f"{way.requests_a_second:.1f}",
            f"{way.p50 * 1e3:.2f} ms",
            f"{way.p99 * 1e3:.2f} ms",
            f"{way.ratio:.3f}",
            style="bold green" if way.way == served.kept else "",
        )
    console().print(table)
    compared = "no other way is surely faster"
    if (ratio := served.confirmed) is not None:
        compared = (
            f"{_in_fresh_processes(ratio, 'samples')} of the time of one request after another "
            f"{_interval(ratio)}"
        )
    console().print(f"kept [bold green]{served.kept}[/bold green]: {compared}")


def _faster_text(faster: Faster) -> str:
    from runtime_ext.execution.foreign_build import RUNTIMES

    title, ratio = RUNTIMES[faster.runtime].title, faster.ratio
    return (
        f"saved instead is {title}, which is faster: in {ratio.pairs} pairs of runs in fresh "
        f"processes ours took {ratio.median:.3f} of its time {_interval(ratio)}"
    )


def _memory_text(memory: PlannedMemory) -> str:
    if not memory.unshared:
        return "memory: no tensors lie between units"
    sizes = (memory.plan.nbytes, memory.unshared, memory.bound)
    arena, unshared, bound = map(size_text, sizes)
    return (
        f"memory: tensors between units share {arena}, apart they take {unshared}; lower bound "
        f"{bound}, {'proven optimal' if memory.proven else f'ratio {memory.ratio:.3f}'}"
    )
