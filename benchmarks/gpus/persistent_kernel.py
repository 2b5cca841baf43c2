"""Blocks of networks as one persistent kernel each, compiled for a GPU; no GPU is needed.

Rammer's search places the rTasks of a block's CUDA kernels on the vEUs that the GPU is for them,
with estimated times of rTasks; the rProgram is then compiled.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from benchmarks.report import write_result
from relay_passes.load import load_model
from relay_passes.pipeline import prepare
from runtime_ext.cuda.compiler import CudaKernelCompiler
from runtime_ext.cuda.persistent.co_schedule import co_scheduled
from runtime_ext.cuda.persistent.stage_fuser import GpuStageFuser
from runtime_ext.machine.this_machine import cache_folder
from runtime_ext.units.in_place import arrange
from tvm_ios.cli.frame.output import console
from tvm_ios.costs.persistent import rkernel
from tvm_ios.devices.device import DeviceDescription, load_device
from tvm_ios.devices.occupancy import multiprocessor_of, resident_blocks
from tvm_ios.graph.blocks import cut_blocks
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.program.compiled_unit import CompiledUnit
from tvm_ios.rammer.rprogram import RProgram
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage, Strategy

NETWORKS = ("inception_v3", "nasnet_a")


def measure(network: str, device: DeviceDescription, precision: Any) -> dict[str, Any]:
    """What becomes of the network's block of the most units."""
    prepared = prepare(load_model(network).module, network)
    graph = prepared.units
    block = max(cut_blocks(graph), key=int.bit_count)
    units = tuple(bits(block))
    functions = {unit: prepared.outliner.unit(unit) for unit in range(len(graph))}
    memory = arrange(graph, [functions[unit].function for unit in range(len(graph))])
    of = multiprocessor_of(device)
    compiler = CudaKernelCompiler(of.arch, cache_folder() / "kernels", precision)
    begin = time.perf_counter()
    forms = compiler.compile_rkernels(
        {
            str(u): memory.source(functions[u].function, functions[u].data, functions[u].outputs)
            for u in units
        }
    )
    compiled = time.perf_counter() - begin
    begin = time.perf_counter()
    program = search(graph, units, forms, compiler, device)
    searched = time.perf_counter() - begin
    chosen = {u: forms[str(u)][program.kernels[u].name].code for u in units}
    begin = time.perf_counter()
    stage = co_scheduled(
        graph,
        Stage(Strategy.CO_SCHEDULE, (program.units,), placement=program.placement),
        chosen,
        compiler,
        device,
        memory.parts,
    )
    fused = stage.fused
    assert fused is not None
    kernel, table = fused.kernel, fused.table
    alone = [compiler.kernel(c.symbol) for unit in units for c in chosen[unit].calls]
    return {
        "network": network,
        "device": device.name,
        "precision": precision,
        "units": len(units),
        "kernels": len(alone),
        "distinct_kernels": len({k.symbol for k in alone}),
        "veus": len(program.clocks),
        "threads": kernel.threads,
        "registers": kernel.registers,
        "registers_alone": max(k.registers for k in alone),
        "local_bytes": kernel.local_bytes,
        "shared_bytes": kernel.shared_bytes,
        "shared_bytes_alone": max(k.shared_bytes for k in alone),
        "blocks_per_processor": resident_blocks(kernel.footprint, of),
        "rtasks": sum(k.blocks for k in alone),
        "steps": len(table.steps) if table else 0,
        "barriers": table.barriers if table else 0,
        "waits": len(table.waits) if table else 0,
        "polls": table.polls if table else 0,
        "cubin_bytes": len(fused.cubin),
        "seconds": {
            "kernels": compiled,
            "search": searched,
            "persistent": time.perf_counter() - begin,
        },
        "estimated_us": max(program.clocks) * 1e6,
    }


def search(
    graph: OpGraph,
    units: Sequence[int],
    forms: Mapping[str, Mapping[str, CompiledUnit]],
    compiler: CudaKernelCompiler,
    device: DeviceDescription,
) -> RProgram:
    """The rProgram, with estimated times, on as many vEUs as the kernels that it names leave."""
    fuser = GpuStageFuser(compiler, device)
    veus = fuser.lanes(form.code for u in units for form in forms[str(u)].values())

    def rkernels(unit: int) -> tuple[RKernel, ...]:
        flops = graph.operators[unit].flops
        symbols = {
            name: [call.symbol for call in form.code.calls]
            for name, form in forms[str(unit)].items()
        }
        return tuple(
            rkernel(name, compiler.estimates(of_form, flops), device, veus)
            for name, of_form in symbols.items()
        )

    return fuser.rprogram(graph, units, rkernels, lambda unit, name: forms[str(unit)][name].code)


def show(rows: list[dict[str, Any]]) -> None:
    """Print what was compiled, a column a block."""
    table = Table("", *(f"{row['network']} ({row['precision']})" for row in rows))
    for key in rows[0]:
        if key not in ("network", "precision", "seconds"):
            table.add_row(key.replace("_", " "), *(_text(row[key]) for row in rows))
    for key in rows[0]["seconds"]:
        table.add_row(f"seconds: {key}", *(_text(row["seconds"][key]) for row in rows))
    console().print(table)


def _text(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--device", default="h200", help="a GPU's device file")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results")
    given = parser.parse_args()
    device = load_device(given.device)
    rows = [measure(network, device, given.precision) for network in given.networks]
    show(rows)
    if given.write:
        write_result("persistent_kernel", rows)


if __name__ == "__main__":
    main()
