"""TVM's own build of the unscheduled model, compiled on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.files.array_files import Array
from tvm_ios.progress import Progress

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from relay_passes.search_options import SearchOptions

#: Seconds of a run after which no further sample is run: an untuned build may take a hundred times
#: as long as our program.
_PATIENCE = 3.0


@dataclass
class TvmBuild:
    """TVM's own build of a model for this CPU, compiled on demand to a ``.so`` at ``path``.

    ``seconds`` are those of its last run for outputs; None before one.
    """

    loaded: LoadedModel
    options: SearchOptions
    path: Path
    progress: Progress
    seconds: float | None = field(default=None, init=False)
    _is_made: bool = field(default=False, init=False)

    def make(self) -> None:
        """Compile the library, unless it was done."""
        if self._is_made:
            return
        self.progress("building TVM's own", 0, 1)
        # It is built for this machine even if programs run on a fleet: their outputs are compared
        # with those of this build.
        here = replace(self.options, fleet=None)
        self.loaded.dialect.compile_tvm_build(self.loaded.module, here, self.path)
        self._is_made = True
        self.progress("building TVM's own", 1, 1)

    def outputs(self, samples: Sequence[Mapping[str, Array]]) -> list[list[Array]]:
        """Return the build's outputs for samples of inputs, by name in the model's order.

        If a run takes long, only the first samples are run.
        """
        from runtime_ext.execution.bound_model import library_runs

        self.make()
        outputs: list[list[Array]] = []
        for arrays, seconds in library_runs(self.path, samples):
            outputs.append(arrays)
            self.seconds = seconds
            if seconds > _PATIENCE:
                break
        return outputs
