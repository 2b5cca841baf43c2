"""What a runner is: something that can run a model, to be timed beside others."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_ios.errors import UserError

Array = np.ndarray[Any, Any]


class RunnerError(UserError):
    """A runner that is unknown or cannot be used here: one sentence with the way out."""


@dataclass(frozen=True, slots=True)
class Started:
    """A model on a runner, with its inputs.

    Attributes
    ----------
    run
        Runs it once; what it returns is for :attr:`outputs` alone.
    outputs
        The outputs, in the model's order, from what ``run`` returned.
    """

    run: Callable[[], Any]
    outputs: Callable[[Any], list[Array]]


@dataclass(frozen=True, slots=True)
class Runner:
    """A way to run models.

    Attributes
    ----------
    name
        As users say it.
    module
        The module whose ``start(path, inputs, lanes)`` makes it ready: path of the file that it
        reads, inputs by name, threads.
    reads
        Name of that file (see :mod:`tvm_ios.bench.bench`).
    library
        The Python package that it needs besides those of tvm-ios; its distribution has the same
        name.
    extra
        The extra of tvm-ios that installs it.
    programs
        Programs that it needs.
    """

    name: str
    module: str
    reads: str
    library: str | None = None
    extra: str | None = None
    programs: tuple[str, ...] = ()

    def start(self, path: Path, inputs: Mapping[str, Array], lanes: int) -> Started:
        """Make a model ready to run on so many threads; may take minutes.

        Raises
        ------
        UserError
            If the runner refuses the model.
        """
        return importlib.import_module(self.module).start(path, inputs, lanes)

    def require_available(self) -> None:
        """Find out whether it could start, without importing anything.

        Raises
        ------
        RunnerError
            If something is not installed; says what installs it.
        """
        if self.library is not None and importlib.util.find_spec(self.library) is None:
            raise RunnerError(
                f"the runner {self.name} needs {self.library}, which is not installed: "
                f"pip install 'tvm-ios[{self.extra}]'"
            )
        for program in self.programs:
            if shutil.which(program) is None:
                raise RunnerError(
                    f"the runner {self.name} needs the program {program}, which is not on the PATH"
                )
