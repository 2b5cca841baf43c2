"""The record of a model that is being optimised, which all phases of the work share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.api.fallback import require_onnxruntime
from tvm_ios.api.options import ONNXRUNTIME, Options
from tvm_ios.api.outcomes import leaving_out_little
from tvm_ios.api.tails import require_same_tail
from tvm_ios.api.tvm_build import TvmBuild
from tvm_ios.clock import Clock
from tvm_ios.errors import UserError
from tvm_ios.models.source import AnyModel
from tvm_ios.program.bfloat16 import FORM, require_precision
from tvm_ios.progress import Progress
from tvm_ios.schedule.published.imported import read_schedule

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from relay_passes.measured_module import MeasuredModule
    from relay_passes.prepared import Prepared
    from relay_passes.search_options import SearchOptions
    from tvm_ios.contest.outputs import Reference
    from tvm_ios.schedule.schedule import Schedule

#: The part of the time limit in which schedules are searched; the rest builds and compares.
_SEARCHING = 0.5


@dataclass(frozen=True)
class Job:
    """A model that is being optimised, with what all phases of the work need."""

    #: The model as it was read.
    loaded: LoadedModel
    #: Its units, compiled for the target.
    module: MeasuredModule[Any]
    #: The options of the call.
    options: Options
    #: The schedule of the file that the user gave, to be tried too.
    given: Schedule | None
    #: TVM's own build of the model.
    own: TvmBuild
    #: Times the phases, and enforces the time limit.
    clock: Clock
    #: Called with (phase, done, total).
    report: Progress
    #: A temporary folder.
    folder: Path
    #: The outputs that programs must compute, once they are known.
    reference: Reference | None = None

    @property
    def prepared(self) -> Prepared:
        """The units of the model, as schedules are applied to them."""
        return self.module.prepared

    @property
    def search(self) -> SearchOptions:
        """The options of the search, with the gap below which gains are not looked for."""
        return self.module.options

    @property
    def on_cpu(self) -> bool:
        """Whether programs are timed on this machine's CPU, beside which other runtimes run."""
        here = self.options.is_measured and self.search.fleet is None
        return here and self.module.units.backend.executor == "native"


def load_job(
    model: AnyModel | LoadedModel, options: Options, folder: Path, report: Progress
) -> Job:
    """Read a model, and require that it can be optimised as the options say."""
    from relay_passes.load import load_model

    search, clock = options.search, Clock(options.search.limits.budget.time_limit)
    loaded = load_model(model, report, search.dump_ir, options=search)
    if options.cost is None and options.memory_budget is None:
        search = leaving_out_little(search)
    from relay_passes.checks import require_numpy_types, require_states
    from relay_passes.measured_module import measured_module

    if ONNXRUNTIME in options.fallback:
        require_onnxruntime(loaded)
    prepared = loaded.prepared(search.dump_ir)
    require_numpy_types(prepared)
    require_states(prepared, options.states, loaded.tail)
    given = None
    if options.schedule is not None:
        given = read_schedule(options.schedule, prepared.units).schedule
        require_precision(given.policy, given.kernels.values(), search.precision)
    if loaded.tail is not None and options.is_measured:
        require_same_tail(loaded, options.verify)
    clock.lap("import")
    module = measured_module(prepared, search, report)
    if not options.is_measured and options.schedule is None and search.precision == FORM:
        raise UserError(
            f"units for {FORM} are chosen by measuring, and by {options.cost} nothing is measured: "
            "leave out the precision or the cost"
        )
    module.end_searches_at(clock.share(_SEARCHING))
    own = TvmBuild(loaded, search, options.tvm_build or folder / "tvm.so", report)
    return Job(loaded, module, options, given, own, clock, report, folder)
