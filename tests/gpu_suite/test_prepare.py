"""Preparing the GPU suite, with folders in the place of bundles that take minutes."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpus.suite.slices import chosen_slices
from runtime_ext.bundle.contents import FORMAT, VERSION

ROOT = Path(__file__).parents[2]


class Bundles:
    """What stands for ``tvm-ios bundle``: it writes a folder, or fails."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.failing: set[str] = set()
        self.version = VERSION
        self.at_once = threading.Barrier(1)

    def run(
        self, command: Sequence[str], stderr: int | None, **_: Any
    ) -> subprocess.CompletedProcess[str]:
        folder = Path(command[-1])
        self.made.append(folder.name)
        self.at_once.wait(60)
        if folder.name in self.failing:
            said = None if stderr is None else f"{folder.name} is broken"
            return subprocess.CompletedProcess(command, 1, stderr=said)
        (folder / "packages").mkdir(parents=True)
        (folder / "packages" / "old.py").write_text("raise SystemExit")
        files = {"units.json": "0", "packages/old.py": "0"}
        about = {"format": FORMAT, "version": self.version, "files": files}
        (folder / "bundle.json").write_text(json.dumps(about))
        return subprocess.CompletedProcess(command, 0)


@pytest.fixture
def bundles(module: Any, monkeypatch: pytest.MonkeyPatch) -> Bundles:
    made = Bundles()
    monkeypatch.setattr(module.subprocess, "run", made.run)
    # Compressing TVM's libraries takes seconds.
    monkeypatch.setattr(module, "_pack_tvm_runtime", Path.touch)
    return made


@pytest.fixture
def without_code(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying all of our code takes seconds."""
    monkeypatch.setattr(module, "_copy_code", lambda suite: None)


def prepare(module: Any, suite: Path, **options: Any) -> None:
    slices = chosen_slices("squeezenet")
    machine = {"arch": "sm_90", "cpu_arch": "x86-64-v3", "python": "3.12"}
    module.prepare_suite(suite, slices, **machine, **options)


@pytest.mark.usefixtures("without_code")
def test_it_goes_on_where_it_was(
    module: Any, bundles: Bundles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "suite"
    bundles.failing.add("squeezenet-32")
    with pytest.raises(SystemExit, match=r"squeezenet-32\b"):
        prepare(module, suite)
    assert bundles.made == [f"squeezenet-{batch}" for batch in (1, 32, 16, 128)]
    assert "MiB in all" in capsys.readouterr().out
    bundles.failing.clear()
    cut_short = suite / "bundles" / "squeezenet-32.tar.xz.new"
    cut_short.write_bytes(b"half")
    prepare(module, suite)
    assert bundles.made[4:] == ["squeezenet-32"]
    assert not cut_short.exists()
    prepare(module, suite)
    assert len(bundles.made) == 5, "all is there"


@pytest.mark.usefixtures("without_code")
def test_several_at_once(
    module: Any, bundles: Bundles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundles.at_once = threading.Barrier(2)
    bundles.failing.add("squeezenet-16")
    with pytest.raises(SystemExit, match=r"squeezenet-16\b"):
        prepare(module, tmp_path / "suite", jobs=2)
    assert sorted(bundles.made) == sorted(f"squeezenet-{batch}" for batch in (1, 32, 16, 128))
    assert len(list((tmp_path / "suite" / "bundles").iterdir())) == 3
    assert "squeezenet-16 is broken" in capsys.readouterr().err


@pytest.mark.usefixtures("without_code")
def test_a_bundle_of_another_format_is_made_again(
    module: Any, bundles: Bundles, tmp_path: Path
) -> None:
    bundles.version = VERSION - 1
    prepare(module, tmp_path / "suite")
    bundles.version = VERSION
    prepare(module, tmp_path / "suite")
    assert bundles.made[:4] == bundles.made[4:]


@pytest.mark.usefixtures("without_code")
@pytest.mark.parametrize("damage", ["cut", "noise", "empty", "other", "no tar"])
def test_a_damaged_bundle_is_made_again(
    module: Any, bundles: Bundles, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    suite = tmp_path / "suite"
    prepare(module, suite)
    archive = suite / "bundles" / "squeezenet-32.tar.xz"
    content = archive.read_bytes()
    middle = len(content) // 2
    if damage == "other":
        with tarfile.open(archive, "w:xz") as packed:
            packed.add(__file__, "squeezenet-32/units.json")
    else:
        damaged = {
            "cut": content[:middle],
            "noise": content[:middle] + bytes(40) + content[middle + 40 :],
            "empty": b"",
            "no tar": b"text",
        }
        archive.write_bytes(damaged[damage])
    prepare(module, suite)
    assert bundles.made[4:] == ["squeezenet-32"]
    assert "squeezenet-32.tar.xz is damaged (" in capsys.readouterr().out


def test_bundles_share_the_code_of_now(module: Any, bundles: Bundles, tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    prepare(module, suite)
    with tarfile.open(suite / "bundles" / "squeezenet-1.tar.xz") as packed:
        names = packed.getnames()
        packed.extractall(tmp_path, filter="data")
    assert names == ["squeezenet-1", "squeezenet-1/bundle.json"]
    about = json.loads((tmp_path / "squeezenet-1" / "bundle.json").read_text())
    assert about["files"] == {"units.json": "0"}
    runner = suite / "packages" / "runtime_ext" / "bundle" / "runner.py"
    assert (suite / "packages" / "runtime_ext" / "libnative.so").exists()
    runner.write_text("old")
    prepare(module, suite)
    assert runner.read_text() == (ROOT / "runtime_ext" / "bundle" / "runner.py").read_text()


def test_the_checks_need_what_a_gpu_machine_has(module: Any, tmp_path: Path) -> None:
    module._copy_code(tmp_path)
    code = (
        "import sys\n"
        # What stands in for an editable installation would come before the path.
        "sys.meta_path[:] = [f for f in sys.meta_path if isinstance(f, type)]\n"
        "for name in ('hypothesis', 'tvm', 'tvm_ffi', 'torch', 'typer', 'safetensors'):\n"
        "    sys.modules[name] = None\n"
        f"sys.path[:0] = [{str(tmp_path / 'packages')!r}, {str(tmp_path / 'checks')!r}]\n"
        "import runtime_ext.bundle.runner\n"
        "from tests.cuda import test_on_gpu\n"
        f"assert test_on_gpu.__file__.startswith({str(tmp_path)!r})\n"
        f"assert runtime_ext.__file__.startswith({str(tmp_path)!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env={}
    )
    assert done.returncode == 0, done.stderr
