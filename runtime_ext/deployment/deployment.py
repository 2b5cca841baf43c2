"""A deployment that was loaded: programs of one model, of which one is taken for given shapes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runtime_ext.deployment.files import entry_folder
from runtime_ext.deployment.machine import this_machine
from runtime_ext.deployment.session import DeploymentSession
from runtime_ext.execution.executable import Executable, load
from runtime_ext.execution.foreign_build import ForeignBuild
from tvm_ios.deployment.choice import Machine, Shapes, choose
from tvm_ios.deployment.entry import Entry
from tvm_ios.deployment.registry import DeploymentError, Registry, is_deployment, read_registry


@dataclass(frozen=True)
class Deployment:
    """Programs of one model for several shapes, machines and numbers of lanes.

    Attributes
    ----------
    folder
        Where it is.
    registry
        What it holds.
    machine
        What is taken for.
    """

    folder: Path
    registry: Registry
    machine: Machine

    def choose(self, shapes: Shapes) -> Entry:
        """The entry that the machine takes for these shapes of all inputs.

        Raises
        ------
        DeploymentError
            If none fits; names what there is.
        """
        return choose(self.registry.entries, self.machine, shapes)

    def executable(self, entry: Entry) -> Executable:
        """The program of an entry.

        Raises
        ------
        ExecutableError
            If a file of it is damaged or missing.
        """
        loaded = load(entry_folder(self.folder, entry.id))
        if not isinstance(loaded, Executable):
            raise DeploymentError(f"entry {entry.id} of {self.folder} is no executable")
        return loaded

    def session(self, *, device: int = 0, pin: bool | None = None) -> DeploymentSession:
        """A session for inputs of any shapes that the deployment serves.

        Parameters
        ----------
        device, pin
            As of :class:`runtime_ext.execution.session.Session`.
        """
        return DeploymentSession(
            self.registry.entries,
            self.machine,
            lambda entry: self.executable(entry).session(device=device, pin=pin),
        )


def load_deployment(folder: Path | str, *, lanes: int | None = None) -> Deployment:
    """Load a deployment for this machine.

    Parameters
    ----------
    folder
        The deployment.
    lanes
        Lanes that a program may use; by default as many as there are CPUs for this process.

    Raises
    ------
    DeploymentError
        If there is none, or its registry is damaged.
    """
    folder = Path(folder)
    registry = read_registry(folder)
    return Deployment(folder, registry, this_machine(registry.entries, lanes))


def load_program(
    path: Path | str, *, lanes: int | None = None
) -> Executable | ForeignBuild | Deployment:
    """Load what ``optimize`` saved: an executable, another runtime's build, or a deployment.

    Parameters
    ----------
    path
        A folder or a ``.tar``.
    lanes
        As of :func:`load_deployment`; an executable has its own.

    Raises
    ------
    UserError
        If it cannot be used here; one sentence says why.
    """
    path = Path(path)
    return load_deployment(path, lanes=lanes) if is_deployment(path) else load(path)
