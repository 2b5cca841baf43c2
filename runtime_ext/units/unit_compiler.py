"""Compile units for any device: every kernel once, in parallel, and equal ones together."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from runtime_ext.kernels.artefact import Artefact, kernel_key
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
    """Compiles units and keeps their code; a subclass compiles kernels for a kind of device.

    Parameters
    ----------
    target
        Names what the code is for, in the keys of kernels.
    log
        Tuned kernels. A unit that it has gets these, unless :meth:`keep` says that others are
        faster; the others get the default ones.
    """

    #: On a GPU what makes kernels of co-scheduled stages.
    fuser: StageFuser | None = None
    #: The numbers in which tensors may lie between units, read and written as float32.
    encodings: frozenset[str] = frozenset()
    #: Elements of a cache line, at which pixels of images begin; 1 if that would gain nothing.
    line = 1

    def __init__(self, target: str, log: TuningLog | None = None) -> None:
        self._target_name = target
        #: The tuning log, which counts what it has and has not.
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
        """The plans of a unit that need no name: those of the tuning log and, last, the default."""

    @abstractmethod
    def _rkernel_plans(self, source: UnitSource) -> dict[str, UnitPlan]:
        """All ways to compute a unit, of different code; the default is the first."""

    def _named_plans(self, source: UnitSource) -> dict[str, UnitPlan]:
        """The ways to compute a unit that only a schedule's name chooses, such as a library's."""
        return {}

    def _measured_plans(self, source: UnitSource) -> dict[str, UnitPlan]:
        """Those of :meth:`_named_plans` that may be the fastest: they are compiled and timed."""
        return {}

    @abstractmethod
    def _find(self, key: str) -> Artefact | None:
        """A kernel that was compiled before, perhaps by another process."""

    @abstractmethod
    def _build(self, key: str, workload: Workload) -> Artefact:
        """Compile a kernel, and keep it where :meth:`_find` finds it."""

    def compile(
        self, units: Mapping[str, UnitSource], progress: Steps | None = None
    ) -> dict[str, CompiledUnit]:
        """Compile units; equal kernels, also those of earlier calls, share their code.

        Parameters
        ----------
        units
            The units by name; the result has the same names.
        progress
            Called with kernels done and all of them, after each.
        """
        plans = {name: self._planned(source, self._plan) for name, source in units.items()}
        forms = self._compile_different(plans, progress)
        return {name: self._kept[compiled_forms[-1].key] for name, compiled_forms in forms.items()}

    def compile_forms(
        self, units: Mapping[str, UnitSource], progress: Steps | None = None
    ) -> dict[str, tuple[CompiledUnit, ...]]:
        """Compile each unit in all its forms: of a name, as in the log, and, last, by default."""
        plans = {
            name: self._planned(source, self._measured_plans, self._plan)
            for name, source in units.items()
        }
        return self._compile_different(plans, progress)

    def _compile_different(
        self, plans: Mapping[str, Mapping[str, UnitPlan]], progress: Steps | None
    ) -> dict[str, tuple[CompiledUnit, ...]]:
        """For each unit its forms of different code; the last one is the default."""
        self._compile_plans((plan for forms in plans.values() for plan in forms.values()), progress)
        result: dict[str, tuple[CompiledUnit, ...]] = {}
        for name, forms in plans.items():
            by_key: dict[str, CompiledUnit] = {}
            for unit in map(self._unit_code, forms.values()):
                # Where the log's best is the default, it counts as the log's.
                by_key[unit.key] = by_key.pop(unit.key, unit)
            result[name] = tuple(by_key.values())
            # What has a name is taken only where a schedule says so.
            usual = next(form for form in result[name] if not form.name)
            self._kept.setdefault(result[name][-1].key, usual)
        return result

    def chain_kernels(self, source: UnitSource) -> int:
        """Of how many kernels a chain is; 0 if none of them computes what several units do.

        Nothing is compiled.
        """
        return 0

    def rkernels(self, source: UnitSource) -> tuple[str, ...]:
        """The names of the ways to compute a unit; nothing is compiled."""
        return tuple(self._planned(source, self._rkernel_plans, self._named_plans))

    def compile_rkernels(
        self,
        units: Mapping[str, UnitSource],
        progress: Steps | None = None,
        *,
        only: Mapping[str, str] | None = None,
    ) -> dict[str, dict[str, CompiledUnit]]:
        """Compile each unit in every way to cut it: by default, as in the log, coarse and fine.

        A way that only a schedule's name chooses is there if ``only`` asks for it.

        Parameters
        ----------
        units, progress
            As of :meth:`compile`.
        only
            For each unit the name of the only form that is wanted.

        Returns
        -------
        dict
            For each unit its forms by name, all of different code.

        Raises
        ------
        KeyError
            If a unit has no form of the wanted name.
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
        """Compile kernels that are no unit's."""
        keys = [self._key(workload) for workload in workloads]
        workload_by_key = dict(zip(keys, workloads, strict=True))
        self._compile_missing(
            {k: w for k, w in workload_by_key.items() if k not in self._artefacts}, None
        )
        return [self._artefacts[key] for key in keys]

    def keep(self, forms: Sequence[CompiledUnit], best: CompiledUnit) -> None:
        """Give :meth:`compile` one of the forms of a unit to return from now on."""
        self._kept[forms[-1].key] = best

    def _planned(
        self, source: UnitSource, *makers: Callable[[UnitSource], dict[str, UnitPlan]]
    ) -> dict[str, UnitPlan]:
        """A unit's plans by some methods, made once for all equal units: programs share most."""
        plans: dict[str, UnitPlan] = {}
        for make in makers:
            key = (make.__name__, *source.key)
            if key not in self._plans:
                self._plans[key] = make(source)
            plans |= self._plans[key]
        return plans

    def log_use(self) -> LogUse | None:
        """How much of the tuning log is used; None without one."""
        if self.log is None:
            return None
        used = {name for unit in self._kept.values() for name in unit.tuned}
        return LogUse(len(self.log.matched), len(used), len(self.log.unmatched))

    def _as_in_log(
        self, source: UnitSource, default: UnitPlan, space: Space
    ) -> dict[str, UnitPlan]:
        """The plans that the log has for a unit, by form; ``default`` is its default plan."""
        if self.log is None or not default.kernels:
            return {}
        key = repr(default)
        if key not in self._tuned:
            self._tuned[key] = tuned_plans(source, space, self.log)
        return self._tuned[key]

    def workload(self, symbol: str) -> Workload:
        """What the kernel of a symbol computes.

        Raises
        ------
        KeyError
            If no unit that was compiled has this symbol.
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
        workload = repr(spec)
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
                # An interrupt or a failure must not wait for all that was not begun yet.
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
                calls.append(PhaseCall(phase.symbol, phase.tiles, arguments))
        code = UnitCode(parameters, len(plan.outputs), tuple(scratch), tuple(calls))
        key = kernel_key(repr((code, plan.constants)), self._target_name)
        is_library = any(isinstance(kernel.spec, LibraryConvolution) for kernel in plan.kernels)
        library = CUDNN if is_library else ""
        forms = tuple(type(kernel.spec).__name__.lower() for kernel in plan.kernels)
        return CompiledUnit(
            code, plan.constants, key, tuple(keys), plan.tuned, library, plan.name, forms
        )
