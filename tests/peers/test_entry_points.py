"""A peer of another package, which is installed here as CONTRIBUTING says, is one of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime_ext.peers.peer import PeerError
from runtime_ext.peers.registry import available_peers, peer_named
from runtime_ext.peers.side_by_side import SideBySide, run_side_by_side
from tests.cli.command_line import tvm_ios
from tvm_ios.cli.options.completion import complete_peers
from tvm_ios.contest.rules import Rules
from tvm_ios.extensions import ExtensionError, extensions

PEER = """
from pathlib import Path
from onnx.reference import ReferenceEvaluator
from runtime_ext.execution.bound_model import BoundModel
from runtime_ext.peers.peer import Peer

def start(network):
    evaluator = ReferenceEvaluator(str(network.onnx_file(Path())))
    return BoundModel(lambda: evaluator.run(None, dict(network.inputs)), list)

PEER = Peer("onnx-reference", "reference_peer:start", library="onnx")
"""
NAMES = "[tvm_ios.peers]\nonnx-reference = reference_peer:PEER\nbroken = reference_peer:NOTHING\n"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "reference_peer.py").write_text(PEER)
    about = tmp_path / "reference_peer-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: reference-peer\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(NAMES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
    extensions.cache_clear()
    yield
    extensions.cache_clear()


@pytest.mark.usefixtures("installed")
def test_it_is_offered_and_found() -> None:
    assert complete_peers("onnx") == ["onnxruntime", "onnx-reference"]
    assert [peer.name for peer in available_peers(["onnx-reference"])] == ["onnx-reference"]
    # The peer is there, and the model is not.
    assert "no such" in tvm_ios("bench", "no such", "--against", "onnx-reference").sentence


@pytest.mark.usefixtures("installed")
def test_it_runs_beside_ours(folder: Path) -> None:
    beside = SideBySide(
        {"ours": folder / "ours"},
        lanes=2,
        rules=Rules(rounds=2, seconds=0.0, minimum=2),
        peers=("onnx-reference",),
        onnx=folder / "model.onnx",
    )
    outcome = run_side_by_side(beside)
    assert outcome.failed == {}
    assert outcome.reference == "onnx-reference"
    assert outcome.errors["ours"] <= 1e-5


@pytest.mark.usefixtures("installed")
def test_a_broken_one_is_one_sentence_and_no_other_one_suffers() -> None:
    with pytest.raises(ExtensionError, match=r"reference-peer.*'broken'"):
        peer_named("broken")
    assert "'broken'" in tvm_ios("bench", "squeezenet", "--against", "broken").sentence
    assert peer_named("tvm").name == "tvm"


def test_one_that_is_not_installed_is_unknown() -> None:
    with pytest.raises(PeerError, match="'onnx-reference'"):
        peer_named("onnx-reference")
