"""Executables as modules of TVM's runtime: loaded by path, run without this package's Python.

Importing this file registers the loader of ``.tvm_ios`` files, so that
``tvm.runtime.load_module("out/model.tvm_ios")`` works; :func:`load_module` wraps such a module
in the style of TVM's ``GraphModule``. From C++ see ``docs/runtime_module.md``. A deployment is such
a module too, which picks a program by the shapes that it is given.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

from runtime_ext.execution.packages.package import open_folder
from runtime_ext.native_library import load_native_library
from tvm_ios.deployment.registry import is_deployment
from tvm_ios.files.array_files import Array

load_native_library()


class ScheduledModule:
    """A module of an executable with NumPy arrays in and out.

    It is one session: not re-entrant, one thread at a time. Its functions raise what those of
    :class:`runtime_ext.execution.session.Session` do.

    Parameters
    ----------
    module
        The module from ``tvm.runtime.load_module`` or ``tvm_ffi.load_module``.
    keeper
        An object that keeps the files for as long as this object lives.
    """

    def __init__(self, module: tvm_ffi.Module, keeper: object = None) -> None:
        self.module = module
        self._keeper = keeper
        self._set_input = module["set_input"]
        self._run = module["run"]
        self._get_output = module["get_output"]

    def set_input(self, key: int | str | None = None, value: Any = None, **inputs: Any) -> None:
        """Copy inputs in: one by place or name, or several by name."""
        if key is not None:
            self._set_input(key, _tensor(value))
        for name, content in inputs.items():
            self._set_input(name, _tensor(content))

    def bind_state(self, output: int | str, key: int | str) -> None:
        """Make an output the value of an input in the next run, unless that is set before.

        At first the input is zeros.
        """
        self.module["bind_state"](output, key)

    def reset_states(self) -> None:
        """Set all states to zeros."""
        self.module["reset_states"]()

    def run(self, **inputs: Any) -> None:
        """Run once, after setting the inputs given; inputs set before stay."""
        self.set_input(**inputs)
        self._run()

    def run_many(
        self, requests: Iterable[Mapping[str, Any]], workers: int | None = None
    ) -> list[dict[str, Array]]:
        """Run requests, each on one lane of a worker, and return their outputs by name, in order.

        Parameters
        ----------
        requests
            Each has all inputs by name.
        workers
            How many; by default what :meth:`runtime_ext.execution.session.Session.pool` has.

        Raises
        ------
        Exception
            That of the first request that failed, when all others have run.
        """
        tensors = [{name: _tensor(v) for name, v in request.items()} for request in requests]
        results = self.module["run_many"](tensors, *([] if workers is None else [workers]))
        names = self.get_output_names()
        return [
            {name: np.from_dlpack(output) for name, output in zip(names, result, strict=True)}
            for result in results
        ]

    def get_input(self, which: int | str = 0) -> Array:
        """Return a copy of an input, by place or name."""
        return np.from_dlpack(self.module["get_input"](which))

    def get_output(self, which: int | str = 0, out: Any = None) -> Array:
        """Return a copy of an output of the last run, by place or name.

        It is written to ``out`` if that is given.
        """
        if out is None:
            return np.from_dlpack(self._get_output(which))
        self._get_output(which, tvm_ffi.from_dlpack(out))
        return out

    def get_num_inputs(self) -> int:
        """Return the number of inputs."""
        return self.module["get_num_inputs"]()

    def get_num_outputs(self) -> int:
        """Return the number of outputs."""
        return self.module["get_num_outputs"]()

    def get_input_names(self) -> list[str]:
        """Return the inputs' names, in order."""
        return [str(name) for name in self.module["get_input_names"]()]

    def get_output_names(self) -> list[str]:
        """Return the outputs' names, in order."""
        return [str(name) for name in self.module["get_output_names"]()]

    def input_info(self, which: int | str = 0) -> tuple[tuple[int, ...], str]:
        """Return shape and type of an input."""
        return _shape_and_type(self.module["input_info"](which))

    def output_info(self, which: int | str = 0) -> tuple[tuple[int, ...], str]:
        """Return shape and type of an output."""
        return _shape_and_type(self.module["output_info"](which))

    def benchmark(self, number: int = 1, repeat: int = 10) -> list[float]:
        """Return seconds a run: ``repeat`` samples, each the mean of ``number`` runs."""
        return list(self.module["benchmark"](number, repeat))

    def profile(self) -> list[dict[str, Any]]:
        """Run once: return lane, launch, unit, kernel, begin and end (seconds) of every launch."""
        return [dict(launch.items()) for launch in self.module["profile"]()]

    def reserve(self) -> None:
        """Take at once the memory that any shape of a range may need, also for later workers."""
        self.module["reserve"]()

    def close(self) -> None:
        """End the threads; the last outputs can still be read."""
        self.module["close"]()


class DeployedModule(ScheduledModule):
    """A module of a deployment: inputs have any shapes that one of its programs serves.

    :meth:`run` picks the program, opens it if it is the first time, and raises
    :class:`tvm_ios.deployment.registry.DeploymentError` if none serves the inputs. Extents of
    inputs and outputs that are not known yet are -1.
    """

    def entries(self) -> list[dict[str, Any]]:
        """Return a description of each program; ``misfit`` says why it cannot run here."""
        return [_entry(entry) for entry in self.module["entries"]()]

    def chosen(self) -> dict[str, Any]:
        """Return the program of the last run, as :meth:`entries` describes it."""
        return _entry(self.module["chosen"]())


def load_module(path: Path | str, *, lanes: int | None = None) -> ScheduledModule:
    """Load an executable or a deployment.

    Parameters
    ----------
    path
        Its folder, the file ``model.tvm_ios`` in it, or the ``.tar`` of an executable.
    lanes
        Lanes that a deployment's programs may use; by default as many as there are CPUs for this
        process. An executable has its own.

    Raises
    ------
    ExecutableError, DeploymentError
        Naming the first thing that does not fit.
    """
    folder = Path(path)
    if is_deployment(folder if folder.is_dir() else folder.parent):
        if lanes is None:
            return DeployedModule(tvm_ffi.get_global_func("tvm_ios.load_executable")(str(path)))
        load = tvm_ffi.get_global_func("tvm_ios.load_deployment")
        return DeployedModule(load(str(path), lanes))
    # Kernels stay mapped and all else is in memory, but workers read the unpacked folder of a tar
    # again.
    folder, keeper = open_folder(Path(path))
    load = tvm_ffi.get_global_func("tvm_ios.load_unpacked_executable")
    return ScheduledModule(load(os.fspath(folder), os.fspath(path)), keeper)


def _tensor(value: Any) -> tvm_ffi.Tensor:
    if isinstance(value, tvm_ffi.Tensor):
        return value
    return tvm_ffi.from_dlpack(np.require(value, requirements=["C", "W"]))


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    inputs = {str(port["name"]): _shape_and_type(port) for port in entry["inputs"]}
    return {**dict(entry.items()), "inputs": inputs}


def _shape_and_type(info: Mapping[str, Any]) -> tuple[tuple[int, ...], str]:
    return tuple(int(extent) for extent in info["shape"]), str(info["dtype"])
