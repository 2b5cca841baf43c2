"""What is a new file and a line in a registry, added to a copy of the whole as CONTRIBUTING says.

The tests that are there find what is added by themselves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import copy, copytree

import pytest

from tvm_ios.devices.device import device_text
from tvm_ios.devices.memory_hierarchy import hierarchy_names

ROOT = Path(__file__).parents[2]

NETWORK = '''
from typing import Any

from tvm_ios.zoo.writing.network import ImageNetwork


def build_two_convolutions(seed: int = 0) -> Any:
    """Input (1, 3, 16, 16), output (1, 10) logits."""
    net = ImageNetwork("two_convolutions", seed, (3, 16, 16))
    features = net.concat([net.conv(net.input, 8, 3), net.conv(net.input, 8, 1)])
    return net.finish(net.dense(net.global_avg_pool(net.relu(features)), 10), (1, 10))
'''
NETWORK_LINE = 'enter("small.two_convolutions", "two_convolutions", 16, (5, 2), "two, for tests")'

POLICY = '''
from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.schedule.stage import Stage, Strategy


def find(request: Request) -> Found:
    """One unit a stage."""
    units = range(len(request.problem.units))
    stages = tuple(Stage(Strategy.CONCURRENT, ((unit,),)) for unit in units)
    return Found(request.problem.schedule(stages))


ONE_BY_ONE = Policy("one-by-one", "one unit a stage", find)
'''
POLICY_LINE = '    "one-by-one": "one_by_one:ONE_BY_ONE",'

COMMAND = '''
from __future__ import annotations

from typing import Annotated

import typer

from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import (Debug, Json, print_json, reports_errors)

PAGE = HelpPage(("tvm-ios hello world",), "`tvm-ios models` lists whom to greet.")


@reports_errors
def hello(
    name: Annotated[str, typer.Argument(help="Whom to greet.")],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Greet somebody.

    The greeting is as short as can be.
    """
    if as_json:
        print_json({"greeted": name})
    else:
        print(f"hello {name}")
'''
COMMAND_LINE = '        "hello": "Greet somebody.",'

CHECK = '''
from __future__ import annotations

import os
from collections.abc import Iterator

from runtime_ext.doctor.check import Check, Status


def check_moon() -> Iterator[Check]:
    """Whether the moon is as kernels like it."""
    moon = os.environ.get("MOON", "new")
    if moon == "full":
        yield Check("moon", Status.PROBLEM, "is full", "wait two weeks")
    else:
        yield Check("moon", Status.OK, f"is {moon}")
