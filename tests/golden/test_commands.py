"""Commands say, return and write what they did before; ``--snapshot-update`` takes a change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.brief import shorten
from tests.golden.models import write_models
from tests.golden.transcript import transcript
from tvm_ios.cli.frame import output

#: Nothing is chosen by a measurement.
_ONE = "--policy sequential --lanes 1 --fallback none --winograd off --chains off"
_BRIEF = "--policy sequential --lanes 1 --processes 1 --rounds 6"

#: Commands that are run one after another in a folder of their own, by what they are about.
STORIES: Mapping[str, tuple[str, ...]] = {
    "static": (
        f"optimize static.onnx {_ONE} -o out",
        f"optimize static.onnx {_ONE} -o out.tar --json",
        "info out",
        "info out --json",
        "run out --repeat 3",
        "run out.tar --repeat 3 --json",
        "explain out --repeat 3",
        "explain out --repeat 3 --json",
        "check out",
        "check out.tar --json",
        "trace out -o trace.json",
        "report out -o page.html",
    ),
    "dynamic": (
        "optimize dynamic.onnx --cost cpu --policy greedy --batch 1,4 --lanes 1,2 "
        "--arch x86-64-v2 -o app",
        "pick app",
        "pick app --shape x:3,8,12,12 --json",
        "run app --shape x:3,8,12,12 --repeat 2 --json",
        "prune app x86-64-v2-1l-b1",
        "info app",
    ),
    "quantised": (
        f"optimize quantised.onnx --shape x:1,3,8,8 --shape like:1,5 {_ONE} -o out",
        "run out --repeat 3",
    ),
    "end decided by data": (
        f"optimize detector.onnx {_ONE} -o out",
        "run out --repeat 3",
        "explain out --repeat 3",
    ),
    "described device": (
        "stats static.onnx",
        "stats static.onnx --json",
        "schedule static.onnx --cost v100 -o schedule.json",
        "schedule static.onnx --cost v100 --json",
        "schedule static.onnx --pareto",
        "memory static.onnx",
        "memory static.onnx --json",
        "optimize static.onnx --cost h200 --target cuda --policy greedy -o out",
    ),
    "requests": (
        f"optimize static.onnx {_ONE} --objective throughput -o out",
        "run out --objective throughput --repeat 10",
        "run out --objective throughput --repeat 10 --json",
    ),
    "sweep": (
        "sweep sweep.toml -o results --workers 1",
        "sweep sweep.toml -o results --workers 1 --json",
    ),
    "bundle": (
        "bundle static.onnx --arch x86-64-v2 --lanes 1 -o static.bundle",
        "report static.bundle -o page.html",
    ),
    "refusals": (
        "optimize missing.onnx",
        "optimize truncated.onnx",
        "optimize dynamic.onnx --shape y:1",
        "optimize static.onnx --policy none",
        "schedule static.onnx --cost nothing",
        "run .",
        "pick .",
        "stats",
    ),
    "comparison": (
        f"bench static.onnx {_BRIEF} --against onnxruntime -o bench.json",
        f"bench static.onnx {_BRIEF} --against onnxruntime --json",
    ),
    "static pages": ("models",),
}


@pytest.mark.parametrize("story", STORIES)
def test_commands(
    story: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: Any
) -> None:
    write_models(tmp_path)
    shorten(monkeypatch.setattr)
    monkeypatch.chdir(tmp_path)
    # Lines are not broken where a machine has longer names.
    monkeypatch.setattr(output, "Console", lambda **how: Console(**{**how, "width": 400}))
    assert transcript(tmp_path, STORIES[story]) == snapshot
