"""An executable: everything that a session needs, in a folder or ``.tar`` that others can run.

It holds the program (``program_files.py``), ``kernels.so`` (for a GPU ``kernels.safetensors``),
``params.safetensors`` (constants in the kernels' layout, each content once), ``meta.json``
(versions, target, inputs and outputs) and ``SHA256SUMS``. A model's tail, which runs after the
program, is run by :meth:`Executable.session` only: other loaders have the inputs and outputs of the
program.

The C++ loader (``runtime_ext/native/executable.cc``) reads and checks all of it, also for this
file, which in addition proves that the program is free of races and its memory plan safe. An
executable for a GPU can be loaded, but not run, without one.

An entry of a deployment (``runtime_ext/deployment``) is an executable too, whose weights and
kernels lie in files that it shares with other entries.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime_ext.execution.buffers import adopt_constant, content_key
from runtime_ext.execution.foreign_build import ForeignBuild, foreign_build
from runtime_ext.execution.packages.kernel_files import (
    PACKAGES,
    TVM,
    Libraries,
    call_tvm,
    kernels_of,
    load_functions,
    packed,
    read_launched,
)
from runtime_ext.execution.packages.package import META, open_folder, require_version, write_package
from runtime_ext.execution.packages.program_files import TAIL_FILE, ProgramFiles, read_program_files
from runtime_ext.execution.ports import (
    NO_STATES,
    Port,
    ports_at,
    read_ports,
    saved_states,
    values_at,
)
from runtime_ext.execution.session import ExecutorName, Session
from runtime_ext.native_errors import ExecutableError
from runtime_ext.native_library import load_native_library
from runtime_ext.target_architecture import machine_of
from tvm_ios.deployment.registry import is_deployment
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array, save_tensors
from tvm_ios.files.json_text import json_object, natural
from tvm_ios.program.arena.open_plan import OpenMemoryPlan
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Program, Role, in_box
from tvm_ios.shapes.extent import at_values

if TYPE_CHECKING:
    from runtime_ext.execution.tailed_session import TailedSession
    from tvm_ios.onnx.tail import Tail


@dataclass(frozen=True)
class Executable:
    """A program with its kernels and constants.

    Attributes
    ----------
    program
        The program that sessions run.
    plan
        The memory plan of its intermediate buffers and scratch; of an open program one for all
        shapes.
    kernels
        The shared library that has the program's kernels; for a GPU the file that
        :func:`runtime_ext.cuda.machine_code.launchable.write_kernels` wrote. Where there are
        several, a mapping from each file to the symbols that it has.
    constants
        The content of each constant buffer, by name, in the kernels' layout.
    inputs, outputs
        The inputs and outputs that a user sets and reads.
    schedule
        The schedule as :meth:`tvm_ios.schedule.schedule.Schedule.to_json` gives it.
    target
        The TVM target of the kernels, as text.
    features
        CPU features that the kernels need, by
        :func:`runtime_ext.machine.cpu_features.required_features`.
    fingerprint
        The fingerprint of the graph of units.
    notes
        Anything else worth keeping, as plain data: latencies, policy, errors.
    arch
        The CUDA architecture of the kernels, such as ``sm_90``; None for a CPU's.
    packages
        Packages whose versions the kernels depend on:
        :data:`runtime_ext.execution.packages.kernel_files.PACKAGES`, or the last of them.
    tail
        The end of the model, which runs after the program.
    """

    program: Program
    plan: MemoryPlan | OpenMemoryPlan
    kernels: Path | Libraries
    constants: Mapping[str, Array]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    schedule: Mapping[str, Any]
    target: str
    features: tuple[str, ...]
    fingerprint: str
    notes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    arch: str | None = None
    packages: tuple[str, ...] = PACKAGES
    tail: Tail | None = None
    #: Keeps the unpacked files of a tar for as long as this object lives.
    _keeper: object = field(default=None, repr=False, compare=False)

    def save(self, path: Path | str) -> None:
        """Write the executable to a folder, or to one file if the name ends in ``.tar``.

        Raises
        ------
        ExecutableError
            If something is there that is not an executable, or it cannot be written.
        """
        keys = self.constant_keys()
        files, said = packed(self.libraries, self.arch)

        def fill(folder: Path) -> None:
            params = {k: np.asarray(self.constants[name], order="C") for name, k in keys.items()}
            save_tensors(params, folder / "params.safetensors")
            for name, file in files.items():
                shutil.copyfile(file, folder / name)
            self.write_program(folder)

        write_package(Path(path), self.facts(keys) | said, fill)

    @property
    def libraries(self) -> Libraries:
        """The files of kernels, with the symbols of the program that each has."""
        if isinstance(self.kernels, Path):
            return {self.kernels: self.program.kernels}
        return self.kernels

    def constant_keys(self) -> dict[str, str]:
        """Return the content key of each constant buffer, by name."""
        names = (buffer.name for buffer in self.program.buffers if buffer.role is Role.CONSTANT)
        return {name: content_key(np.asarray(self.constants[name])) for name in names}

    def write_program(self, folder: Path) -> None:
        """Write program, plan, schedule and tail; not constants, kernels and ``meta.json``."""
        ProgramFiles(self.program, self.plan, self.schedule, self.tail).write(folder)

    def facts(self, keys: Mapping[str, str]) -> dict[str, Any]:
        """Return the content of ``meta.json``, given the constants' content keys."""
        return {
            "versions": {name: metadata.version(name) for name in self.packages},
            "machine": machine_of(self.target),
            "target": self.target,
            "features": self.features,
            "arch": self.arch,
            "fingerprint": self.fingerprint,
            "inputs": [port.to_json() for port in self.inputs],
            "outputs": [port.to_json() for port in self.outputs],
            "constants": keys,
            "tail": None if self.tail is None else TAIL_FILE,
            "notes": self.notes,
        }

    def model_ports(self) -> tuple[Sequence[Port], Sequence[Port]]:
        """Return the inputs and outputs of the whole model, as :meth:`session` has them."""
        if self.tail is None:
            return self.inputs, self.outputs
        from runtime_ext.execution.tailed_session import tailed_ports

        return tailed_ports(self.inputs, self.outputs, self.tail)

    @property
    def workers(self) -> int | None:
        """The number of workers that served the most requests a second; None if not measured."""
        throughput = self.notes.get("throughput")
        return None if throughput is None else natural(throughput["workers"])

    @property
    def states(self) -> Mapping[str, str]:
        """The states that :meth:`session` has by default: for outputs, by name, their inputs."""
        return saved_states(self.notes)

    def fixed_plan(self) -> MemoryPlan:
        """Return the memory plan of a program that has one shape.

        Raises
        ------
        ExecutableError
            If its dimensions are open.
        """
        if isinstance(self.plan, OpenMemoryPlan):
            symbols = ", ".join(symbol.name for symbol in self.program.symbols)
            raise ExecutableError(
                f"the executable is for a range of shapes ({symbols}), and this needs one shape"
            )
        return self.plan

    def at_shapes(self, shapes: Mapping[str, Sequence[int]]) -> Executable:
        """Return the program of one shape that a program of a range is there.

        Parameters
        ----------
        shapes
            The shapes of inputs, by name; open dimensions of others have a middle extent.

        Raises
        ------
        SessionError
            If an input never has such a shape.
        """
        if not isinstance(self.plan, OpenMemoryPlan):
            ports_at(self.inputs, shapes)
            return self
        values = values_at(self.inputs, shapes)
        schedule = {k: v for k, v in self.schedule.items() if k != "alternatives"}
        for other in self.schedule.get("alternatives", ()):
            if any(in_box(box, values) for box in other["boxes"]):
                schedule = other["schedule"]
        return replace(
            self,
            schedule=schedule,
            program=self.program.at(values),
            plan=self.plan.at(self.program, values),
            inputs=tuple(at_values(port, values) for port in self.inputs),
            outputs=tuple(at_values(port, values) for port in self.outputs),
        )

    def functions(self) -> dict[str, Any]:
        """Load the program's kernels, and return them by symbol, as a session takes them."""
        if self.arch is not None:
            return read_launched(self.libraries, self.arch)[1]
        if call_tvm(self.arch, self.packages, self.kernels):
            # Importing tvm loads its runtime.
            import tvm  # noqa: F401

        return load_functions(self.libraries)

    def session(
        self,
        executor: ExecutorName | None = None,
        *,
        device: int = 0,
        pin: bool | None = None,
        states: Mapping[str, str] | None = None,
    ) -> Session | TailedSession:
        """Open a session of the whole model; as :meth:`program_session`.

        Parameters
        ----------
        executor, device, pin
            As there.
        states
            As there; by default those that ``optimize --state`` saved.

        Raises
        ------
        UserError
            Also if the tail's runtime refuses it.
        """
        states = self.states if states is None else states
        program = self.program_session(executor, device=device, pin=pin, states=states)
        if self.tail is None:
            return program
        from runtime_ext.execution.tailed_session import TailedSession

        return TailedSession(program, self.tail)

    def program_session(
        self,
        executor: ExecutorName | None = None,
        *,
        device: int = 0,
        pin: bool | None = None,
        states: Mapping[str, str] = NO_STATES,
    ) -> Session:
        """Open a session of the program; constants are shared with all others of this process.

        Parameters
        ----------
        executor, device, pin, states
            As of :class:`runtime_ext.execution.session.Session`; by default ``"native"``, or
            ``"cuda"`` if the kernels are for a GPU.

        Raises
        ------
        ExecutableError
            If the executor cannot run these kernels.
        CudaError
            If there is no GPU, or none that they run on.
        """
        executor = executor or ("native" if self.arch is None else "cuda")
        if executor.startswith("cuda") == (self.arch is None):
            raise ExecutableError(
                f"kernels for {self.arch or 'a CPU'} cannot be run by the executor {executor!r}"
            )
        if self.arch is not None:
            from runtime_ext.cuda.nvidia.driver import open_device

            open_device(device).require(self.arch)
        return Session(
            self.program,
            self.functions(),
            self.constants,
            self.inputs,
            self.outputs,
            plan=self.plan,
            executor=executor,
            device=device,
            pin=pin,
            workers=self.workers,
            states=states,
        )


