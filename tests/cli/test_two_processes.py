"""Two commands at once on one cache and one log: both do their work, neither harms the other."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.place import make_place
from tvm_ios.schedule.schedule import Schedule


@pytest.mark.slow
@pytest.mark.parametrize("command", ["schedule", "optimize"])
def test_two_processes_share_a_cache_and_a_log(tmp_path: Path, command: str) -> None:
    place = make_place(tmp_path)
    place.command = command
    outputs = [tmp_path / "results" / name for name in ("one", "two")]
    processes = [place.start(output=output) for output in outputs]
    results = [process.communicate(timeout=900) for process in processes]
    for process, (out, err), output in zip(processes, results, outputs, strict=True):
        assert process.returncode == 0, err
        assert json.loads(out)["model"] == "m"
        file = output if command == "schedule" else output / "schedule.json"
        assert Schedule.load(file).policy
    (log,) = (tmp_path / "cache" / "logs").iterdir()
    assert all(json.loads(line) for line in log.read_bytes().splitlines())
    assert log.read_bytes().endswith(b"\n")
    # Both may find the same thing missing at the same moment; nobody measures it a third time.
    assert max(Counter(place.keys).values()) <= 2
    for output in outputs:
        if command == "schedule":
            output.unlink()
        else:
            output.rename(tmp_path / output.name)
    # What they left is whole: a third one finds all of it and compiles nothing.
    before = set(place.kernels)
    place.finish(once=False)
    assert set(place.kernels) == before