'''
CHECK_LINE = '    "moon": _named("moon", "check_moon"),'


#: An editable installation of the packages would come before the path.
PATH_ALONE = """
import sys
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
"""


class Copy:
    """The packages, their tests and pages in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("tvm_ios", "runtime_ext", "relay_passes", "tests", "docs", "examples"):
            copytree(ROOT / name, folder / name)
        copy(ROOT / "pyproject.toml", folder)
        (folder / "sitecustomize.py").write_text(PATH_ALONE)

    def add_file(self, path: str, text: str) -> None:
        """Write a new file."""
        assert not (self.folder / path).exists()
        (self.folder / path).write_text(text)

    def add_line(self, path: str, after: str, line: str) -> None:
        """Write a line below the only one that begins so."""
        lines = (self.folder / path).read_text().splitlines()
        (place,) = (number for number, text in enumerate(lines) if text.startswith(after))
        lines.insert(place + 1, line)
        (self.folder / path).write_text("\n".join(lines) + "\n")

    def python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run Python on what is in the folder."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder), **environment},
            capture_output=True,
            text=True,
        )

    def tvm_ios(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        return self.python("-m", "tvm_ios", *arguments, **environment)


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A network, a policy, a device, a memory hierarchy, a command and a check of ``doctor``."""
    whole = Copy(tmp_path_factory.mktemp("whole"))
    whole.add_file("tvm_ios/zoo/small/two_convolutions.py", NETWORK)
    ports = 'enter("small.ports", "several_outputs"'
    whole.add_line("tvm_ios/zoo/catalogue.py", ports, NETWORK_LINE)
    whole.add_file("tvm_ios/policies/one_by_one.py", POLICY)
    whole.add_line("tvm_ios/policies/registry.py", '    "memory"', POLICY_LINE)
    device = json.loads(device_text("v100"))
    device["figures"]["kernel_overhead"] |= {"value": 1, "source": "assumed: counted by hand"}
    whole.add_file("tvm_ios/devices/device_data/abacus.json", json.dumps(device))
    hierarchy = json.loads((ROOT / "tvm_ios/devices/hierarchy_data/ipu.json").read_text())
    hierarchy["figures"]["cores"] |= {"value": 13, "source": "assumed: beads on a wire"}
    whole.add_file("tvm_ios/devices/hierarchy_data/abacus.json", json.dumps(hierarchy))
    whole.add_file("tvm_ios/cli/hello.py", COMMAND)
    whole.add_line("tvm_ios/cli/frame/commands.py", '        "doctor"', COMMAND_LINE)
    whole.add_file("runtime_ext/doctor/moon.py", CHECK)
    whole.add_line("runtime_ext/doctor/examine.py", '    "environment"', CHECK_LINE)
    return whole


@pytest.mark.slow
def test_the_tests_that_are_there_find_it(added: Copy) -> None:
    files = ("zoo/test_sizes.py", "zoo/test_zoo.py", "cli/test_help.py", "devices")
    ours = "two_convolutions or hello or abacus"
    done = added.python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", "-k", ours,
        *(f"tests/{file}" for file in files),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    passed = [line for line in done.stdout.splitlines() if line.startswith("PASSED")]
    for name in (
        "test_sizes[two_convolutions]",
        "test_large_networks[two_convolutions]",
        "test_help_pages[hello]",
        "test_examples_are_of_the_command_and_its_options[hello]",
        "test_every_figure_says_where_it_is_from[abacus]",
    ):
        assert any(line.endswith(name) for line in passed), name


def test_a_network_a_policy_and_a_device_are_taken_by_their_names(added: Copy) -> None:
    (network,) = (
        row
        for row in json.loads(added.tvm_ios("models", "--json").stdout)["models"]
        if row["name"] == "two_convolutions"
    )
    assert network["input"] == [1, 3, 16, 16]
    choice = ("--policy", "one-by-one", "--cost", "abacus", "--engine", "ios")
    done = added.tvm_ios("schedule", "two_convolutions", *choice, "--json")
    schedule = json.loads(done.stdout)
    assert (schedule["policy"], schedule["cost"]) == ("one-by-one", "abacus")
    assert len(schedule["stages"]) == network["operators"]
    assert schedule["latency_ms"] >= 1e3 * network["operators"], "a second before each"


def test_a_memory_hierarchy_is_known_by_its_files_name(added: Copy) -> None:
    assert "abacus" not in hierarchy_names()
    code = "from tvm_ios.devices.memory_hierarchy import load_hierarchy as load"
    done = added.python("-c", f"{code}; print(load('abacus').cores)")
    assert done.stdout == "13\n", done.stderr


def test_a_command_is_listed_and_runs(added: Copy) -> None:
    assert json.loads(added.tvm_ios("hello", "moon", "--json").stdout) == {"greeted": "moon"}
    assert "Greet somebody." in added.tvm_ios("--help").stdout


@pytest.mark.slow
def test_a_command_has_its_place_in_the_page(added: Copy) -> None:
    maker = "docs/make/commands.py"
    assert added.python(maker, "--check").returncode == 1
    assert added.python(maker, "hello").returncode == 0
    assert added.python(maker, "--check").returncode == 0
    page = (added.folder / "docs/commands.md").read_text()
    assert "$ tvm-ios hello world\nhello world\n" in page


EXAMINE = """
from runtime_ext.doctor.examine import CHECKERS, examine
(check,) = examine({"moon": CHECKERS["moon"]})
print(check.status, check.remedy)
"""


def test_doctor_looks_at_one_thing_more(added: Copy) -> None:
    assert added.python("-c", EXAMINE, MOON="new").stdout == "ok \n"
    assert added.python("-c", EXAMINE, MOON="full").stdout == "problem wait two weeks\n"
