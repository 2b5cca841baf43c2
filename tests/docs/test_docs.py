"""What the documents say is true: commands, options, files, Python."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.makers import load_maker
from tvm_ios.cli.frame.commands import SUMMARIES, load_command
from tvm_ios.models.load import load_onnx

ROOT = Path(__file__).parents[2]
COMMANDS = {name: load_command(name) for name in SUMMARIES}
DOCUMENTS = sorted(
    path for place in (".", "docs", "benchmarks") for path in ROOT.glob(f"{place}/*.md")
)
IDS = [str(path.relative_to(ROOT)) for path in DOCUMENTS]


def test_the_documents_that_a_newcomer_reads_are_there() -> None:
    names = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/architecture.md"}
    assert names | {"docs/commands.md", "docs/networks.md"} <= set(IDS)


def test_commands_md_documents_every_command_and_option() -> None:
    maker = load_maker("commands")
    page = maker.PAGE.read_text()
    assert list(maker.find_faults(page)) == []
    assert list(maker.find_faults(page.replace("`--lanes`", "`--threads`")))
    assert list(maker.find_faults(page + "\n## tvm-ios fly\n"))
    examples = [line for name in COMMANDS for line in maker.EXAMPLES[name]]
    assert list(maker.known_outputs(page)) == examples


@pytest.mark.parametrize("name", ["networks", "memory", "cuda", "unit_kernels", "readme"])
def test_pages_of_measurements_are_what_was_measured(name: str) -> None:
    maker = load_maker(name)
    assert maker.PAGE.read_text() == maker.page()


@pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)
def test_command_lines_use_commands_and_options_that_exist(document: Path) -> None:
    text = document.read_text()
    blocks = re.findall(r"```(?:sh|console)\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`(tvm-ios [^`\n]+)`", text)
    for line in lines:
        words = shlex.split(line.removeprefix("$ "), comments=True) if "tvm-ios " in line else []
        if not words or not words[0].endswith("tvm-ios") or len(words) < 2:
            continue
        # The table of refusals shows wrong uses too.
        if document.name == "refusals.md" or words[1].startswith(("COMMAND", "--")):
            continue
        assert words[1] in COMMANDS, line
        parameters = COMMANDS[words[1]].params
        known = {flag for p in parameters for flag in (*p.opts, *p.secondary_opts)}
        used = {word.partition("=")[0] for word in words[2:] if re.match(r"--?[a-z]", word)}
        assert used <= known | {"--help"}, line


@pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)
def test_files_that_documents_name_exist(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    rooms = "tvm_ios|runtime_ext|relay_passes|tests|docs|benchmarks"
    named = re.findall(rf"`((?:{rooms})/[\w./]*)`", text)
    named += re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    for name in named:
        assert (ROOT / name).exists() or (document.parent / name).exists(), name


@pytest.mark.slow
def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    """Its blocks, in order, in one process; what they take as given is given first."""
    (tmp_path / "model.onnx").write_bytes(load_onnx("inception_block").SerializeToString())
    given = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.brief import shorten
shorten()
import numpy as np
from tvm_ios.models.load import load_onnx
from relay_passes.relax.importer import import_onnx
model = load_onnx("inception_block")
mod = import_onnx(model)
image = np.zeros((1, 3, 19, 19), "float32")
"""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    # The network of the text calls its input `data`.
    code = "\n".join([given, *blocks]).replace("set_input(data=", "set_input(input=")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=3000
    )
    assert done.returncode == 0, done.stderr
