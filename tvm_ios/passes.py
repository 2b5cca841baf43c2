"""TVM passes that schedule operators, under a name that is easy to find, and TVM's door to them.

The passes live in :mod:`relay_passes`. ``import tvm`` calls :func:`register`, an entry point of the
group ``tvm.backends``.
"""

# TVM has no stubs, and its map of pipelines no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relay_passes import (
        GraphTurboPartition,
        IOSSchedule,
        LegalizeUnits,
        MemorySchedule,
        SearchOptions,
    )

__all__ = ["GraphTurboPartition", "IOSSchedule", "LegalizeUnits", "MemorySchedule", "SearchOptions"]

#: The name of the pipeline among Relax's.
PIPELINE = "tvm_ios"


def __getattr__(name: str) -> Any:
    import relay_passes

    # Imported at the first use, because TVM imports this module.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(relay_passes, name)


def register() -> None:
    """Register the Relax pipeline ``tvm_ios``, unless this TVM knows it or has no Relax."""
    try:
        from tvm.relax import pipeline
    except ImportError:
        # A TVM that has Relay, or the runtime alone.
        return
    if PIPELINE not in pipeline.PIPELINE_MAP:
        pipeline.register_pipeline(PIPELINE)(scheduled)


def scheduled(policy: str = "ios-both", cost: str = "measured", **options: Any) -> Any:
    """Return the pipeline that schedules a Relax module: ``relax.get_pipeline("tvm_ios")``.

    Parameters
    ----------
    policy, cost
        As of :class:`relay_passes.IOSSchedule`.
    options
        Its other parameters.

    Returns
    -------
    tvm.transform.Pass
        A pass. ``relax.build`` compiles what it returns, one unit after another by TVM;
        :func:`runtime_ext.build.build` as it is scheduled.

    Raises
    ------
    UserError
        If a parameter cannot be used.
    """
    import tvm

    from relay_passes import IOSSchedule

    return tvm.transform.Sequential([IOSSchedule(policy, cost, **options)], name=PIPELINE)
