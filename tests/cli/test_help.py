"""Help pages teach, and shells complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tvm_ios as package
from tests.cli.command_line import tvm_ios
from tvm_ios import zoo
from tvm_ios.cli.frame.commands import SUMMARIES, help_page, load_command
from tvm_ios.cli.options.completion import (
    complete_cost,
    complete_model,
    complete_peers,
    complete_policy,
)

COMMANDS = {name: load_command(name) for name in SUMMARIES}


def test_the_version_is_that_of_the_package() -> None:
    outcome = tvm_ios("--version")
    assert (outcome.code, outcome.stdout) == (0, f"tvm-ios {package.__version__}\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_pages(name: str) -> None:
    outcome = tvm_ios(name, "--help")
    assert outcome.code == 0
    assert f"$ tvm-ios {name}" in outcome.stdout
    assert "Next:" in outcome.stdout
    assert "╭─ Output" in outcome.stdout
    for parameter in COMMANDS[name].params:
        assert (
            getattr(parameter, "rich_help_panel", None) or parameter.param_type_name == "argument"
        ), f"--{parameter.name} has no panel in tvm_ios/cli/frame/help_pages.py"
    assert " ".join(_first_sentence(name).split()) in tvm_ios("--help").stdout


def _first_sentence(name: str) -> str:
    return str(COMMANDS[name].help).partition("\n\n")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_of_the_command_and_its_options(name: str) -> None:
    flags = {flag for parameter in COMMANDS[name].params for flag in parameter.opts}
    page = help_page(name)
    assert page.examples
    for example in page.examples:
        assert example.startswith(f"tvm-ios {name}")
        assert set(re.findall(r"\s(--?[a-z-]+)", example)) <= flags
    for mentioned in re.findall(r"`tvm-ios ([a-z]+)", page.then):
        assert mentioned in COMMANDS


def test_models_policies_and_costs_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my.onnx", "my.pt2", "my.txt", "log.jsonl", "[odd].onnx"):
        Path(name).touch()
    Path("mymodels").mkdir()
    assert set(zoo.names()) < set(complete_model(""))
    assert complete_model("squ") == ["squeezenet"]
    assert complete_model("my") == ["my.onnx", "my.pt2", "mymodels/"]
    assert complete_model("[o") == ["[odd].onnx"]
    assert complete_policy("ios-") == ["ios-merge", "ios-parallel", "ios-both", "ios-holistic"]
    assert complete_policy("g") == ["greedy", "graphturbo"]
    assert complete_cost("v") == ["v100"]
    assert complete_cost("l") == ["log.jsonl"]
    assert "measured" in complete_cost("")
    assert complete_peers("tv") == ["tvm", "tvm-tuned"]
    torch = ("torch", "torch-nhwc", "torch-compile", "torch-max-autotune")
    assert complete_peers("tvm,t") == [f"tvm,{name}" for name in (*torch, "tvm-tuned")]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("tvm-ios sch", {"schedule"}),
        ("tvm-ios stats squ", {"squeezenet"}),
        ("tvm-ios schedule squeezenet --policy ios-p", {"ios-parallel"}),
        ("tvm-ios schedule squeezenet --measure f", {"full"}),
    ],
)
def test_bash_completes(words: str, offered: set[str]) -> None:
    count = len(words.split()) - 1
    shell = {"_TVM_IOS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    completed = subprocess.run(
        [sys.executable, "-c", "from tvm_ios.__main__ import main; main()"],
        capture_output=True,
        text=True,
        env={**os.environ, **shell},
    )
    assert set(completed.stdout.split()) == offered, completed.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_shown(shell: str) -> None:
    completed = subprocess.run(
        [
            sys.executable,
            "-c",
            "from tvm_ios.__main__ import main; main()",
            "--show-completion",
            shell,
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    )
    assert "_TVM_IOS_COMPLETE" in completed.stdout, completed.stderr
