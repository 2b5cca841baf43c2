"""What another package adds by entry points is there in every command, and a broken one in none."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import tvm_ios, tvm_ios_process
from tvm_ios.cli.options.completion import complete_cost, complete_policies, complete_policy
from tvm_ios.costs.costs import Offer
from tvm_ios.costs.named import costs_named
from tvm_ios.devices.device import device_text, load_device
from tvm_ios.extensions import ExtensionError, extensions
from tvm_ios.policies.registry import OURS, policy_named, tried_policies

PACKAGE = '''
"""A way to schedule, a cost model and a device, of a package that tvm-ios knows nothing of."""

from pathlib import Path

from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.schedule.stage import Stage, Strategy

DEVICE = str(Path(__file__).with_name("abacus.json"))


def find(request: Request) -> Found:
    """One unit a stage, those first that begin the longest paths."""
    units = request.problem.units
    length: dict[int, int] = {}
    for unit in reversed(range(len(units))):
        readers = (u for u in length if units.predecessors[u] >> unit & 1)
        length[unit] = 1 + max((length[reader] for reader in readers), default=0)
    order = sorted(length, key=lambda unit: (-length[unit], unit))
    stages = tuple(Stage(Strategy.CONCURRENT, ((unit,),)) for unit in order)
    return Found(request.problem.schedule(stages))


class Beads:
    """A microsecond a group."""

    name = "beads"

    def stage_latency(self, graph, stage):
        return 1e-6 * len(stage.groups)


POLICY = Policy("longest-path", "longest path first", find)
BEADS = Beads()
'''

ENTRY_POINTS = """
[tvm_ios.policies]
longest-path = longest_path:POLICY
broken-path = longest_path.missing:POLICY
mistaken-path = longest_path:DEVICE

[tvm_ios.costs]
beads = longest_path:BEADS

[tvm_ios.devices]
abacus = longest_path:DEVICE
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package as ``pip`` would install it, for this process and those that it starts."""
    site = tmp_path / "site"
    about = site / "longest_path-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: longest-path\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    (site / "longest_path").mkdir()
    (site / "longest_path" / "__init__.py").write_text(PACKAGE)
    device = {**json.loads(device_text("v100")), "name": "abacus"}
    (site / "longest_path" / "abacus.json").write_text(json.dumps(device))
    monkeypatch.syspath_prepend(site)
    before = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), before])))
    extensions.cache_clear()
    yield
    extensions.cache_clear()


def test_schedule() -> None:
    command = ("schedule", "inception_block", "--policy", "longest-path", "--json")
    result = tvm_ios(*command, "--cost", "beads").json
    assert (result["policy"], result["cost"]) == ("longest-path", "beads")
    assert result["latency_ms"] == pytest.approx(1e-3 * len(result["stages"]))
    described = tvm_ios(*command, "--cost", "abacus").json
    on_v100 = tvm_ios(*command, "--cost", "v100").json
    assert {**described, "cost": "v100"} == on_v100
    other = tvm_ios("schedule", "inception_block", "--policy", "ios-parallel", "--cost", "beads")
    assert other.code == 0


@pytest.mark.slow
def test_optimize_and_bench(tmp_path: Path) -> None:
    tried = ("--policy", "longest-path", "--lanes", 2, "--json")
    command = ("optimize", "inception_block", "-o", tmp_path / "out", *tried)
    result = tvm_ios_process(*command, brief=True).json
    assert [row["policy"] for row in result["policies"]] == ["tvm", "sequential", "longest-path"]
    compiled = tvm_ios_process(*command, "--cost", "abacus").json
    assert (compiled["kept"], compiled["cost"]) == ("longest-path", "abacus")
    command = ("bench", "inception_block", "--against", "tvm", "--rounds", 6, *tried)
    result = tvm_ios_process(*command, brief=True).json
    assert result["settings"]["policies"] == ["longest-path"]
    assert result["networks"][0]["kept"] in ("sequential", "longest-path")


def test_completion_and_help() -> None:
    assert complete_policy("longest") == ["longest-path"]
    assert complete_policies("greedy,long") == ["greedy,longest-path"]
    assert (complete_cost("aba"), complete_cost("bea")) == (["abacus"], ["beads"])
    assert "longest-path" in tvm_ios_process("schedule", "--help").stdout


def test_what_is_tried_by_itself() -> None:
    tried, broken = tried_policies(Offer)
    policies = {name: policy_named(name) for name in OURS}
    ours = [name for name, of in policies.items() if of.tried and of.tried_for is None]
    assert tried == (*ours, "longest-path"), "broken ones stop no other"
    assert len(broken) == 2
    assert all("longest-path" in sentence for sentence in broken)


@pytest.mark.parametrize("name", ["broken-path", "mistaken-path"])
def test_a_broken_package_is_one_sentence(name: str) -> None:
    outcome = tvm_ios("schedule", "inception_block", "--policy", name)
    outcome.refuses("package longest-path", repr(name))
    with pytest.raises(ExtensionError):
        policy_named(name)


def test_a_device_and_a_cost_model_by_name() -> None:
    assert load_device("abacus").peak_flops == load_device("v100").peak_flops
    assert costs_named("beads").offers == {Offer.STAGES}
