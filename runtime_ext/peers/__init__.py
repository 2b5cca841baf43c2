"""What models can be run with, side by side: one runner a file, one line here."""

from __future__ import annotations

from collections.abc import Sequence

from runtime_ext.peers.runner import Runner, RunnerError, Started

__all__ = ["EXECUTABLE", "RUNNERS", "Runner", "RunnerError", "Started", "opponents"]

#: Runs what tvm-ios made.
EXECUTABLE = Runner("executable", "runtime_ext.peers.executable", "ours")

_MODEL = "model.onnx"

RUNNERS: dict[str, Runner] = {
    runner.name: runner
    for runner in (
        Runner("onnxruntime", "runtime_ext.peers.onnx_runtime", _MODEL, "onnxruntime", "bench"),
        Runner("torch", "runtime_ext.peers.torch_eager", _MODEL, "torch", "torch"),
        Runner(
            "torch-compile",
            "runtime_ext.peers.torch_compile",
            _MODEL,
            "torch",
            "torch",
            programs=("g++",),
        ),
        Runner("tvm", "runtime_ext.peers.virtual_machine", "tvm.so"),
    )
}


def opponents(names: Sequence[str]) -> tuple[Runner, ...]:
    """The runners of these names, all of them ready to start.

    Raises
    ------
    RunnerError
        If one is unknown, or needs something that is not installed.
    """
    for name in names:
        if name not in RUNNERS:
            raise RunnerError(f"there is no runner {name!r}; there are: {', '.join(RUNNERS)}")
    found = tuple(RUNNERS[name] for name in dict.fromkeys(names))
    for runner in found:
        runner.require_available()
    return found
