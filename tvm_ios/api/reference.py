"""The outputs that a model's programs have to compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm_ios.contest.outputs import Reference, Verify
from tvm_ios.contest.tolerance import rounds
from tvm_ios.schedule.first_difference import kinds

if TYPE_CHECKING:
    from runtime_ext.execution.built_model import BuiltModel
    from tvm_ios.api.job import Job


def reference_for(job: Job, program: BuiltModel, *, on_cpu: bool, runs: bool = True) -> Reference:
    """Return the outputs that programs must compute for the inputs of one of them.

    ``on_cpu`` says whether they run on a CPU; without ``runs`` only inputs are made.
    """
    if job.reference is not None:
        return job.reference
    from runtime_ext.execution.model_session import random_values
    from runtime_ext.verification.reference import ComparedModel, reference_of

    loaded = job.loaded
    job.report("computing the reference", 0, 1)
    reference = reference_of(
        ComparedModel(loaded.original, loaded.onnx, job.own.outputs),
        random_values(program.inputs),
        job.options.verify if runs else Verify.off,
        precision=job.search.precision or "float32",
        quantised=rounds(kinds(program.schedule.get("graph", {}))),
        # TVM's reductions turn infinities alone into finite numbers; so do ours in Relay and on
        # GPUs.
        infinities=loaded.dialect.name == "relax" and on_cpu,
    )
    job.report("computing the reference", 1, 1)
    return reference
