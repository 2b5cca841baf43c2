"""Options of the backend, as ``torch.compile(options={...})`` gives them."""
# pyright: basic, reportMissingImports=warning

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.errors import UserError, nearest

if TYPE_CHECKING:
    from tvm_ios.api.options import Options

#: The mode in which all policies compete, however long that takes.
MAX_AUTOTUNE = "max-autotune"
_MODES = ("default", MAX_AUTOTUNE)
_FALLBACKS = ("eager", "inductor")


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """Options of ``torch.compile(model, backend="tvm_ios", options={...})``.

    Attributes
    ----------
    lanes
        Threads; by default as many as torch uses.
    policy
        The policy that schedules each graph (:mod:`tvm_ios.policies`): by default ``sequential``,
        with ``mode="max-autotune"`` all.
    precision
        ``"float32"``, or ``"bfloat16"`` as of ``tvm-ios optimize --precision``.
    seconds
        The time to search and compare in, for each graph; kernels are compiled in any case.
    cache
        A folder of compiled graphs and kernels, by default that of all commands.
    fallback
        What runs a graph that we do not: ``"eager"`` or ``"inductor"``.
    mode
        ``"default"``, or ``"max-autotune"``: all policies compete, without a limit of time.
    """

    lanes: int | None = None
    policy: str | None = None
    precision: str = "float32"
    seconds: float = 3.0
    cache: str | Path | None = None
    fallback: str = "eager"
    mode: str = "default"

    def __post_init__(self) -> None:
        _require_one_of("mode", self.mode, _MODES)
        _require_one_of("fallback", self.fallback, _FALLBACKS)
        _require_one_of("precision", self.precision, ("float32", "bfloat16"))
        if self.lanes is not None and self.lanes < 1:
            raise UserError(f"lanes={self.lanes} is no number of threads: give at least 1")
        if self.seconds < 0:
            raise UserError(f"seconds={self.seconds} is no time: give 0 or more")
        if self.policy is not None:
            from tvm_ios.policies.registry import policy_named

            policy_named(self.policy)

    @property
    def cache_folder(self) -> Path:
        """The folder of compiled graphs and kernels."""
        from runtime_ext.machine.this_machine import cache_folder

        return cache_folder() if self.cache is None else Path(self.cache).expanduser()

    @property
    def threads(self) -> int:
        """The number of lanes: as many as torch uses, if none is given, and not more than CPUs."""
        import torch

        from runtime_ext.machine.this_machine import available_lanes

        return self.lanes or min(torch.get_num_threads(), available_lanes())

    def for_optimize(self) -> Options:
        """Return the options with which a graph of one shape is optimised."""
        from dataclasses import replace

        from relay_passes.search_options import SearchOptions
        from tvm_ios.api.options import Options
        from tvm_ios.contest.outputs import Verify

        search = SearchOptions(
            lanes=self.threads,
            cache=self.cache_folder,
            precision="" if self.precision == "float32" else self.precision,
        )
        contest = self.mode == MAX_AUTOTUNE
        policies = None if contest else ("sequential",)
        if not contest:
            budget = replace(search.limits.budget, time_limit=self.seconds)
            search = replace(search, limits=replace(search.limits, budget=budget))
        return Options(
            search=search,
            policies=policies if self.policy is None else (self.policy,),
            fallback=(),
            beside_tvm=False,
            # The backend compares with torch itself.
            verify=Verify.off,
        )


def read_options(mode: str | None, options: Mapping[str, Any] | None) -> BackendOptions:
    """Return the options of one call of ``torch.compile``; raise UserError if one is unknown."""
    given = dict(options or {})
    if mode is not None:
        given["mode"] = mode
    known = [field.name for field in fields(BackendOptions)]
    for name in given:
        if name not in known:
            raise UserError(
                f"the backend tvm_ios has no option {name!r}: it has {', '.join(known)}"
                f"{nearest(name, known)}"
            )
    return BackendOptions(**given)


def _require_one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UserError(f"{name}={value!r} is not one of {', '.join(known)}{nearest(value, known)}")
