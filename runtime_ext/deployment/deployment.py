"""A loaded deployment: programs of one model, of which one is chosen for given shapes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runtime_ext.deployment.choice import Shapes, choose
from runtime_ext.deployment.files import entry_folder
from runtime_ext.deployment.machine import Machine, this_machine
from runtime_ext.deployment.session import DeploymentSession
from runtime_ext.execution.executable import Executable, load
from runtime_ext.execution.foreign_build import ForeignBuild
from tvm_ios.deployment.entry import Entry
from tvm_ios.deployment.registry import DeploymentError, Registry, is_deployment, read_registry


@dataclass(frozen=True)
class Deployment:
    """Programs of one model for several shapes, machines and numbers of lanes, in a folder.

    ``registry`` has the facts of the entries; an entry is chosen for ``machine``.
    """

    folder: Path
    registry: Registry
    machine: Machine

    def choose(self, shapes: Shapes) -> Entry:
        """Return the entry that the machine runs for these shapes of all inputs.

        Raise DeploymentError, which names the entries, if none fits.
        """
        return choose(self.registry.entries, self.machine, shapes)

    def executable(self, entry: Entry) -> Executable:
        """Load the program of an entry; raise ExecutableError if a file is damaged or missing."""
        loaded = load(entry_folder(self.folder, entry.id))
        if not isinstance(loaded, Executable):
            raise DeploymentError(f"entry {entry.id} of {self.folder} is no executable")
        return loaded

    def session(self, *, device: int = 0, pin: bool | None = None) -> DeploymentSession:
        """Open a session for inputs of any shapes that the deployment serves.

        ``device`` and ``pin`` are as of :class:`runtime_ext.execution.session.Session`.
        """
        return DeploymentSession(
            self.registry.entries,
            self.machine,
            lambda entry: self.executable(entry).session(device=device, pin=pin),
        )


def load_deployment(folder: Path | str, *, lanes: int | None = None) -> Deployment:
    """Load a deployment for this machine; raise DeploymentError if it is missing or damaged.

    Programs may use ``lanes`` lanes, by default as many as there are CPUs for this process.
    """
    folder = Path(folder)
    registry = read_registry(folder)
    return Deployment(folder, registry, this_machine(registry.entries, lanes))


def load_program(
    path: Path | str, *, lanes: int | None = None
) -> Executable | ForeignBuild | Deployment:
    """Load a file of ``optimize``: an executable, another runtime's build, or a deployment.

    ``path`` is a folder or a ``.tar``; ``lanes`` is as of :func:`load_deployment`, while an
    executable has its own. Raise UserError if it cannot be used here.
    """
    path = Path(path)
    return load_deployment(path, lanes=lanes) if is_deployment(path) else load(path)
