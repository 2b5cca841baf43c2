"""Versions and pins, in distributions made for the test."""

from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path

import pytest

from runtime_ext.doctor.check import Check, Status
from runtime_ext.doctor.packages import check_packages, check_python


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """tvm-ios as if installed with these requirements, and nothing else but what is added."""
    lines = [
        *("Metadata-Version: 2.1", "Name: tvm-ios", "Version: 9.8", "Requires-Python: >=3.11"),
        *("Provides-Extra: bench", "Provides-Extra: dev"),
        *("Requires-Dist: needed==0.1.14.post1", "Requires-Dist: loose>=2"),
        "Requires-Dist: elsewhere>=1; python_version < '3'",
        *(
            "Requires-Dist: runner>=1.20; extra == 'bench'",
            "Requires-Dist: tvm-ios[bench]; extra == 'dev'",
        ),
    ]
    add(tmp_path, "tvm-ios", "9.8", lines)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    return tmp_path


def add(folder: Path, name: str, version: str, lines: list[str] | None = None) -> None:
    place = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    place.mkdir()
    lines = lines or ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    (place / "METADATA").write_text("\n".join(lines) + "\n")


def found() -> dict[str, Check]:
    return {check.name: check for check in check_packages()}


def test_pins_that_hold(installed: Path) -> None:
    add(installed, "needed", "0.1.14.post1")
    add(installed, "loose", "2.3rc1")
    add(installed, "runner", "1.20")
    checks = found()
    assert list(checks) == ["tvm-ios", "needed", "loose", "runner"]
    assert {check.status for check in checks.values()} == {Status.OK}
    assert checks["tvm-ios"].detail.startswith("9.8: makes")
    assert checks["runner"].detail == "1.20 (extra bench)"


def test_pins_that_do_not_hold(installed: Path) -> None:
    add(installed, "needed", "0.1.15")
    add(installed, "runner", "1.19")
    checks = found()
    assert checks["needed"].status is Status.PROBLEM
    assert checks["needed"].detail == "0.1.15, but tvm-ios needs ==0.1.14.post1"
    assert checks["needed"].remedy == "run `pip install 'needed==0.1.14.post1'`"
    assert checks["loose"].status is Status.PROBLEM
    assert checks["loose"].detail == "is not installed"
    assert checks["runner"].status is Status.WARNING
    assert checks["runner"].detail == "1.19, but the extra bench needs >=1.20"


def test_an_extra_that_is_not_installed_is_fine(installed: Path) -> None:
    check = found()["runner"]
    assert check.status is Status.OK
    assert "pip install 'tvm-ios[bench]'" in check.detail


def test_the_runtime_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["Metadata-Version: 2.1", "Name: tvm-ios-runtime", "Version: 9.8"]
    add(tmp_path, "tvm-ios-runtime", "9.8", [*lines, "Requires-Dist: needed>=1"])
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    checks = found()
    assert list(checks) == ["tvm-ios-runtime", "needed"]
    assert "runs, times and explains" in checks["tvm-ios-runtime"].detail
    assert checks["needed"].status is Status.PROBLEM


@pytest.mark.parametrize(("version", "status"), [("9.8", Status.WARNING), ("9.7", Status.PROBLEM)])
def test_both_distributions_are_one_too_many(version: str, status: Status, installed: Path) -> None:
    assert "distributions" not in found()
    add(installed, "tvm-ios-runtime", version)
    check = found()["distributions"]
    assert check.status is status
    assert "pip uninstall tvm-ios-runtime" in check.remedy
    assert ("two versions" in check.detail) == (version != "9.8")


def test_running_from_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    (check,) = check_packages()
    assert check.status is Status.WARNING
    assert "pip install -e ." in check.remedy
    assert not metadata.packages_distributions().get("tvm_ios")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("python_version", "3.10.2", "Python >=3.11"),
        ("machine", "mips", "Linux on x86-64"),
        ("system", "Darwin", "Linux on x86-64"),
    ],
)
def test_pythons_and_systems_that_do_not_do(
    name: str, value: str, words: str, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (check,) = check_python()
    assert check.status is Status.OK
    monkeypatch.setattr(platform, name, lambda: value)
    (check,) = check_python()
    assert check.status is Status.PROBLEM
    assert value in check.detail
    assert words in check.remedy
