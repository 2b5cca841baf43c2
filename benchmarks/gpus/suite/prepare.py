"""Makes the folder that is copied to the GPU machine: bundles packed, wheels, checks."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from benchmarks.gpus.suite.measure import BUNDLES, CHECKS, PACKAGES, TVM_RUNTIME, WHEELS, WORK
from benchmarks.gpus.suite.slices import LANES, Kind, Slice
from runtime_ext.bundle.archive import SUFFIX, is_current, pack, pack_bundle
from runtime_ext.bundle.contents import BundleError

_ROOT = Path(__file__).parents[3]
_SCRIPT = _ROOT / "benchmarks" / "gpus" / "gpu.py"
_PARTS = Path(__file__).parent
#: What the GPU machine lacks, which has a bare Python.
_PACKAGE = "apache-tvm-ffi"
#: Of glibc; pip takes them by their exact names.
_PLATFORMS = ("2_17", "2_24", "2_28", "2_34")
_TVM_LIBRARIES = ("libtvm_runtime.so", "libtvm_runtime_cuda.so")
#: Where the tests that run on a GPU lie, here and there; and what of it these need.
_TESTS = Path("tests", "cuda")
_NEEDED_TESTS = ("test_on_gpu.py", "convolutions.py", "nvrtc_kernels.py")
_EDGES = _PARTS / "edges.py"
#: Of what is copied.
_MOST_BYTES = 64 << 20
_STREAMS = 8


def prepare_suite(
    suite: Path, slices: Sequence[Slice], *, arch: str, cpu_arch: str, python: str, jobs: int = 1
) -> None:
    """Make what is not there yet, and print how large everything is.

    It may be killed at any time: bundles that are whole stay, and so do compiled kernels. Our code
    lies beside the bundles, once, and is always that of now.

    Parameters
    ----------
    suite
        The folder.
    slices
        Whose bundles, in this order.
    arch, cpu_arch
        Of the GPU, and of the CPU beside it.
    python
        The version there, such as ``3.12``: tvm-ffi is made for one.
    jobs
        How many bundles are made at once; each takes the memory in which PyTorch runs its batch.
    """
    bundles = suite / BUNDLES
    bundles.mkdir(parents=True, exist_ok=True)
    for cut_short in bundles.glob("*.new"):
        cut_short.unlink()
    copy_scripts(suite)
    _copy_code(suite)
    _fetch_wheels(suite / WHEELS, python)
    _pack_tvm_runtime(suite / TVM_RUNTIME)
    wanted = {s.bundle: s for s in slices if s.kind is not Kind.checks}
    archives = {name: bundles / f"{name}{SUFFIX}" for name in wanted}
    missing = [name for name, archive in archives.items() if not _is_ready(archive)]

    def make(name: str) -> bool:
        which = wanted[name]
        print(f"bundle {missing.index(name) + 1} of {len(missing)}: {name}", flush=True)
        of = cpu_arch if which.kind is Kind.lanes else arch
        return _pack_bundle(which, archives[name], of, alone=jobs == 1)

    with ThreadPoolExecutor(jobs) as pool:
        packed = dict(zip(missing, pool.map(make, missing), strict=True))
    failed = [name for name, done in packed.items() if not done]
    _print_sizes(suite)
    if failed:
        sys.exit(f"gpu.py: no bundle could be made of {', '.join(failed)}: see above")


def copy_scripts(suite: Path) -> None:
    """``gpu.py``, and beside it the packages that it imports from, under the same names as here."""
    shutil.copyfile(_SCRIPT, suite / _SCRIPT.name)
    for path in (_SCRIPT.parents[1], _SCRIPT.parent, _PARTS):
        there = suite / path.relative_to(_ROOT)
        there.mkdir(exist_ok=True)
        for source in path.glob("*.py" if path == _PARTS else "__init__.py"):
            shutil.copyfile(source, there / source.name)


def _is_ready(archive: Path) -> bool:
    """Whether a bundle is there, undamaged, and one that our code of now reads."""
    if not archive.exists():
        return False
    try:
        return is_current(archive)
    except BundleError as error:
        print(error, flush=True)
        return False


def _pack_bundle(which: Slice, archive: Path, arch: str, *, alone: bool) -> bool:
    """Make a bundle, if it can be made; its progress is shown if it is made ``alone``."""
    cpu = which.kind is Kind.lanes
    target, lanes = ("llvm", max(LANES)) if cpu else ("cuda", _STREAMS)
    options = ["--target", target, "--arch", arch, "--lanes", str(lanes), "--with-tvm"]
    # TVM's untuned loops take minutes for one image.
    options += ["--batch", str(which.batch), "--weights", "drawn", "--reference", "torch"]
    with tempfile.TemporaryDirectory() as room:
        bundle = Path(room) / which.bundle
        command = [sys.executable, "-m", "tvm_ios", "bundle", which.network, *options]
        said = None if alone else subprocess.PIPE
        done = subprocess.run([*command, "-o", str(bundle)], cwd=_ROOT, stderr=said, text=True)
        if done.returncode:
            print(done.stderr or "", end="", file=sys.stderr)
            return False
        pack_bundle(bundle, archive)
    return True


def _copy_code(suite: Path) -> None:
    """Our code of now, for all bundles and for the tests, and the tests themselves."""
    from runtime_ext.bundle.sources import copy_runner, copy_sources, modules_of
    from runtime_ext.native_library import native_library_path

    packages, checks = suite / PACKAGES, suite / CHECKS
    for folder in (packages, checks):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    copy_runner(packages)
    (checks / _TESTS).mkdir(parents=True)
    # Or a package `tests` that comes later on the path would be taken for this one.
    (checks / "tests" / "__init__.py").touch()
    for name in _NEEDED_TESTS:
        shutil.copyfile(_ROOT / _TESTS / name, checks / _TESTS / name)
    for source in (*(_ROOT / _TESTS / name for name in _NEEDED_TESTS), _EDGES):
        for module in modules_of(source):
            copy_sources(module, packages)
    library = native_library_path()
    shutil.copyfile(library, packages / "runtime_ext" / library.name)


def _fetch_wheels(folder: Path, python: str) -> None:
    """The wheels of tvm-ffi and what it needs, in the version that the bundles are made with."""
    if folder.exists():
        return
    wanted = f"{_PACKAGE}=={metadata.version(_PACKAGE)}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:"]
    command += ["--python-version", python, "--implementation", "cp"]
    for glibc in _PLATFORMS:
        command += ["--platform", f"manylinux_{glibc}_{platform.machine()}"]
    with tempfile.TemporaryDirectory(dir=folder.parent) as room:
        wheels = Path(room) / "wheels"
        subprocess.run([*command, "-d", str(wheels), wanted], check=True)
        os.rename(wheels, folder)


def _pack_tvm_runtime(archive: Path) -> None:
    """TVM's runtime libraries, without its compiler, which is a hundred times as large."""
    if archive.exists():
        return
    files = {Path(f).name: f.locate() for f in metadata.files("apache-tvm") or ()}
    pack(archive, {f"tvm/lib/{name}": Path(str(files[name])) for name in _TVM_LIBRARIES})


def _print_sizes(suite: Path) -> None:
    total = 0
    for path in sorted(p for p in suite.rglob("*") if p.is_file() and WORK not in p.parts):
        total += path.stat().st_size
        if path.parent.name in (BUNDLES, WHEELS) or path.parent == suite:
            print(f"{path.stat().st_size / 2**20:8.2f} MiB  {path.relative_to(suite)}")
    print(f"{total / 2**20:8.2f} MiB in all")
    if total > _MOST_BYTES:
        sys.exit(f"gpu.py: that is more than {_MOST_BYTES >> 20} MiB: prepare less with --only")
