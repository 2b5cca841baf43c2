"""The contents of a bundle, read on the machine that runs it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime_ext.bundle.unit_forms import UnitForms
from runtime_ext.bundle.weights import Weights, load_weights
from tvm_ios.contest.outputs import EDGES, NAN, Reference, Sample
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array, read_arrays
from tvm_ios.files.atomic import make_folder
from tvm_ios.files.digest import file_digest
from tvm_ios.files.json_text import json_object, natural, naturals
from tvm_ios.graph.merge_rule import plan_merge
from tvm_ios.graph.merged_weights import merged_weights
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.program import Part

if TYPE_CHECKING:
    from runtime_ext.bundle.rtasks import BundledRTasks

FORMAT, VERSION = "tvm-ios bundle", 3
ABOUT, UNITS, OPERATORS, REFERENCE = "bundle.json", "units.json", "operators.json", "reference.npz"
#: The kernels of a bundle for a GPU.
KERNELS = "kernels.safetensors.gz"
#: TVM's own build; a name that Python does not take for a module beside ``run.py``.
TVM_LIBRARY = "tvm-build.so"
#: The model as it is written.
MODEL = "model.onnx"
#: Written by every run; the rest of a bundle stays as it is.
RESULTS = "results"
#: Our code, for machines without tvm-ios.
PACKAGES = "packages"


class BundleError(UserError):
    """Raised when a bundle cannot be used here, with the reason in one sentence."""


@dataclass(frozen=True)
class Bundle:
    """Units, their code and everything else that a search on another machine needs.

    Constants are named by content keys.
    """

    folder: Path
    #: Plain data of ``bundle.json``: the model's name, target, versions, limits, policies.
    about: Mapping[str, Any]

    graph: OpGraph
    forms: UnitForms
    #: For each tensor that lies in another tensor's memory, its part of that.
    parts: Mapping[int, Part]
    #: For each unit the keys of its function's parameters after the data.
    constants: tuple[tuple[str, ...], ...]
    #: For each output of the graph that is a constant its key.
    constant_outputs: Mapping[int, str]

    weights: Weights
    #: For each input, by the model's name, the key of its reference value.
    inputs: Mapping[str, str]
    #: The model's name and the tensor of each output.
    outputs: tuple[tuple[str, int], ...]
    #: The reference outputs, as ``output/PLACE``; edge-case inputs, if there are any, as
    #: ``edge/NAME``, and their outputs as ``edge output/PLACE``.
    reference: Mapping[str, Array]
    #: For a GPU its kernels as rTasks.
    rtasks: BundledRTasks | None

    @cached_property
    def reference_inputs(self) -> dict[str, Array]:
        """Reference inputs by the model's names."""
        return {name: self.weights[key] for name, key in self.inputs.items()}

    def function_weights(self, units: tuple[int, ...]) -> list[Array]:
        """Return the parameters after the data of the function of a unit, or of merged ones."""
        weights = [[self.weights[key] for key in self.constants[unit]] for unit in units]
        if len(units) == 1:
            return weights[0]
        plan = plan_merge(self.graph, units)
        assert plan is not None, "the bundle has their merged code"
        return list(merged_weights(plan, weights))

    @property
    def reference_outputs(self) -> list[Array]:
        """Reference outputs in the model's order; none if programs are not compared."""
        return self._arrays("output")

    @property
    def edges(self) -> list[Sample]:
        """Edge-case inputs with their outputs, if there are any."""
        inputs = {name: self.reference.get(f"edge/{name}") for name in self.inputs}
        present = {name: array for name, array in inputs.items() if array is not None}
        return [Sample(present, self._arrays("edge output"), EDGES)] if present else []

    def _arrays(self, what: str) -> list[Array]:
        keys = (f"{what}/{place}" for place in range(len(self.outputs)))
        return [self.reference[key] for key in keys if key in self.reference]


def reference_arrays(reference: Reference) -> dict[str, Array]:
    """Return the arrays of a reference in the form of :attr:`Bundle.reference`."""
    arrays: dict[str, Array] = {}
    samples = (sample for sample in reference.samples if sample.kind != NAN)
    for sample, prefix in zip(samples, ("", "edge "), strict=False):
        arrays |= {f"{prefix}output/{n}": array for n, array in enumerate(sample.outputs)}
        if prefix:
            arrays |= {f"edge/{name}": array for name, array in sample.inputs.items()}
    return arrays


def read_bundle(folder: Path) -> Bundle:
    """Read a bundle; raise BundleError if a file is missing or damaged."""
    try:
        about = json_object((folder / ABOUT).read_bytes())
    except FileNotFoundError as error:
        raise BundleError(f"{folder} is no bundle: it lacks {ABOUT}") from error
    except (OSError, ValueError) as error:
        raise BundleError(f"cannot read {folder / ABOUT}: {error}") from error
    if (about.get("format"), about.get("version")) != (FORMAT, VERSION):
        raise BundleError(f"{folder} is not a {FORMAT} of version {VERSION}: make it again")
    try:
        for name, checksum in about["files"].items():
            if file_digest(folder / name) != checksum:
                raise BundleError(f"{name} of {folder} is damaged: copy the bundle again")
        units = json_object((folder / UNITS).read_bytes())
        return Bundle(
            folder=folder,
            about=about,
            graph=OpGraph.from_json(units["graph"]),
            forms=UnitForms.from_json(units),
            parts={natural(t): Part(*naturals(place)) for t, place in units["parts"]},
            constants=tuple(tuple(map(str, keys)) for keys in units["constants"]),
            # Bundles of older versions have none.
            constant_outputs={natural(t): str(k) for t, k in units.get("constant_outputs", [])},
            weights=load_weights(folder, about["drawn"]),
            inputs={str(name): str(key) for name, key in about["inputs"]},
            outputs=tuple((str(name), natural(tensor)) for name, tensor in about["outputs"]),
            reference=read_arrays(folder / REFERENCE),
            rtasks=_rtasks(folder) if about["kind"] == "cuda" else None,
        )
    except OSError as error:
        raise BundleError(f"{folder} cannot be read: {error.strerror or error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BundleError(f"{folder} lacks or misstates {error}: make it again") from error


def _rtasks(folder: Path) -> BundledRTasks:
    from runtime_ext.bundle.rtasks import read_rtasks

    return read_rtasks(folder)


def write_about(folder: Path, about: Mapping[str, Any]) -> None:
    """Write ``bundle.json`` last, with the checksums of all other files."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    checksums = {str(path.relative_to(folder)): file_digest(path) for path in files}
    content = {"format": FORMAT, "version": VERSION, **about, "files": checksums}
    (folder / ABOUT).write_text(json.dumps(content, indent=1))


def require_replaceable(path: Path) -> None:
    """Require that a path is free or has a bundle, or raise BundleError."""
    make_folder(path.parent)
    if path.exists() and (not path.is_dir() or (any(path.iterdir()) and not _is_bundle(path))):
        raise BundleError(f"{path} exists and is not a bundle; choose another name")


def _is_bundle(path: Path) -> bool:
    return (path / ABOUT).is_file() and (path / "run.py").is_file()
