"""``tvm-ios info``: what an executable is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Reporting, console, print_json, reports_errors
from tvm_ios.cli.options.executables import refuse_models
from tvm_ios.cli.tables.deployed import entry_table
from tvm_ios.cli.tables.ranges import schedule_texts
from tvm_ios.deployment.registry import is_deployment, read_registry
from tvm_ios.files.byte_sizes import kib
from tvm_ios.schedule.named_kernels import kernels_text

if TYPE_CHECKING:
    from runtime_ext.execution.package_summary import PackageSummary

PAGE = HelpPage(("tvm-ios info out/", "tvm-ios info app/"), "`tvm-ios run` runs it.")


@reports_errors
def info(
    executable: Annotated[Path, typer.Argument(help="What `tvm-ios optimize -o` wrote.")],
    reporting: Reporting,
) -> None:
    """Say what an executable is: inputs, outputs, target, lanes, versions, files.

    It need not be one of this machine: where it cannot run here, the last line says why. Of a
    deployment, its programs.
    """
    from runtime_ext.execution.package_summary import summarise_package

    refuse_models(executable)
    if is_deployment(executable):
        registry = read_registry(executable)
        if reporting.as_json:
            entries = [entry.to_json() for entry in registry.entries]
            print_json({"model": registry.model, "entries": entries})
        else:
            console().print(entry_table(registry.model, registry.entries))
        return
    summary = summarise_package(executable)
    if reporting.as_json:
        print_json(_json(summary))
    else:
        _print(summary)


def _json(summary: PackageSummary) -> dict[str, Any]:
    meta = summary.meta
    notes, least = meta["notes"], summary.least_arena_bytes
    return {
        "model": notes.get("model"),
        "kept": notes.get("kept"),
        **({"schedules": schedules} if (schedules := notes.get("schedules")) else {}),
        "runtime": meta.get("runtime"),
        "reference": notes.get("reference"),
        "precision": notes.get("precision"),
        "named_kernels": summary.named_kernels,
        "latency_ms": {row["policy"]: row["latency"] * 1e3 for row in notes.get("policies", ())},
        "inputs": summary.inputs,
        "outputs": summary.outputs,
        "target": meta.get("target"),
        "arch": meta.get("arch"),
        "machine": meta["machine"],
        "features": meta["features"],
        "versions": meta["versions"],
        "lanes": summary.lanes,
        "launches": summary.launches,
        "kernels": summary.kernels,
        "arena_bytes": summary.arena_bytes,
        **({} if least is None else {"least_arena_bytes": least}),
        "tail": meta.get("tail"),
        "files": summary.files,
        "problem": summary.problem,
    }


def _print(summary: PackageSummary) -> None:
    data, out = _json(summary), console()
    table = Table("", "name", "shape", "type", title=escape(str(summary.path)))
    for kind in ("input", "output"):
        for port in data[f"{kind}s"]:
            shape = "x".join(map(str, port["shape"]))
            table.add_row(kind, escape(port["name"]), shape, port["dtype"])
    out.print(table)
    facts = {
        "model": data["model"],
        "policy": data["kept"],
        "schedules": "\n".join(schedule_texts(data.get("schedules", ()))),
        "runtime": data["runtime"],
        "latency where it was made": _latencies(data["latency_ms"]),
        "compared with": data["reference"],
        "precision": data["precision"],
        "kernels of a name": kernels_text(data["named_kernels"]),
        "target": data["target"],
        "machine": data["machine"],
        "CPU features": ", ".join(data["features"]),
        "made with": ", ".join(f"{name} {version}" for name, version in data["versions"].items()),
        "lanes": data["lanes"],
        "launches a run": data["launches"],
        "kernels": data["kernels"],
        "arena": _arena(summary),
        "ends with": data["tail"],
        "files": ", ".join(f"{name} {kib(size)} KiB" for name, size in data["files"].items()),
    }
    rows = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        if value:
            rows.add_row(name, escape(str(value)))
    out.print(rows)
    out.print(
        "it runs on this machine"
        if summary.problem is None
        else f"[yellow]it does not run on this machine: {escape(summary.problem)}[/yellow]"
    )


def _arena(summary: PackageSummary) -> str | None:
    most, least = summary.arena_bytes, summary.least_arena_bytes
    if not most:
        return None
    return f"{kib(most)} KiB" if least is None else f"{kib(least)} to {kib(most)} KiB by the shape"


def _latencies(latency: dict[str, float]) -> str:
    return ", ".join(f"{policy} {value:.3f} ms" for policy, value in latency.items())
