"""Plans of CUDA graphs: the files that ``cudaGraphDebugDotPrint`` writes, and buffers beside them.

Such a file has nodes and edges, and of kernels no arguments, so a document says what each node
touches. Files with and without ``cudaGraphDebugDotFlagsVerbose`` are read.
"""

from __future__ import annotations

import re
from pathlib import Path

from tvm_ios.program.races.document import Buffers, Document, read_json
from tvm_ios.program.races.plan import Plan, PlanError, PlannedLaunch

_NODE = re.compile(r'^\s*"([^"]+)"\s*\[(.*?)"\s*\];', re.MULTILINE | re.DOTALL)
_EDGE = re.compile(r'^\s*"([^"]+)"\s*->\s*"([^"]+)"\s*(?:\[([^\]]*)\])?\s*;', re.MULTILINE)
_LABEL = re.compile(r'label="(.*)', re.DOTALL)
#: Nodes that touch no memory of the program.
_ONLY_ORDER = ("EMPTY", "EVENT_RECORD", "WAIT_EVENT", "MEM_ALLOC", "MEM_FREE")


def read_cuda_graph(path: Path, buffers: Path) -> Plan:
    """Read the plan of a CUDA graph.

    Parameters
    ----------
    path
        The file of ``cudaGraphDebugDotPrint``.
    buffers
        A document with the buffers, and under ``"nodes"`` what each node reads and writes.

    Raises
    ------
    PlanError
        If a file is not of its format, a node is not in the document or the other way round, or
        the graph has child graphs or edges that order less than whole nodes.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PlanError(f"{path} is no dot file: it is not text") from error
    labels = {node: _label(attributes) for node, attributes in _NODE.findall(text)}
    if not labels:
        raise PlanError(f"{path} is no file of cudaGraphDebugDotPrint: it has no nodes")
    document = Document.of(read_json(buffers), str(buffers), "nodes")
    places, given = Buffers.of(document), document.of_object("nodes")
    if unknown := [node for node in given if node not in labels]:
        raise PlanError(f"{buffers} has a node {unknown[0]!r}, which {path} lacks")
    numbers = {node: number for number, node in enumerate(labels)}
    after: dict[str, set[int]] = {node: set() for node in labels}
    for source, target, attributes in _EDGE.findall(text):
        if source not in labels or target not in labels:
            raise PlanError(f"{path} has an edge of {source!r} and {target!r}, which are no nodes")
        port = re.search(r"headlabel=\"?(\d+)", attributes)
        if port is not None and port[1] != "0":
            raise PlanError(
                f"the edge from {source!r} to {target!r} has port {port[1]}: its kernel begins "
                "before the other has ended, and the file does not say what it waits for"
            )
        after[target].add(numbers[source])
    launches: list[PlannedLaunch] = []
    for node, label in labels.items():
        if re.search(r"\bgraph_\d+\b", label):
            raise PlanError(f"node {node!r} of {path} is a child graph: write that one by itself")
        if node not in given and not any(kind in label for kind in _ONLY_ORDER):
            raise PlanError(f"{buffers} does not say what node {node!r} ({label}) touches")
        reads, writes = places.touched(f"node {node!r} of {buffers}", given.get(node, {}))
        name = f"{node} ({label})"
        launches.append(PlannedLaunch(name, frozenset(after[node]), reads, writes))
    return Plan(launches)


def _label(attributes: str) -> str:
    """Return the kind or the kernel of a node, from the label of its attributes."""
    found = _LABEL.search(attributes)
    label = found[1] if found is not None else ""
    kernel = re.search(r"\|\s*([^|{}]+?)\s*\\<\\<\\<", label)
    if kernel is not None:
        return kernel[1]
    # Of a record the first field; without flags the number is on a line of its own.
    fields = [field.strip() for field in re.split(r"[\n|{}]|\\n", label)]
    return next((field for field in fields if field and not field.isdigit()), "")
