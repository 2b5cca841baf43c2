"""Write a functional graph of AOTAutograd as an ONNX model, by way of ``torch.export``'s form."""
# Torch is an extra, and its types are incomplete where it is installed.
# pyright: basic, reportMissingImports=warning

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import onnx
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)

from tvm_ios.errors import ModelError
from tvm_ios.models.torch_program import onnx_of_program

#: The name of a graph in messages of refusals.
_NAME = "the graph"
#: Torch's exporter is changed while it runs, so one thread exports at a time.
_EXPORTING = threading.Lock()
#: Torch's table of translations to ONNX, by the arguments that it is read with.
_translations: dict[tuple[Any, ...], Any] = {}


@contextlib.contextmanager
def composite_operators_kept() -> Generator[None, None, None]:
    """Let AOTAutograd keep composite operators, such as attention, as ``torch.export`` does."""
    from torch.export import exported_program

    # The functions by which torch.export itself does so.
    module: Any = exported_program
    kept, _ = module._split_decomp_table_to_cia_and_python_decomp({})
    with module._override_composite_implicit_decomp(kept):
        yield


def onnx_of_graph(
    graph: fx.GraphModule, outputs: Sequence[fx.Node], fixed: Mapping[str, Any]
) -> onnx.ModelProto:
    """Return the ONNX model that computes some outputs of a graph.

    ``fixed`` has the inputs that are constants, by name, with their values. Inputs have the names
    that they have in the graph. Raise ModelError if there is no such model, or only for some of
    the sizes that the graph is for.
    """
    module = fx.GraphModule(graph, fx.Graph())
    values: dict[fx.Node, fx.Node] = {}
    module.graph.graph_copy(graph.graph, values)
    names = [f"output{place}" for place in range(len(outputs))]
    module.graph.output(tuple(values[output] for output in outputs))
    fixed = {**fixed, **_constants_as_inputs(graph, module.graph)}
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    _require_tensors([*placeholders, *(values[output] for output in outputs)])
    placeholders = _sizes_read_off(module.graph, placeholders)
    _reshape_any_strides(module.graph)
    module.graph.eliminate_dead_code()
    module.recompile()
    conditions: list[str] = []
    with (
        _EXPORTING,
        _translations_kept(),
        _noted_conditions(_shape_environment(placeholders), conditions),
    ):
        model = onnx_of_program(_NAME, _program(module, placeholders, fixed), names)
    if conditions:
        raise ModelError(f"{_NAME} is written for sizes of which {conditions[0]} holds")
    return model


@contextlib.contextmanager
def _translations_kept() -> Generator[None, None, None]:
    """Let torch's exporter read its table of translations, which takes a second, only once."""
    from torch.onnx._internal.exporter import _registration

    registry: Any = _registration.ONNXRegistry
    read = registry.__dict__["from_torchlib"]

    def copied(**options: Any) -> Any:
        key = tuple(options.items())
        if key not in _translations:
            _translations[key] = read.__get__(None, registry)(**options)
        table = copy.copy(_translations[key])
        # The exporter adds translations of its caller's.
        table.functions = {name: list(found) for name, found in table.functions.items()}
        return table

    registry.from_torchlib = staticmethod(copied)
    try:
        yield
    finally:
        registry.from_torchlib = read


@contextlib.contextmanager
def _noted_conditions(environment: Any, conditions: list[str]) -> Generator[None, None, None]:
    """Note the conditions on sizes under which a graph is written, beside those it has already."""
    if environment is None:
        yield
        return
    known = [str(guard.expr) for guard in environment.guards]
    fixed = dict(environment.replacements)
    # A frozen environment answers without a note.
    was_frozen, environment.frozen = environment.frozen, False
    try:
        yield
    finally:
        environment.frozen = was_frozen
        found = [guard.expr for guard in environment.guards[len(known) :]]
        del environment.guards[len(known) :]
        environment.replacements.clear()
        environment.replacements.update(fixed)
    # What holds for all sizes is no condition.
    known.append(str(True))
    conditions += [
        str(expr)
        for expr in found
        if str(expr) not in known and str(expr.xreplace(fixed)) not in known
    ]


def at_sizes(graph: fx.GraphModule, arguments: Sequence[Any]) -> fx.GraphModule:
    """Return a graph of open sizes as that of the sizes which some arguments have."""
    from torch._subclasses import FakeTensorMode

    values: dict[fx.Node, Any] = {}

    class Noting(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            values[n] = super().run_node(n)
            return values[n]

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in arguments]
    with mode:
        Noting(graph).run(*fakes)
    copy = fx.Graph()
    nodes: dict[fx.Node, Any] = {}
    for node in graph.graph.nodes:
        new = copy.node_copy(node, nodes.__getitem__)
        new.meta["val"] = values[node]
        nodes[node] = values[node] if isinstance(values[node], int | float) else new
    return fx.GraphModule(graph, copy)


