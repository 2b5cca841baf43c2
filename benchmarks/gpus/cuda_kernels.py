"""The CUDA kernels of networks: threads, registers, shared memory, occupancy. Needs no GPU.

Every unit of every network is compiled in its usual form. Occupancy and waves are computed from
the limits of the device file of the architecture; nothing runs. A second table has how much of the
GPU contractions, means, pooling and
depthwise convolutions occupy, cut as they were before and as they are, and how long they take
by the estimate that cuts them; ``--estimate`` makes this one alone, for any described GPU.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from rich.table import Table

from benchmarks.gpus.fill.occupancy import fill, totals
from benchmarks.report import write_result
from relay_passes.load import load_model
from relay_passes.pipeline import prepare
from runtime_ext.cuda.compiler import CudaKernelCompiler
from runtime_ext.kernels.generic import Generic
from runtime_ext.machine.this_machine import cache_folder
from runtime_ext.units.in_place import arrange
from runtime_ext.units.unit import UnitSource
from tvm_ios import zoo
from tvm_ios.cli.frame.output import console
from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu


def sources_of(network: str) -> dict[str, UnitSource]:
    prepared = prepare(load_model(network).module, network)
    graph = prepared.units
    functions = [prepared.outliner.unit(u) for u in range(len(graph))]
    memory = arrange(graph, [unit.function for unit in functions])
    return {
        str(i): memory.source(unit.function, unit.data, unit.outputs)
        for i, unit in enumerate(functions)
    }


def measure(
    network: str, sources: dict[str, UnitSource], compiler: CudaKernelCompiler
) -> dict[str, Any]:
    begin = time.perf_counter()
    units = compiler.compile(sources)
    seconds = time.perf_counter() - begin
    calls = [call.symbol for unit in units.values() for call in unit.code.calls]
    rows = [row(symbol, compiler, calls.count(symbol)) for symbol in dict.fromkeys(calls)]
    return {
        "model": network,
        "units": len(sources),
        "launches": len(calls),
        "compile_seconds": seconds,
        "kernels": rows,
    }


def row(symbol: str, compiler: CudaKernelCompiler, launches: int) -> dict[str, Any]:
    kernel, gpu = compiler.kernel(symbol), compiler.gpu
    resident = gpu.blocks_per_processor(kernel.footprint)
    workload = compiler.workload(symbol)
    kind = workload.name if isinstance(workload, Generic) else type(workload).__name__
    return {
        "kernel": symbol,
        "kind": kind,
        "launches": launches,
        "grid": kernel.grid,
        "block": kernel.block,
        "registers": kernel.registers,
        "local_bytes": kernel.local_bytes,
        "shared_bytes": kernel.shared_bytes,
        "blocks_per_processor": resident,
        "waves": kernel.blocks / max(1, gpu.processors * resident),
    }


def summary(network: dict[str, Any]) -> dict[str, Any]:
    """A network in a line, and its kernels with arrays or spills in local memory."""
    kernels = network["kernels"]
    return {
        "model": network["model"],
        "units": network["units"],
        "launches": network["launches"],
        "kernels": len(kernels),
        "most_registers": max(r["registers"] for r in kernels),
        "most_shared_bytes": max(r["shared_bytes"] for r in kernels),
        "fewest_blocks_per_processor": min(r["blocks_per_processor"] for r in kernels),
        "launches_below_one_wave": sum(r["launches"] for r in kernels if r["waves"] < 1),
        "in_local_memory": {r["kind"]: r["local_bytes"] for r in kernels if r["local_bytes"]},
    }


def show(network: dict[str, Any], every: bool) -> None:
    title = f"{network['model']}: {network['units']} units, {network['launches']} launches"
    table = Table(title=title)
    for heading in (
        "kernel", "launches", "blocks", "threads", "registers", "local", "shared", "blocks a SM",
        "waves",
    ):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "kernel" else "right")
    rows = sorted(network["kernels"], key=lambda r: (r["kind"], -r["waves"]))
    for r in rows if every else []:
        (x, y, z), (a, b, c) = r["grid"], r["block"]
        table.add_row(
            r["kind"],
            str(r["launches"]),
            str(x * y * z),
            str(a * b * c),
            str(r["registers"]),
            str(r["local_bytes"]),
            str(r["shared_bytes"]),
            str(r["blocks_per_processor"]),
            f"{r['waves']:.2f}",
        )
    kernels = network["kernels"]
    table.add_row(
        f"{len(kernels)} kernels",
        str(network["launches"]),
        "",
        "",
        f"≤ {max(r['registers'] for r in kernels)}",
        f"≤ {max(r['local_bytes'] for r in kernels)}",
        f"≤ {max(r['shared_bytes'] for r in kernels)}",
        f"≥ {min(r['blocks_per_processor'] for r in kernels)}",
        "",
    )
    console().print(table)


def show_fill_of(network: dict[str, Any]) -> None:
    table = Table(title=f"{network['model']}: its contractions, means and windows, before → now")
    for heading in ("kernel", "times", "blocks", "SMs", "waves", "estimate µs"):
        table.add_column(heading, justify="left" if heading == "kernel" else "right")
    for row in network["rows"]:
        cells = [
            " → ".join(
                " + ".join(f"{x[field]:g}" for x in row[when]) for when in ("before", "after")
            )
            for field in ("blocks", "processors", "waves", "microseconds")
        ]
        table.add_row(row["kind"], str(row["count"]), *cells)
    console().print(table)


def show_fill(networks: list[dict[str, Any]], gpu: TargetGpu) -> None:
    table = Table(
        title=f"Contractions, means and windows on {gpu.processors} multiprocessors, before → now"
    )
    for heading in (
        "network", "launches", "median blocks", "median SMs", "median waves", "on < 1/10 of SMs",
        "estimate µs", "with launches µs",
    ):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "network" else "right")
    for network in networks:
        before, after = network["fill"]["before"], network["fill"]["after"]
        pairs = zip(before.values(), after.values(), strict=True)
        table.add_row(network["model"], *(f"{b:g} → {a:g}" for b, a in pairs))
    console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="all of the zoo by default")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--every", action="store_true", help="show every kernel")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results")
    parser.add_argument("--estimate", action="store_true", help="compile nothing")
    options = parser.parse_args()
    compiler = CudaKernelCompiler(options.arch, cache_folder() / "cuda-kernels", options.precision)
    networks: list[dict[str, Any]] = []
    for network in options.networks or zoo.names():
        sources = sources_of(network)
        rows = fill(sources.values(), compiler.gpu, options.precision)
        found = {"model": network, "fill": totals(rows, compiler.gpu), "rows": rows}
        if not options.estimate:
            found |= measure(network, sources, compiler)
            show(found, options.every)
        if options.every:
            show_fill_of(found)
        networks.append(found)
    show_fill(networks, compiler.gpu)
    conditions = {"arch": options.arch, "precision": options.precision}
    if options.write:
        rows = [{"model": n["model"], **n["fill"], "kernels": n["rows"]} for n in networks]
        write_result("cuda_fill", {**conditions, "networks": rows})
    if options.write and not options.estimate:
        rows = list(map(summary, networks))
        write_result("cuda_kernels", {**conditions, "networks": rows})


if __name__ == "__main__":
    main()
