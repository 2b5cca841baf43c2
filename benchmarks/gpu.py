"""The GPU suite: bundles are made here, and measured on a machine with a GPU.

Here, where TVM is::

    python benchmarks/gpu.py --prepare suite/            # a bundle for each network and batch
    python benchmarks/gpu.py --prepare suite/ --only squeezenet,1

On the GPU machine, which needs Python 3.11, NumPy, cuda-bindings and, for the peers, torch (and
onnxscript and an ONNX Runtime for GPUs, or that peer is skipped); the folder is all that has to be
copied::

    python suite/gpu.py                                  # all slices, one after another
    python suite/gpu.py --only squeezenet,1              # one of them, within 8 minutes

Each slice may be killed and run again: what was measured is kept. ``suite/gpu.json`` has what has
been measured so far, and what was skipped and why; it is printed as a table. Slices of the network
``NAME-cpu`` run on all CPU cores and need apache-tvm-ffi instead of cuda-bindings.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import IO, Any

NETWORKS = ("squeezenet", "inception_v3", "randwire", "nasnet_a", "resnet50")
BATCHES = (1, 16, 32, 128)
#: On which our lanes are compared on a CPU.
CPU_NETWORKS = ("squeezenet", "randwire")
LANES = (1, 2, 4, 8, 16)
POLICIES = "sequential,greedy,ios-merge,ios-parallel,ios-both,rammer,ios-holistic"
PEERS = "torch,torch-nhwc,torch-graph,torch-graph-nhwc,torch-compile,onnxruntime,onnxruntime-graph"
CPU_PEERS = "torch,torch-nhwc,onnxruntime"
#: Autotuning takes minutes: on these it is done.
AUTOTUNED = (("inception_v3", 1), ("squeezenet", 1))
#: Seconds: of a policy's search, and of a whole slice.
SEARCH, SLICE = 35, 480
#: Of the folder.
MOST_BYTES = 64 << 20
NOT_RUN = {
    "tvm": "TVM's virtual machine with its own CUDA graph needs TVM's CUDA runtime, which a bundle "
    "does not carry",
}


def slices(only: str | None) -> list[tuple[str, int]]:
    """Networks and batches, small ones first; the CPU's under the name NAME-cpu."""
    every = [(name, batch) for batch in BATCHES for name in NETWORKS]
    every += [(f"{name}-cpu", 1) for name in CPU_NETWORKS]
    if only is None:
        return every
    name, _, batch = only.partition(",")
    chosen = [s for s in every if s[0] == name and batch in ("", str(s[1]))]
    if not chosen:
        sys.exit(f"gpu.py: there is no slice {only!r}; networks are {', '.join(NETWORKS)}")
    return chosen


