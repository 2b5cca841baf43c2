"""The projects that are published: one version, what each requires, and what the sources hold."""

from __future__ import annotations

import tarfile
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from packaging.requirements import Requirement
from scikit_build_core.build import build_sdist

from release.runtime_project import make_runtime_project, runtime_document

ROOT = Path(__file__).parents[2]


@pytest.fixture
def document() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked sdist of tvm-ios."""
    folder = tmp_path_factory.mktemp("sdist")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        name = build_sdist(str(folder))
    with tarfile.open(folder / name) as archive:
        archive.extractall(folder, filter="data")
    return folder / name.removesuffix(".tar.gz")


def test_the_runtime_is_the_same_with_fewer_requirements(document: dict[str, Any]) -> None:
    runtime = runtime_document(document)
    assert "entry-points" in document["project"]
    assert "entry-points" not in runtime["project"]
    ours, theirs = document["project"], runtime["project"]
    assert theirs["name"] == "tvm-ios-runtime"
    for key in ("version", "requires-python", "license", "scripts"):
        assert theirs[key] == ours[key]
    assert set(theirs["dependencies"]) < set(ours["dependencies"])
    names = {Requirement(text).name for text in theirs["dependencies"]}
    assert {"apache-tvm-ffi", "numpy"} <= names
    assert names.isdisjoint({"apache-tvm", "onnx", "ortools", "networkx"})
    extras = theirs["optional-dependencies"]
    assert set(extras["memory"]) < set(ours["dependencies"])
    assert list(extras) == ["memory"]
    assert runtime["build-system"] == document["build-system"]
    for tool in ("scikit-build", "cibuildwheel"):
        assert runtime["tool"][tool] == document["tool"][tool]


def test_the_runtime_requires_nothing_of_its_own(document: dict[str, Any]) -> None:
    document["tool"]["tvm-ios"]["runtime"]["dependencies"].append("elsewhere")
    with pytest.raises(ValueError, match="elsewhere"):
        runtime_document(document)


def test_the_library_is_built_against_the_abi_that_it_runs_on(document: dict[str, Any]) -> None:
    (pin,) = (t for t in document["build-system"]["requires"] if t.startswith("apache-tvm-ffi"))
    assert pin in document["project"]["dependencies"]
    # Nothing of CPython's is in it.
    assert document["tool"]["scikit-build"]["wheel"]["py-api"] == "py3"


@pytest.mark.slow
def test_the_sdist_has_all_sources_and_nothing_generated(sources: Path) -> None:
    files = {p.relative_to(sources).as_posix() for p in sources.rglob("*") if p.is_file()}
    for folder in ("tvm_ios", "runtime_ext", "relay_passes", "release"):
        for path in (ROOT / folder).rglob("*"):
            generated = "__pycache__" in path.parts or path.suffix == ".so"
            assert path.is_dir() or generated or path.relative_to(ROOT).as_posix() in files
    assert {"LICENSE", "README.md", "PKG-INFO", "pyproject.toml"} <= files
    for file in map(PurePosixPath, files):
        assert file.suffix not in {".so", ".o", ".pyc", ".whl"}, file
        assert not {"__pycache__", ".venv", ".venv-relay", "build", "dist"} & set(file.parts), file


@pytest.mark.slow
def test_sources_become_those_of_the_runtime(sources: Path, tmp_path: Path) -> None:
    copy = tmp_path / "sources"
    copy.mkdir()
    (copy / "pyproject.toml").write_text((sources / "pyproject.toml").read_text())
    (copy / "PKG-INFO").write_text("Name: tvm-ios\n")
    make_runtime_project(copy)
    assert not (copy / "PKG-INFO").exists()
    assert tomllib.loads((copy / "pyproject.toml").read_text())["project"]["name"].endswith(
        "runtime"
    )
