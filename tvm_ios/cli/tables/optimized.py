"""What optimising a model came to, as tables or JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import console, counted, left_out_text, print_json
from tvm_ios.contest.verdict import TVM
from tvm_ios.files.byte_sizes import size_text

if TYPE_CHECKING:
    from tvm_ios.api.fallback import Faster
    from tvm_ios.api.optimized import Compiled, Optimized
    from tvm_ios.contest.pairs import PairedRatio
    from tvm_ios.contest.verdict import PolicyResult
    from tvm_ios.program.arena.planner import PlannedMemory

#: Parts of the work, where they have other names than in JSON.
_PARTS = {"import": "read", "tvm": "TVM's own"}
#: Shorter parts are none when they are printed.
_SHOWN = 0.05


def print_optimized(done: Optimized, as_json: bool, fleet: dict[str, Any]) -> None:
    """Print what was measured and kept; ``fleet`` is what JSON says of one besides."""
    if as_json:
        print_json({**_json(done), **fleet})
        return
    out = console()
    out.print(
        f"[bold]{escape(done.model)}[/bold]: {counted(done.operators, 'operator')} in "
        f"{counted(done.units, 'unit')}, {counted(done.blocks, 'block')}"
        + (f" ({done.blocks_searched} different)" if done.blocks_searched else "")
    )
    ended = "" if done.complete else " (ended before the proof)"
    out.print(
        f"search {done.seconds['search']:.1f} s: {counted(done.stages_measured, 'stage')} measured "
        + (f"now, {done.candidates} would be in a full search" if done.candidates else "now")
        + f"{ended}; "
        + ", ".join(
            f"{_PARTS.get(part, part)} {seconds:.1f} s"
            for part, seconds in done.seconds.items()
            if part != "search" and seconds >= _SHOWN
        )
    )
    if done.left_out:
        out.print(left_out_text(done.left_out))
    for note in done.notes:
        out.print(f"[yellow]{escape(note)}[/yellow]")
    if done.tuned is not None:
        log = done.tuned
        out.print(
            f"tuning log: {log.found} kernels found, {log.used} used, {log.missing} not in it"
        )
    table = Table(
        "policy",
        "stages",
        "latency",
        "to sequential",
        "largest error",
        "gained, or why not",
        caption="not verified: --verify off"
        if done.reference is None
        else f"errors: to the outputs of {done.reference}",
    )
    kept = done.kept if done.faster is None else done.faster.runtime
    for row in sorted(done.policies, key=lambda row: row.policy == TVM):
        style = "bold green" if row.policy == kept else ""
        table.add_row(
            row.policy,
            "" if row.stages is None else str(row.stages),
            f"{row.latency * 1e3:.3f} ms",
            f"{_to_sequential(done, row):.3f}",
            "" if row.max_rel_error is None else f"{row.max_rel_error:.1e}",
            escape(done.outcomes[row.policy]),
            style=style,
        )
    measured = {row.policy for row in done.policies}
    for policy, outcome in done.outcomes.items():
        if policy not in measured:
            table.add_row(policy, "", "", "", "", escape(outcome), style="dim")
    out.print(table)
    sequential, tvm = done.confirmed["sequential"], done.confirmed.get("tvm")
    compared = (
        "no ratio to it has a 95 % interval below one"
        if done.kept == "sequential"
        else f"in {sequential.pairs} pairs of runs in fresh processes {sequential.median:.3f} of "
        f"sequential ({sequential.low:.3f} to {sequential.high:.3f})"
    )
    verb = "kept" if done.faster is None else "fastest of ours"
    out.print(f"{verb} [bold green]{done.kept}[/bold green]: {compared}" + _beside_tvm(tvm))
    out.print(_memory_text(done.memory))
    if done.faster is not None:
        out.print(f"[yellow]{_faster_text(done.faster)}[/yellow]")
    elif tvm is not None and tvm.high >= 1:
        out.print("[yellow]TVM's own build is as fast on this model[/yellow]")
    out.print(escape(f"executable: {done.executable}  (tvm-ios run {done.executable})"))


def _to_sequential(done: Optimized, row: PolicyResult) -> float:
    """Return a program's ratio to the sequential one; the kept one's is that of fresh processes."""
    return done.confirmed["sequential"].median if row.policy == done.kept else row.ratio


def print_compiled(done: Compiled, as_json: bool) -> None:
    """Print what is expected of what was compiled, and that nothing was measured."""
    rows = [
        {"policy": policy, "expected_ms": seconds * 1e3, "stages": done.stages[policy]}
        for policy, seconds in done.expected.items()
    ]
    if as_json:
        print_json(
            {
                "model": done.model,
                "policies": rows,
                "kept": done.kept,
                "cost": done.cost,
                "target": done.target,
                "not_measured": done.not_measured,
                "notes": done.notes,
                "memory": _memory_json(done.memory),
                "executable": str(done.executable),
            }
        )
        return
    out = console()
    table = Table("policy", "stages", "expected", title=f"{escape(done.model)} for {done.target}")
    for row in rows:
        style = "bold green" if row["policy"] == done.kept else ""
        table.add_row(
            str(row["policy"]), str(row["stages"]), f"{row['expected_ms']:.3f} ms", style=style
        )
    out.print(table)
    out.print(_memory_text(done.memory))
    for note in (*done.notes, done.not_measured):
        out.print(f"[yellow]{escape(note)}[/yellow]")
    out.print(escape(f"executable: {done.executable}"))


def _json(done: Optimized) -> dict[str, Any]:
    return {
        "model": done.model,
        "policies": [result.to_json() for result in done.policies],
        "outcomes": dict(done.outcomes),
        "kept": done.kept if done.faster is None else done.faster.runtime,
        "fastest": done.kept,
        "faster": None if done.faster is None else asdict(done.faster),
        "confirmed": {
            name: {"ratio": ratio.median, **asdict(ratio)} for name, ratio in done.confirmed.items()
        },
        "search": {
            "operators": done.operators,
            "units": done.units,
            "blocks": done.blocks,
            "blocks_searched": done.blocks_searched,
            "states": done.states,
            "transitions": done.transitions,
            "candidates": done.candidates,
            "stages_measured": done.stages_measured,
            "complete": done.complete,
            "reference": done.reference,
            "left_out": done.left_out,
            "tuned": None if done.tuned is None else asdict(done.tuned),
        },
        "memory": _memory_json(done.memory),
        "notes": done.notes,
        "seconds": done.seconds,
        "executable": str(done.executable),
    }


def _faster_text(faster: Faster) -> str:
    from runtime_ext.execution.foreign_build import RUNTIMES

    title, ratio = RUNTIMES[faster.runtime].title, faster.ratio
    return (
        f"saved instead is {title}, which is faster: in {ratio.pairs} pairs of runs in fresh "
        f"processes ours took {ratio.median:.3f} of its time ({ratio.low:.3f} to "
        f"{ratio.high:.3f})"
    )


def _beside_tvm(ratio: PairedRatio | None) -> str:
    if ratio is None:
        return ""
    return f", {ratio.median:.3f} of TVM's own ({ratio.low:.3f} to {ratio.high:.3f})"


def _memory_json(memory: PlannedMemory) -> dict[str, Any]:
    return {
        "arena_bytes": memory.plan.nbytes,
        "bound_bytes": memory.bound,
        "unshared_bytes": memory.unshared,
        "proven": memory.proven,
    }


def _memory_text(memory: PlannedMemory) -> str:
    if not memory.unshared:
        return "memory: no tensors lie between units"
    sizes = (memory.plan.nbytes, memory.unshared, memory.bound)
    arena, unshared, bound = map(size_text, sizes)
    return (
        f"memory: tensors between units share {arena}, apart they take {unshared}; lower bound "
        f"{bound}, {'proven optimal' if memory.proven else f'ratio {memory.ratio:.3f}'}"
    )
