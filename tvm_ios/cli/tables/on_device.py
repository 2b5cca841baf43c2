"""What a timing device said of a model's programs, as a table or JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import console, print_json

if TYPE_CHECKING:
    from tvm_ios.api.device_results import OnDevice


def print_on_device(done: OnDevice, as_json: bool) -> None:
    """Print what was timed on a device and kept."""
    if as_json:
        print_json(on_device_json(done))
        return
    out = console()
    table = Table(
        "policy",
        "stages",
        "launches",
        "latency",
        "to sequential",
        "largest error",
        title=f"{escape(done.model)} on {escape(done.device)}",
        caption=None if done.reference is None else f"errors: to the outputs of {done.reference}",
    )
    for row in done.policies:
        table.add_row(
            row.policy,
            str(row.stages),
            str(row.launches),
            f"{row.latency * 1e6:.1f} µs",
            f"{row.ratio:.3f}",
            "" if row.max_rel_error is None else f"{row.max_rel_error:.1e}",
            style="bold green" if row.policy == done.kept else "",
        )
    out.print(table)
    for policy, reason in done.skipped.items():
        out.print(f"[yellow]{policy}: skipped: {escape(reason)}[/yellow]")
    for note in (*done.notes, *filter(None, (done.not_verified,))):
        out.print(f"[yellow]{escape(note)}[/yellow]")
    by = f"{done.stages_measured} stages timed" if done.cost == "measured" else f"by {done.cost}"
    out.print(f"kept [bold green]{done.kept}[/bold green] (search: {escape(by)})")
    if done.executable is not None:
        out.print(escape(f"schedule: {done.schedule}, executable: {done.executable}"))


def on_device_json(done: OnDevice) -> dict[str, Any]:
    """Plain data of what was timed on a device."""
    return {
        "model": done.model,
        "device": done.device,
        "cost": done.cost,
        "policies": [
            {**(row := asdict(policy)), "latency_ms": row.pop("latency") * 1e3}
            for policy in done.policies
        ],
        "kept": done.kept,
        "verified": done.reference is not None,
        "reference": done.reference,
        "not_verified": done.not_verified,
        "skipped": dict(done.skipped),
        "stages_measured": done.stages_measured,
        "memory": {"arena_bytes": done.memory.plan.nbytes},
        "notes": list(done.notes),
        "executable": None if done.executable is None else str(done.executable),
        "schedule": None if done.schedule is None else str(done.schedule),
    }