def load(path: Path | str) -> Executable | ForeignBuild:
    """Load a package that :meth:`Executable.save` wrote, after checking that it can run here.

    Where another runtime was faster, the package holds that runtime's build, which is returned.

    Raises
    ------
    ExecutableError
        Naming the first thing that does not fit: format, checksum, version, CPU.
    """
    path = Path(path)
    if is_deployment(path):
        raise ExecutableError(
            f"{path} is a deployment: take one of its entries, such as {path}/entries/..., or load "
            "it with tvm_ios.api.load"
        )
    folder, keeper = open_folder(path)
    if (build := foreign_build(folder, path, keeper)) is not None:
        return build
    constants = load_native_library()["open_executable"](os.fspath(folder), os.fspath(path))
    folder = folder if folder.is_dir() else folder.parent
    try:
        meta = json_object((folder / META).read_bytes())
        arch = None if meta.get("arch") is None else str(meta["arch"])
        kernels, versions = kernels_of(folder, meta), meta["versions"]
        # The native loader checks tvm-ffi's version; only some kernels need TVM, none of Relay's.
        if call_tvm(arch, versions, kernels):
            or_else = "save it again with this one"
            require_version(f"{path} was made", TVM, versions[TVM], or_else)
        files = read_program_files(folder, tail=bool(meta.get("tail")))
        return Executable(
            program=files.program,
            plan=files.plan,
            kernels=kernels,
            constants={
                name: adopt_constant(np.from_dlpack(content), meta["constants"][name])
                for name, content in constants.items()
            },
            inputs=read_ports(meta["inputs"], files.program),
            outputs=read_ports(meta["outputs"], files.program),
            schedule=files.schedule,
            target=meta["target"],
            features=tuple(meta["features"]),
            fingerprint=meta["fingerprint"],
            notes=meta["notes"],
            arch=arch,
            packages=tuple(name for name in PACKAGES if name in versions),
            tail=files.tail,
            _keeper=keeper,
        )
    except ExecutableError:
        raise
    except UserError as error:
        raise ExecutableError(f"{path} cannot be used: {error}") from error
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, OSError) as error:
        raise ExecutableError(f"{path} lacks or misstates {error}; save it again") from error
