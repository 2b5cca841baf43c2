"""Options of other tools, and the options here that mean the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

#: For each option of ours the names that other tools have for it. Not every command has all.
_SYNONYMS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "--time-limit": ("seconds", "timeout", "time", "max-time", "time-budget", "duration"),
        "--lanes": ("threads", "cores", "cpus", "num-threads", "jobs", "n-jobs", "streams"),
        "--output": ("out", "output-dir", "out-dir", "output-path", "save", "save-to", "dest"),
        "--shape": ("input-shape", "input-shapes", "shapes", "dims", "input-dims", "input-size"),
        "--batch": ("batch-size", "batchsize", "batches"),
        "--policy": ("policies", "strategy", "schedulers", "algorithm", "method"),
        "--precision": ("dtype", "fp16", "half", "float16", "bf16", "bfloat16", "tf32"),
        "--target": ("gpu", "cuda", "backend", "cpu", "platform"),
        "--against": ("peers", "compare-with", "baseline", "runtimes", "providers"),
        "--repeat": ("iterations", "iters", "runs", "number", "repeats", "loops"),
        "--rounds": ("iterations", "iters", "runs", "repeat", "repeats"),
        "--max-measurements": ("trials", "max-trials", "measurements", "n-trials"),
        "--trials": ("max-trials", "n-trials", "measurements", "iterations"),
        "--log": ("database", "tuning-log", "records", "tuned"),
        "--json": ("format", "output-format", "as-json"),
    }
)
_QUANTISED = "quantise the model first, as docs/quantised.md says: it is read as it is"
#: Options of other tools without a counterpart here, and what to do instead.
_NONE: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("quantize", "quantise", "int8", "calibrate", "calibration-data"), _QUANTISED)
)


def suggest(error: Any, options: Sequence[str]) -> None:
    """Add the command's options that mean the same to the error of an unknown option.

    ``error`` is Click's ``NoSuchOption``, which may have suggestions by spelling.
    """
    name = str(error.option_name).lstrip("-").replace("_", "-").lower()
    if name in _NONE:
        error.message += f": {_NONE[name]}"
        error.possibilities = None
    elif meant := [o for o, names in _SYNONYMS.items() if name in names and o in options]:
        error.possibilities = meant