def symbol_of(extent: Any) -> Any:
    """Return the symbol that an extent is; None if it is a number or another expression."""
    expression = getattr(getattr(extent, "node", None), "expr", None)
    return expression if getattr(expression, "is_Symbol", False) else None


def _constants_as_inputs(module: fx.GraphModule, graph: fx.Graph) -> dict[str, Any]:
    """Let tensors that a graph holds be inputs of it; return these by name."""
    constants: dict[str, Any] = {}
    for node in graph.find_nodes(op="get_attr"):
        value = getattr(module, str(node.target), None)
        if not isinstance(value, torch.Tensor):
            raise ModelError(f"{_NAME} has control flow: {node.target}")
        first = next(iter(graph.nodes))
        with graph.inserting_before(first):
            given = graph.placeholder(f"constant_{node.name}")
        given.meta["val"] = node.meta["val"] if "val" in node.meta else _fake(graph, value)
        node.replace_all_uses_with(given)
        graph.erase_node(node)
        constants[given.name] = value
    return constants


def _fake(graph: fx.Graph, value: Any) -> Any:
    from torch._guards import detect_fake_mode

    mode: Any = detect_fake_mode([node.meta.get("val") for node in graph.nodes])
    return mode.from_tensor(value, static_shapes=True)


def _require_tensors(nodes: Sequence[fx.Node]) -> None:
    for node in nodes:
        value = node.meta["val"]
        if isinstance(value, int | torch.SymInt):
            continue
        if not isinstance(value, torch.Tensor):
            raise ModelError(f"{_NAME} has {type(value).__name__}s, not tensors and sizes alone")
        if value.device.type != "cpu":
            raise ModelError(f"{_NAME} has tensors on {value.device}: programs run on CPUs")
        if value.layout != torch.strided:
            raise ModelError(f"{_NAME} has tensors of layout {value.layout}")


def _reshape_any_strides(graph: fx.Graph) -> None:
    """Let views be reshapes: decomposed operators may give their results other strides."""
    aten = torch.ops.aten
    for view in (aten.view.default, aten._unsafe_view.default):
        for node in graph.find_nodes(op="call_function", target=view):
            node.target = aten.reshape.default


def _sizes_read_off(graph: fx.Graph, placeholders: Sequence[fx.Node]) -> list[fx.Node]:
    """Let inputs that are sizes be read off the tensors that have them; return other inputs."""
    tensors = [node for node in placeholders if isinstance(node.meta["val"], torch.Tensor)]
    for node in placeholders:
        if node in tensors:
            continue
        if node.users:
            with graph.inserting_after(placeholders[-1]):
                size = graph.call_function(torch.ops.aten.sym_size.int, _with_extent(node, tensors))
            size.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(size)
        graph.erase_node(node)
    return tensors


def _with_extent(size: fx.Node, tensors: Sequence[fx.Node]) -> tuple[fx.Node, int]:
    """Return a tensor, and the axis of which a size is the extent."""
    symbol = symbol_of(size.meta["val"])
    for tensor in tensors:
        for axis, extent in enumerate(tensor.meta["val"].shape):
            if symbol is not None and symbol_of(extent) == symbol:
                return tensor, axis
    raise ModelError(f"{_NAME} takes an integer that no tensor has as an extent")


def _shape_environment(placeholders: Sequence[fx.Node]) -> Any:
    for node in placeholders:
        for extent in getattr(node.meta["val"], "shape", ()):
            if isinstance(extent, torch.SymInt):
                return extent.node.shape_env
    return None


def _program(
    module: fx.GraphModule, placeholders: Sequence[fx.Node], fixed: Mapping[str, Any]
) -> ExportedProgram:
    """Return the program of a graph, with some inputs as its buffers."""
    from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
    from torch.utils import _pytree as pytree

    graph = module.graph
    # A program's own tensors stand before what it is given.
    own = [node for node in placeholders if node.name in fixed]
    given = [node for node in placeholders if node.name not in fixed]
    for node in reversed(own):
        next(iter(graph.nodes)).prepend(node)
    inputs = [
        InputSpec(InputKind.BUFFER, TensorArgument(node.name), node.name, persistent=True)
        for node in own
    ]
    inputs += [InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None) for node in given]
    outputs: Any = graph.output_node().args[0]
    results = [
        OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(output.name), None) for output in outputs
    ]
    _, in_spec = pytree.tree_flatten((tuple(range(len(given))), {}))
    _, out_spec = pytree.tree_flatten(outputs)
    environment = _shape_environment(placeholders)
    return ExportedProgram(
        root=module,
        graph=graph,
        graph_signature=ExportGraphSignature(inputs, results),
        state_dict={name: value.detach() for name, value in fixed.items()},
        range_constraints={} if environment is None else dict(environment.var_to_range),
        module_call_graph=[ModuleCallEntry("", ModuleCallSignature([], [], in_spec, out_spec))],
    )
