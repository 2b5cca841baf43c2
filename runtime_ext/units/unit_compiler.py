"""Compile units for any device: each kernel once, in parallel, equal ones together."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from runtime_ext.kernels.artefact import Artefact, kernel_key, workload_text
from runtime_ext.kernels.library_convolution import CUDNN, LibraryConvolution
from runtime_ext.tuning_log.log import TuningLog
from runtime_ext.tuning_log.space import Space
from runtime_ext.tuning_log.use import LogUse
from runtime_ext.units.plans import tuned_plans
from runtime_ext.units.unit import UnitPlan, UnitSource, Workload
from tvm_ios.measuring.stage_fuser import StageFuser
from tvm_ios.program.compiled_unit import CompiledUnit
from tvm_ios.program.program import BufferType, PhaseCall, UnitCode
from tvm_ios.progress import Steps

_LOGGER = logging.getLogger(__name__)


class UnitCompiler(ABC):
    """A compiler of units that keeps their code; a subclass compiles kernels for a device.

    Parameters
    ----------
    target
        Names the target in the keys of kernels.
    log
        Tuned kernels. A unit that is in the log gets these, unless :meth:`keep` chose others;
        other units get the default ones.
    """

    #: Makes kernels of co-scheduled stages on a GPU; None on a CPU.
    fuser: StageFuser | None = None
    #: Number types in which tensors may be stored between units; kernels read and write them as
    #: float32.
    encodings: frozenset[str] = frozenset()
    #: Elements of a cache line, to which pixels of images are aligned; 1 if that gains nothing.
    line = 1

    def __init__(self, target: str, log: TuningLog | None = None) -> None:
        self._target_name = target
        #: The tuning log, which counts the kernels that it has and lacks.
        self.log = log
        self._artefacts: dict[str, Artefact] = {}
        self._workloads: dict[str, Workload] = {}
        self._key_of: dict[str, str] = {}
        self._kept: dict[str, CompiledUnit] = {}
        self._tuned: dict[str, dict[str, UnitPlan]] = {}
        self._plans: dict[tuple[object, ...], dict[str, UnitPlan]] = {}
        #: Kernels compiled by this object (not found in the cache).
        self.compiled = 0

    @abstractmethod
    def _plan(self, source: UnitSource) -> dict[str, UnitPlan]:
        """Return a unit's plans without named forms: those of the tuning log, the default last."""

    @abstractmethod
    def _rkernel_plans(self, source: UnitSource) -> dict[str, UnitPlan]:
        """Return all plans of a unit with different code, the default first."""

    def _named_plans(self, source: UnitSource) -> dict[str, UnitPlan]:
        """Return the plans that only a schedule selects, by name, such as a library's."""
        return {}

    def _measured_plans(self, source: UnitSource) -> dict[str, UnitPlan]:
        """Return the named plans that may be fastest: they are compiled and timed."""
        return {}

    @abstractmethod
    def _find(self, key: str) -> Artefact | None:
        """Return a kernel compiled before, perhaps by another process, or None."""

    @abstractmethod
    def _build(self, key: str, workload: Workload) -> Artefact:
        """Compile a kernel, and store it for :meth:`_find`."""

    def compile(
        self, units: Mapping[str, UnitSource], progress: Steps | None = None
    ) -> dict[str, CompiledUnit]:
        """Compile units, by name; equal kernels, also those of earlier calls, share their code.

        ``progress`` is called with the kernels done and their total, after each.
        """
        plans = {name: self._planned(source, self._plan) for name, source in units.items()}
        forms = self._compile_different(plans, progress)
        return {name: self._kept[compiled_forms[-1].key] for name, compiled_forms in forms.items()}

    def compile_forms(
        self, units: Mapping[str, UnitSource], progress: Steps | None = None
    ) -> dict[str, tuple[CompiledUnit, ...]]:
        """Compile each unit in all its forms: named, from the log, and, last, the default."""
        plans = {
            name: self._planned(source, self._measured_plans, self._plan)
            for name, source in units.items()
        }
        return self._compile_different(plans, progress)

    def _compile_different(
        self, plans: Mapping[str, Mapping[str, UnitPlan]], progress: Steps | None
    ) -> dict[str, tuple[CompiledUnit, ...]]:
        """Return for each unit its compiled forms of different code, the default last."""
        self._compile_plans((plan for forms in plans.values() for plan in forms.values()), progress)
        result: dict[str, tuple[CompiledUnit, ...]] = {}
        for name, forms in plans.items():
            by_key: dict[str, CompiledUnit] = {}
            for unit in map(self._unit_code, forms.values()):
                # If the log's best equals the default, it counts as the log's.
                by_key[unit.key] = by_key.pop(unit.key, unit)
            result[name] = tuple(by_key.values())
            # A named form is used only if a schedule names it.
            usual = next(form for form in result[name] if not form.name)
            self._kept.setdefault(result[name][-1].key, usual)
        return result

    def chain_kernels(self, source: UnitSource) -> int:
        """Return the number of kernels of a chain of units; 0 if no kernel computes several units.

        Nothing is compiled.
        """
        return 0

    def attention_kernels(self, source: UnitSource) -> int:
        """Return the number of kernels of a chain of units, one of which is an attention, or 0.

        Nothing is compiled.
        """
        return 0

    def rkernels(self, source: UnitSource) -> tuple[str, ...]:
        """Return the names of all plans of a unit; nothing is compiled."""
        return tuple(self._planned(source, self._rkernel_plans, self._named_plans))

    def promising(self, source: UnitSource) -> tuple[str, ...]:
        """Return the names of plans that may be faster than the default; nothing is compiled."""
        return tuple(self._planned(source, self._measured_plans))

    def plan(self, source: UnitSource, kernel: str | None = None) -> UnitPlan:
        """Return the plan of one of :meth:`rkernels`, or the default one; nothing is compiled."""
        if kernel is None:
            return self._planned(source, self._plan)["default"]
        return self._planned(source, self._rkernel_plans, self._named_plans)[kernel]

    def compile_rkernels(
        self,
        units: Mapping[str, UnitSource],
        progress: Steps | None = None,
        *,
        only: Mapping[str, str] | None = None,
    ) -> dict[str, dict[str, CompiledUnit]]:
        """Compile each unit in every form (default, from the log, coarse, fine), by name.

        All forms of a unit have different code. ``only`` gives for each unit the one form that is
        wanted, which may be one that only schedules select; raise KeyError if the unit has no such
        form.
        """
        named = () if only is None else (self._named_plans,)
        plans = {
            name: self._planned(source, self._rkernel_plans, *named)
            for name, source in units.items()
        }
        if only is not None:
            plans = {name: {only[name]: forms[only[name]]} for name, forms in plans.items()}
        self._compile_plans((plan for forms in plans.values() for plan in forms.values()), progress)
        return {
            name: {form: self._unit_code(plan) for form, plan in forms.items()}
            for name, forms in plans.items()
        }

    def compile_workloads(self, workloads: Sequence[Workload]) -> list[Artefact]:
        """Compile kernels that belong to no unit."""
        keys = [self._key(workload) for workload in workloads]
        workload_by_key = dict(zip(keys, workloads, strict=True))
        self._compile_missing(
            {k: w for k, w in workload_by_key.items() if k not in self._artefacts}, None
        )
        return [self._artefacts[key] for key in keys]

    def keep(self, forms: Sequence[CompiledUnit], best: CompiledUnit) -> None:
        """Make :meth:`compile` return ``best`` of a unit's forms from now on."""
        self._kept[forms[-1].key] = best

    def _planned(
        self, source: UnitSource, *makers: Callable[[UnitSource], dict[str, UnitPlan]]
    ) -> dict[str, UnitPlan]:
        """Return a unit's plans by the given methods, cached for equal units."""
        plans: dict[str, UnitPlan] = {}
        for make in makers:
            key = (make.__name__, *source.key)
            if key not in self._plans:
                self._plans[key] = make(source)
            plans |= self._plans[key]
        return plans

    def log_use(self) -> LogUse | None:
        """Return how much of the tuning log is used; None without one."""
        if self.log is None:
            return None
        used = {name for unit in self._kept.values() for name in unit.tuned}
        return LogUse(len(self.log.matched), len(used), len(self.log.unmatched))

    def _as_in_log(
        self, source: UnitSource, default: UnitPlan, space: Space
    ) -> dict[str, UnitPlan]:
        """Return the log's plans for a unit, by form; ``default`` is its default plan."""
        if self.log is None or not default.kernels:
            return {}
        key = repr(default)
        if key not in self._tuned:
            self._tuned[key] = tuned_plans(source, space, self.log)
        return self._tuned[key]

    def workload(self, symbol: str) -> Workload:
        """Return the workload of the kernel that has a symbol.

        Raise KeyError if no compiled unit has this symbol.
        """
        return self._workloads[self._key_of_symbol(symbol)]

    def _compile_plans(self, plans: Iterable[UnitPlan], progress: Steps | None) -> None:
        workload_by_key: dict[str, Workload] = {}
        for kernel in (kernel for plan in plans for kernel in plan.kernels):
            workload_by_key.setdefault(self._key(kernel.spec), kernel.spec)
        self._compile_missing(
            {k: s for k, s in workload_by_key.items() if k not in self._artefacts}, progress
        )

    def _key_of_symbol(self, symbol: str) -> str:
        key = symbol[1:].rsplit("_", 1)[0]
        if key not in self._artefacts:
            raise KeyError(
                f"no kernel with the symbol {symbol} was compiled; compile its unit first"
            )
        return key

    def _key(self, spec: Workload) -> str:
        workload = workload_text(spec)
        if workload not in self._key_of:
            self._key_of[workload] = kernel_key(workload, self._target_name)
        return self._key_of[workload]

    def _compile_missing(
        self, workload_by_key: Mapping[str, Workload], progress: Steps | None
    ) -> None:
        if not workload_by_key:
            return
        self._workloads.update(workload_by_key)
        missing: dict[str, Workload] = {}
        for key, spec in workload_by_key.items():
            cached = self._find(key)
            if cached is None:
                missing[key] = spec
            else:
                self._artefacts[key] = cached
        done = len(workload_by_key) - len(missing)
        _LOGGER.info("kernels: %d to compile, %d from the cache", len(missing), done)
        if progress is not None:
            progress(done, len(workload_by_key))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = [pool.submit(self._build, key, spec) for key, spec in missing.items()]
            try:
                for job in as_completed(jobs):
                    artefact = job.result()
                    self._artefacts[artefact.key] = artefact
                    self.compiled += 1
                    done += 1
                    if progress is not None:
                        progress(done, len(workload_by_key))
            except BaseException:
                # After an interrupt or a failure, do not wait for work that has not begun.
                pool.shutdown(cancel_futures=True)
                raise

    def _unit_code(self, plan: UnitPlan) -> CompiledUnit:
        parameters = (*plan.inputs, *plan.constant_types, *plan.outputs)
        scratch = list(plan.scratch)
        calls: list[PhaseCall] = []
        keys: list[str] = []
        for kernel in plan.kernels:
            artefact = self._artefacts[self._key(kernel.spec)]
            keys.append(artefact.key)
            buffers = [*kernel.buffers]
            for shape, dtype in artefact.scratch:
                buffers.append(len(parameters) + len(scratch))
                scratch.append(BufferType(shape, dtype))
            for phase in artefact.phases:
                arguments = tuple(buffers[a] for a in phase.arguments)
                calls.append(PhaseCall(phase.symbol, phase.tiles, arguments, phase.scalars))
        code = UnitCode(parameters, len(plan.outputs), tuple(scratch), tuple(calls))
        key = kernel_key(workload_text((code, plan.constants)), self._target_name)
        is_library = any(isinstance(kernel.spec, LibraryConvolution) for kernel in plan.kernels)
        library = CUDNN if is_library else ""
        forms = tuple(type(kernel.spec).__name__.lower() for kernel in plan.kernels)
        return CompiledUnit(
            code, plan.constants, key, tuple(keys), plan.tuned, library, plan.name, forms
        )
