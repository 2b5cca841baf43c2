"""Searches, verifies and counts launches of a bundle, in a process where a driver stands in.

Emulated kernels take too long to be timed: a stage takes as long as it has launches. What NVRTC
would compile is compiled for the CPU, for a GPU of one multiprocessor.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

MODE, FOLDER = sys.argv[1], Path(sys.argv[2])
sys.path.insert(0, str(FOLDER / "packages"))

import runtime_ext.bundle.rtasks  # noqa: E402
import runtime_ext.cuda.machine_code.cubin_cache  # noqa: E402  # noqa: E402
import runtime_ext.cuda.measure  # noqa: E402
from runtime_ext.bundle.backend import open_bundle  # noqa: E402
from runtime_ext.bundle.compare import reference_of  # noqa: E402
from runtime_ext.bundle.contents import read_bundle  # noqa: E402
from runtime_ext.bundle.programs import bundled_program  # noqa: E402
from runtime_ext.bundle.search import bundle_search, limits_of, search_policies  # noqa: E402
from runtime_ext.cuda.machine_code.nvrtc import Cubin  # noqa: E402
from runtime_ext.cuda.persistent.stage_fuser import GpuStageFuser  # noqa: E402
from tvm_ios.contest.contest import verified  # noqa: E402
from tvm_ios.errors import UserError  # noqa: E402
from tvm_ios.search import Search  # noqa: E402

SHIM = Path(__file__).with_name("veu_shim.h")
POLICIES = ("greedy", "ios-merge", "ios-both")
MORE = {
    "float32": ("ios-holistic",),
    "float16": (),
    "no compiler": ("ios-holistic", "rammer"),
}


def launches(program: Any) -> int:
    return sum(hasattr(item, "kernel") for lane in program.lanes for item in lane)


def compile_for_cpu(source: str, arch: str) -> Cubin:
    """The kernel, called as the stand-in calls kernels; its blocks are run in random turns."""
    header = re.search(r"(rprogram_\w+)\(([^()]*)\) {", source)
    bounds = re.search(r"__launch_bounds__\((\d+)", source)
    assert header is not None
    assert bounds is not None
    entry, given = header.groups()
    types = [p.rsplit(" ", 1)[0].replace("__restrict__", "") for p in given.split(", ")]
    arguments = ", ".join(f"({kind})given[{i}]" for i, kind in enumerate(types))
    resident = "grid[0]" if " table" in given else "2"
    text = f"""#define TVM_IOS_PRELUDE
#define TVM_IOS_BARRIERS
#include "{SHIM}"
#define {entry} kernel_of_{entry}
{source}
#undef {entry}
static void** given;
static void call() {{ kernel_of_{entry}({arguments}); }}
extern "C" int {entry}_parameters = {len(types)};
extern "C" int {entry}(void** buffers, const unsigned* grid) {{
  given = buffers;
  return run_blocks(grid[0], {bounds.group(1)}, {resident}, 0, call) ? 1 : 0;
}}"""
    file = FOLDER / f"{entry}.cc"
    file.write_text(text)
    library = file.with_suffix(".so")
    command = [os.environ.get("CXX", "g++"), "-std=c++17", "-O1", "-w", "-fpermissive"]
    command += ["-shared", "-fPIC", "-o", str(library), str(file)]
    subprocess.run(command, check=True)
    return Cubin(library.read_bytes(), 32, 0, 0)


def main() -> None:
    assert "runtime_ext.execution.native_executor" not in sys.modules
    measure: Any = runtime_ext.cuda.measure
    measure.time_program = lambda program, *_, **__: [1e-3 * launches(program)]
    cubins: Any = runtime_ext.cuda.machine_code.cubin_cache
    cubins.compile_cubin = compile_for_cpu
    rtasks: Any = runtime_ext.bundle.rtasks
    rtasks.has_compiler = lambda: MODE != "no compiler"
    bundle = read_bundle(FOLDER)
    assert bundle.rtasks is not None
    if MODE != "no compiler":
        # What was compiled ahead is for a GPU.
        bundle = replace(bundle, rtasks=replace(bundle.rtasks, fused={}))
    backend = open_bundle(bundle, None, FOLDER / "compiled")
    fuser: Any = backend.compiler.fuser
    device = replace(fuser._device, processors=1)
    backend.compiler.fuser = GpuStageFuser(fuser._library, device, fuser._only)
    limits = limits_of(bundle, 26, None)
    search = bundle_search(bundle, backend, FOLDER, limits, lambda *_: None)
    results, skipped = search_policies(search.search, (*POLICIES, *MORE[MODE]), FOLDER)
    if MODE == "float32":
        # Nothing is measured: by the simulation all is one rProgram.
        simulated = Search(search.search.problem, search.search.costs, limits_of(bundle, 0, None))
        results = {**results, **search_policies(simulated, ("rammer",), FOLDER)[0]}
    errors: dict[str, float] = {}
    counts: dict[str, int] = {}
    reference = reference_of(bundle)
    for policy, result in results.items():
        program = bundled_program(bundle, backend, search.timer, result.schedule)
        counts[policy] = launches(program.program)
        if MODE != "no compiler":
            errors[policy] = verified(policy, backend.session(program), reference)[1]
    assert "tvm_ffi" not in sys.modules, "a GPU needs no tvm-ffi"
    assert "tvm" not in sys.modules
    used = {p: [s.strategy.value for s in result.schedule.stages] for p, result in results.items()}
    refused, without = "", 0
    if MODE == "float16":
        alone = open_bundle(bundle, None, FOLDER / "compiled", cudnn=False)
        timer = bundle_search(bundle, alone, FOLDER, limits, lambda *_: None).timer
        try:
            bundled_program(bundle, alone, timer, results["sequential"].schedule)
        except UserError as error:
            refused = str(error)
        without = sum(bool(timer.forms((u,)).library) for u in range(len(bundle.graph)))
    summary = {
        "library_units": {p: len(result.schedule.kernels) for p, result in results.items()},
        "refused": refused,
        "without": without,
        "errors": errors,
        "merged": any("merge" in strategies for strategies in used.values()),
        "co_scheduled": {p: strategies.count("co_schedule") for p, strategies in used.items()},
        "launches": counts,
        "skipped": skipped,
        "unfused": search.timer.unfused,
    }
    print(json.dumps(summary))


main()
