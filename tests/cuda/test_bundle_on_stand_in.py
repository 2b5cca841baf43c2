"""A bundle for a GPU runs where only the driver is a stand-in and its kernels are emulated.

Nothing else is different: the kernels are those of the bundle, as CUDA C++ compiled for the CPU,
and the stand-in runs what streams and events allow in random order.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cpp_compiler import compiler
from emulator import _HEADER, _for_cpu
from test_on_stand_in import build_stand_in

from relay_passes.bundle import redrawn, write_bundle
from relay_passes.load import load_model
from relay_passes.measured import MeasuredSearch
from relay_passes.measuring_options import MeasuringOptions
from relay_passes.prepare import prepare
from runtime_ext.bundle.contents import digest, read_bundle
from runtime_ext.cuda.compiler import CudaKernelCompiler
from runtime_ext.cuda.launchable import Launchable, write_kernels
from tvm_ios.search.endings import Pruning

pytest.importorskip("cuda.bindings", reason="needs cuda-bindings: pip install .[cuda]")


def emulate(search: MeasuredSearch, path: Path, room: Path) -> None:
    """Put kernels that the stand-in can run in the place of a bundle's cubins."""
    compiled = search.compiler
    assert isinstance(compiled, CudaKernelCompiler)
    kernels = {s: compiled.kernel(s) for s in read_bundle(path).forms.symbols}
    source, library = room / "kernels.cc", room / "kernels.so"
    different = {kernel.entry: kernel for kernel in kernels.values()}.values()
    text = [f'#include "{_HEADER}"', *map(_for_cpu, different)]
    for kernel in different:
        block = ", ".join(map(str, kernel.block))
        text.append(
            f"""
extern "C" int {kernel.entry}_emulated_parameters = {len(kernel.parameters)};
extern "C" int {kernel.entry}_emulated(void** buffers, const unsigned* grid) {{
  const int extents[] = {{(int)grid[0], (int)grid[1], (int)grid[2]}}, block[] = {{{block}}};
  return run_{kernel.entry}(buffers, extents, block, 0) ? 0 : 1;
}}"""
        )
    source.write_text("\n".join(text))
    command = [compiler(), "-std=c++17", "-O1", "-w", "-fpermissive", "-shared", "-fPIC"]
    built = subprocess.run(
        [*command, "-o", str(library), str(source)], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr[:3000]
    code = library.read_bytes()
    made = {
        symbol: Launchable(f"{k.entry}_emulated", k.grid, k.block, k.dynamic_shared_bytes, code)
        for symbol, k in kernels.items()
    }
    write_kernels(path / "kernels.safetensors", "sm_90", made)
    about = json.loads((path / "bundle.json").read_text())
    about["files"]["kernels.safetensors"] = digest(path / "kernels.safetensors")
    (path / "bundle.json").write_text(json.dumps(about))


@pytest.mark.slow
def test_search_verify_and_contest(cache: Path, tmp_path: Path) -> None:
    loaded, drawn = redrawn(load_model("inception_block"), 0)
    prepared = prepare(loaded.module, loaded.name)
    options = MeasuringOptions(
        lanes=3, cache=cache, target={"kind": "cuda", "arch": "sm_90"}, pruning=Pruning(1, 3)
    )
    search = MeasuredSearch(prepared, options)
    path = tmp_path / "block"
    write_bundle(
        loaded,
        search,
        path,
        policies=("greedy", "ios-both"),
        drawn=drawn,
        max_merges=3,
        progress=lambda *_: None,
    )
    emulate(search, path, tmp_path)
    (tmp_path / "driver").mkdir()
    build_stand_in(tmp_path / "driver")
    done = subprocess.run(
        [sys.executable, "-c", _VERIFY, str(path)],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path / "driver"), "PYTHONPATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert set(found["errors"]) == {"sequential", "greedy", "ios-merge", "ios-both"}
    assert all(0 < error < 1e-5 for error in found["errors"].values())
    assert found["merged"], "a stage that merges is among them"


#: Emulated kernels take too long to be timed: every stage takes as long as any other.
_VERIFY = """
import json
import sys
from pathlib import Path

folder = Path(sys.argv[1])
sys.path.insert(0, str(folder / "packages"))
import runtime_ext.cuda.measure
from runtime_ext.bundle.compare import verified
from runtime_ext.bundle.contents import read_bundle
from runtime_ext.bundle.place import open_place
from runtime_ext.bundle.programs import bundled_program
from runtime_ext.bundle.search import bundle_search, limits_of, search_policies

assert "runtime_ext.native_executor" not in sys.modules
runtime_ext.cuda.measure.time_program = lambda *_, **__: [1e-3]
bundle = read_bundle(folder)
place = open_place(bundle, None)
search = bundle_search(bundle, place, folder, limits_of(bundle, None, None), lambda *_: None)
found = search_policies(search, ("greedy", "ios-merge", "ios-both"), folder)
errors = {
    policy: verified(
        bundle, policy, bundled_program(bundle, search.timer, made.schedule).session(place)
    )[1]
    for policy, made in found.items()
}
merged = any(s.strategy == "merge" for made in found.values() for s in made.schedule.stages)
assert "tvm_ffi" not in sys.modules, "a GPU needs no tvm-ffi"
print(json.dumps({"errors": errors, "merged": merged}))
"""
