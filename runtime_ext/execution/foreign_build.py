"""Builds of other runtimes, saved in the place of an executable because they are faster.

A package of ``meta.json``, ``SHA256SUMS`` and one file: the library that TVM compiled on its own,
or the ONNX model for ONNX Runtime. ``tvm-ios run`` and Python run it as an executable; the loader
of C++ refuses it.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from runtime_ext.execution.bound_model import Bind, BoundModel, bind_library, bind_onnx
from runtime_ext.execution.executor import Exclusive, Span
from runtime_ext.execution.model_session import ModelSession
from runtime_ext.execution.packages.package import (
    META,
    require_sums,
    require_version,
    write_package,
)
from runtime_ext.execution.ports import NO_STATES, Port, bound_states, saved_states
from runtime_ext.machine.cpu_features import missing_features
from runtime_ext.native_errors import ExecutableError, SessionError
from tvm_ios.files.array_files import Array
from tvm_ios.files.json_text import json_object
from tvm_ios.files.plain_data import read_as


@dataclass(frozen=True)
class Runtime:
    """A runtime whose builds can be saved.

    ``title`` is how messages call such a build, ``file`` its file's name in the package, and
    ``package`` the Python package that must be installed, of equal major and minor version.
    """

    title: str
    file: str
    package: str


#: The runtimes, by the names of their peers.
RUNTIMES: Mapping[str, Runtime] = {
    "tvm": Runtime("TVM's own build", "tvm.so", "apache-tvm"),
    "onnxruntime": Runtime("the model for ONNX Runtime", "model.onnx", "onnxruntime"),
}


@dataclass(frozen=True)
class ForeignBuild:
    """A model in the form that another runtime loads.

    Attributes
    ----------
    runtime
        The runtime, a key of :data:`RUNTIMES`.
    file
        The file that the runtime loads.
    inputs, outputs
        The inputs and outputs that a user sets and reads.
    lanes
        Threads that it was measured on.
    features
        CPU features that its code needs.
    notes
        As of :class:`runtime_ext.execution.executable.Executable`.
    """

    runtime: str
    file: Path
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    lanes: int
    features: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: Keeps the unpacked files of a tar for as long as this object lives.
    _keeper: object = field(default=None, repr=False, compare=False)

    @property
    def sentence(self) -> str:
        """Describe the build for people."""
        return f"{RUNTIMES[self.runtime].title}, which was faster than every program of ours"

    def save(self, path: Path) -> None:
        """Write the build to a folder, or to one file if the name ends in ``.tar``.

        Raise ExecutableError if something is there that is not an executable, or it cannot be
        written.
        """
        runtime = RUNTIMES[self.runtime]
        meta = {
            "runtime": self.runtime,
            "title": runtime.title,
            "versions": {runtime.package: metadata.version(runtime.package)},
            "machine": platform.machine(),
            "lanes": self.lanes,
            "features": self.features,
            "inputs": [_port_json(port) for port in self.inputs],
            "outputs": [_port_json(port) for port in self.outputs],
            "notes": self.notes,
        }

        def fill(folder: Path) -> None:
            shutil.copyfile(self.file, folder / runtime.file)

        write_package(Path(path), meta, fill)

    def session(self, *, states: Mapping[str, str] | None = None) -> ForeignSession:
        """Open a session on as many threads as the build was measured on.

        TVM fixes its number of threads when it is loaded, so a process that has loaded TVM before
        keeps its number. ``states`` as of
        :meth:`runtime_ext.execution.executable.Executable.session`.
        """
        states = saved_states(self.notes) if states is None else states
        if self.runtime == "onnxruntime":
            bind = bind_onnx(self.file, self.lanes)
        else:
            os.environ.setdefault("TVM_NUM_THREADS", str(self.lanes))
            bind = bind_library(self.file)
        return ForeignSession(self.inputs, self.outputs, bind, states)


def foreign_build(folder: Path, path: Path, keeper: object) -> ForeignBuild | None:
    """Return the build of another runtime that a package holds; None if it is an executable.

    ``path`` is the package's name in messages; the build holds ``keeper``, which keeps the folder.
    Raise ExecutableError if the build is damaged, or cannot run here.
    """
    try:
        meta = json_object((folder / META).read_bytes())
    except (OSError, ValueError):
        # The loader of executables will report the error.
        return None
    if meta.get("runtime") is None:
        return None
    try:
        require_sums(folder, path)
        runtime = RUNTIMES[meta["runtime"]]
        _require_place(path, meta, runtime)
        return ForeignBuild(
            runtime=meta["runtime"],
            file=folder / runtime.file,
            inputs=tuple(map(_port, meta["inputs"])),
            outputs=tuple(map(_port, meta["outputs"])),
            lanes=int(meta["lanes"]),
            features=tuple(meta["features"]),
            notes=meta["notes"],
            _keeper=keeper,
        )
    except ExecutableError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise ExecutableError(f"{path} lacks or misstates {error}; save it again") from error


def _require_place(path: Path, meta: Mapping[str, Any], runtime: Runtime) -> None:
    what = f"{path} is {runtime.title}, made"
    made_with = str(meta["versions"][runtime.package])
    require_version(what, runtime.package, made_with, "optimize the model again")
    if meta["machine"] != platform.machine():
        raise ExecutableError(
            f"{what} for {meta['machine']} and this machine is {platform.machine()}; optimize the "
            "model here"
        )
    if missing := missing_features(meta["features"]):
        raise ExecutableError(
            f"{what} for a CPU with {', '.join(missing)}; optimize the model for this machine"
        )


class ForeignSession(ModelSession):
    """A session whose model runs on another runtime; it has no profile."""

    def __init__(
        self,
        inputs: tuple[Port, ...],
        outputs: tuple[Port, ...],
        bind: Bind,
        states: Mapping[str, str] = NO_STATES,
    ) -> None:
        self._bind = bind
        model = _ForeignModel(inputs, outputs, bind)
        bound = bound_states(states, inputs, outputs)
        super().__init__(inputs, outputs, model, model, states=bound)

    def for_worker(self, workers: int) -> ForeignSession:
        """Open a session of the same model for the only worker: the runtime has its own threads."""
        if workers != 1:
            raise SessionError(
                f"another runtime runs this model, on threads of its own: it has one worker, not "
                f"{workers}"
            )
        return ForeignSession(self.inputs, self.outputs, self._bind)


class _ForeignModel:
    """The :class:`Memory` and :class:`Executor` of a model that another runtime runs.

    Runtimes have buffers of their own, so a model is bound again after an input was written.
    """

    def __init__(self, inputs: Sequence[Port], outputs: Sequence[Port], bind: Bind) -> None:
        self._bind = bind
        self._inputs: dict[str, Array] = {p.name: np.zeros(p.shape, p.dtype) for p in inputs}
        self._outputs = [port.name for port in outputs]
        self._bound: BoundModel | None = None
        #: The model of the last run, and its result.
        self._last: tuple[BoundModel, Any] | None = None
        self._one_at_a_time = Exclusive()

    def write(self, name: str, value: Array) -> None:
        """Copy an array into an input."""
        np.copyto(self._inputs[name], value)
        self._bound = None

    def read(self, name: str) -> Array:
        """Return a copy of an output."""
        assert self._last is not None, "the session asks after a run alone"
        model, result = self._last
        return model.outputs(result)[self._outputs.index(name)].copy()

    def carry(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Copy outputs of the last run into inputs."""
        for one, other in pairs:
            self.write(other, self.read(one))

    def run(self) -> None:
        """Run the model once."""
        with self._one_at_a_time:
            self._run()

    def _run(self) -> None:
        if self._bound is None:
            self._bound = self._bind(self._inputs)
        self._last = self._bound, self._bound.run()

    def benchmark(self, number: int, repeat: int) -> list[float]:
        """Return seconds a run, as of :class:`Executor`."""
        with self._one_at_a_time:
            self._run()
            samples: list[float] = []
            for _ in range(repeat):
                begin = time.perf_counter()
                for _ in range(number):
                    self._run()
                samples.append((time.perf_counter() - begin) / number)
            return samples

    def profile(self) -> tuple[Span, ...]:
        """Raise SessionError: the runtime's launches are not known."""
        raise SessionError("another runtime runs this model: it has no profile of launches")

    def close(self) -> None:
        """Refuse every later run."""
        self._one_at_a_time.close()


def _port_json(port: Port) -> dict[str, Any]:
    return {"name": port.name, "shape": port.shape, "dtype": port.dtype}


def _port(data: Mapping[str, Any]) -> Port:
    return read_as(Port, {**data, "buffer": data["name"]})