def prepare(folder: Path, only: str | None, arch: str, cpu_arch: str) -> None:
    """Make the bundles that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(__file__, folder / "gpu.py")
    for name, batch in slices(only):
        path = folder / f"{name}-{batch}"
        if path.exists():
            continue
        network, _, cpu = name.partition("-")
        target = ("llvm", cpu_arch, max(LANES)) if cpu else ("cuda", arch, 8)
        options = ["--target", target[0], "--arch", target[1], "--lanes", str(target[2])]
        options += ["--batch", str(batch), "--weights", "drawn", "-o", str(path)]
        subprocess.run([sys.executable, "-m", "tvm_ios", "bundle", network, *options], check=True)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{folder}: {size / 2**20:.1f} MiB")
    if size > MOST_BYTES:
        sys.exit(f"gpu.py: that is more than {MOST_BYTES >> 20} MiB: prepare less with --only")


def measure(folder: Path, only: str | None, again: bool) -> None:
    """Run the slices that have no result yet, and print what there is."""
    for name, batch in slices(only):
        bundle = folder / f"{name}-{batch}"
        known = _known(folder)
        key = f"{name},{batch}"
        if key in known["slices"] and not again:
            continue
        if not bundle.exists():
            known["skipped"][key] = "no bundle of it was made"
        else:
            begin = time.monotonic()
            try:
                made = _cpu_slice(bundle) if name.endswith("-cpu") else _slice(folder, name, batch)
                made["seconds"] = time.monotonic() - begin
                known["slices"][key] = made
                known["skipped"].pop(key, None)
            except _Failed as error:
                known["skipped"][key] = str(error)
        _write(folder / "gpu.json", known)
    _print(_known(folder))


class _Failed(Exception):
    """A slice that could not be measured; says why."""


def _slice(folder: Path, name: str, batch: int) -> dict[str, Any]:
    """Search and compare the policies, then the kept one beside others."""
    end = time.monotonic() + SLICE
    bundle = folder / f"{name}-{batch}"
    results = bundle / "results"
    options = ["--policy", POLICIES, "--time-limit", str(SEARCH), "--json"]
    made = _run(bundle, end, *options)
    ours = {
        "kept": results / f"schedule-{made['kept']}.json",
        "sequential": results / "schedule-sequential.json",
    }
    # What was found for another batch, run at this one.
    for other in BATCHES:
        found = folder / f"{name}-{other}" / "results"
        if other != batch and (found / "results.json").exists():
            kept = json.loads((found / "results.json").read_text())["kept"]
            ours[f"optimised for {other}"] = found / f"schedule-{kept}.json"
    peers = PEERS + (",torch-max-autotune" if (name, batch) in AUTOTUNED else "")
    schedules = [f"{label}={path}" for label, path in ours.items()]
    try:
        made["peers"] = _run(bundle, end, "--peers", peers, "--schedules", *schedules)
    except _Failed as error:
        made["peers"] = {"skipped": {"all": str(error)}}
    own = [pair for pair in schedules if not pair.startswith("optimised")]
    try:
        made["warps"] = _run(bundle, end, "--warps", "--schedules", *own)
    except _Failed as error:
        made["warps"] = {"skipped": {"all": str(error)}}
    return made


def _cpu_slice(bundle: Path) -> dict[str, Any]:
    """The policies on 1, 2, 4, ... lanes, as many as there are CPUs."""
    end = time.monotonic() + SLICE
    lanes = [count for count in LANES if count <= len(os.sched_getaffinity(0))]
    made: dict[str, Any] = {"lanes": {}}
    for count in lanes:
        options = ["--policy", "sequential,greedy,ios-both,rammer,ios-holistic", "--json"]
        options += ["--lanes", str(count), "--time-limit", "15"]
        options += ["-o", str(bundle / "results" / str(count))]
        try:
            made["lanes"][str(count)] = _run(bundle, end, *options)
        except _Failed as error:
            made.setdefault("skipped", {})[str(count)] = str(error)
    if not made["lanes"]:
        raise _Failed(next(iter(made["skipped"].values())))
    count, most = next(reversed(made["lanes"].items()))
    results = bundle / "results" / count
    kept = results / f"schedule-{most['kept']}.json"
    options = ["--peers", CPU_PEERS, "--schedules", f"kept={kept}", "--lanes", count]
    try:
        most["peers"] = _run(bundle, end, *options, "-o", str(results))
    except _Failed as error:
        most["peers"] = {"skipped": {"all": str(error)}}
    return made


def _run(bundle: Path, end: float, *options: str) -> dict[str, Any]:
    """What ``run.py`` says; its progress goes on to stderr."""
    command = [sys.executable, str(bundle / "run.py"), *options]
    said: deque[str] = deque(maxlen=1)
    with (
        tempfile.TemporaryFile("w+") as out,
        subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True) as process,
    ):
        assert process.stderr is not None
        echo = threading.Thread(target=_echo, args=(process.stderr, said))
        echo.start()
        try:
            process.wait(max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise _Failed(f"it took more than {SLICE} s; run it again, it goes on") from error
        finally:
            echo.join()
        if process.returncode:
            raise _Failed(f"it ended with {process.returncode}: {''.join(said).strip()}")
        out.seek(0)
        return json.loads(out.readlines()[-1])


def _echo(lines: IO[str], said: deque[str]) -> None:
    for line in lines:
        sys.stderr.write(line)
        said.append(line)


def _known(folder: Path) -> dict[str, Any]:
    path = folder / "gpu.json"
    if path.exists():
        return json.loads(path.read_text())
    return {"not_run": NOT_RUN, "slices": {}, "skipped": {}}


def _write(path: Path, data: dict[str, Any]) -> None:
    made = path.with_suffix(".new")
    made.write_text(json.dumps(data, indent=1))
    os.replace(made, path)


def _print(known: dict[str, Any]) -> None:
    print("slice               sequential          kept  ratio   best peer, and ours over it")
    for key, made in known["slices"].items():
        if "lanes" in made and isinstance(made["lanes"], dict):
            for count, row in made["lanes"].items():
                print(f"{key + ' x' + count:18} {_row(row)}   {_beside(row)}")
            continue
        print(f"{key:18} {_row(made)}   {_beside(made)}")
        for name, row in made.get("warps", {}).get("warps", {}).items():
            print(
                f"{'':18} {name}: {row['mean']:.1f} of {row['most']} warps active, several kernels "
                f"at once in {row['side_by_side']:.0%} of the time"
            )
    for key, made in known["slices"].items():
        for policy, why in made.get("skipped", {}).items():
            print(f"{key}: {policy} skipped: {why}")
    for key, why in known["skipped"].items():
        print(f"{key}: skipped: {why}")
    for what, why in known["not_run"].items():
        print(f"{what}: not run: {why}")


def _beside(made: dict[str, Any]) -> str:
    """The fastest peer, and our time over its."""
    peers = made.get("peers", {}).get("latency_ms", {})
    others = {name: ms for name, ms in peers.items() if name.startswith(("torch", "onnx"))}
    best = min(others, key=lambda name: others[name], default="")
    return f"{best} {others[best]:.3f}ms {peers['kept'] / others[best]:.2f}" if best else ""


def _row(made: dict[str, Any]) -> str:
    rows = {row["policy"]: row for row in made["policies"]}
    kept = made["kept"]
    ratio = made["confirmed"]["sequential"]["median"]
    return f"{rows['sequential']['latency_ms']:9.3f}ms {kept:>13} {ratio:6.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--prepare", type=Path, metavar="DIR", help="make the bundles")
    parser.add_argument("--only", metavar="NET,BATCH", help="one network, or one slice")
    parser.add_argument("--arch", default="sm_90", help="of the GPU, with --prepare  [sm_90]")
    parser.add_argument("--cpu-arch", default="x86-64-v4", help="of the CPU  [x86-64-v4]")
    parser.add_argument("--again", action="store_true", help="measure what has a result, too")
    wanted = parser.parse_args()
    if wanted.prepare is not None:
        prepare(wanted.prepare, wanted.only, wanted.arch, wanted.cpu_arch)
    else:
        measure(Path(__file__).resolve().parent, wanted.only, wanted.again)


if __name__ == "__main__":
    main()
