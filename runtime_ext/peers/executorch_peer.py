"""ExecuTorch's backend XNNPACK as a peer on CPUs; its portable kernels run what XNNPACK lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.lowered_backend_module import LoweredBackendModule
from executorch.extension.pybindings import portable_lib
from torch import fx
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from runtime_ext.execution.bound_model import BoundModel, Taken
from runtime_ext.peers.peer import PeerModel
from tvm_ios.errors import UserError, first_cause
from tvm_ios.files.atomic import temporary_folder


def start(network: PeerModel) -> BoundModel:
    """Export a model, lower it to XNNPACK, and load the program; raise UserError if one fails.

    Weights and images have their channels outermost, as XNNPACK's passes require; it transposes
    them itself.
    """
    module = network.torch_module()
    inputs = tuple(torch.from_numpy(network.inputs[name]) for name in module.input_names)
    try:
        exported = torch.export.export(module, inputs)
        lowered: Any = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
        taken = _taken(lowered.exported_program().graph_module, _multiply_adds(module, inputs))
        made = lowered.to_executorch()
    # Exporters and passes raise anything.
    except Exception as error:
        raise UserError(f"ExecuTorch refuses the model: {first_cause(error)}") from error
    _set_threads(network.lanes)
    loaded = _loaded(made)

    def run() -> Any:
        # Copies would be made by threads of torch, which then spin beside XNNPACK's for a while.
        return loaded.forward(inputs, clone_outputs=False)

    return BoundModel(run, lambda outputs: [each.numpy().copy() for each in outputs], taken)


def _set_threads(count: int) -> None:
    """Set the number of threads of XNNPACK and of the portable kernels, the calling one included.

    Otherwise there would be as many as cores, whatever OpenMP and torch were told.
    """
    portable_lib._unsafe_reset_threadpool(count)
    if (there := portable_lib._threadpool_get_thread_count()) != count:
        raise UserError(f"ExecuTorch has {there} threads where {count} were asked for")


def _loaded(made: Any) -> Any:
    """Return a program ready to run; raise UserError, which names what has no kernel."""
    targets = (node.target for node in made.exported_program().graph.nodes)
    names = {each.name() for each in targets if isinstance(each, torch._ops.OpOverload)}
    if lacking := names - {*portable_lib._get_operator_names()}:
        raise UserError(f"ExecuTorch has no kernel of {', '.join(sorted(lacking))}")
    # Not from memory: it would have to be kept as long as the program.
    with temporary_folder() as folder:
        (folder / "model.pte").write_bytes(made.buffer)
        return portable_lib._load_for_executorch(str(folder / "model.pte"))


def _taken(graph_module: fx.GraphModule, multiply_adds: int) -> Taken:
    """Return the part of a model, with its count of multiply-adds, that was lowered to XNNPACK."""
    children: list[Any] = list(graph_module.children())
    lowered = (child for child in children if isinstance(child, LoweredBackendModule))
    inside = sum(len([*_operators(each.original_module.graph)]) for each in lowered)
    outside = [*_operators(graph_module.graph)]
    return Taken(
        _without(len(outside), inside + len(outside)),
        _without(sum(map(_multiply_adds_of, outside)), multiply_adds),
    )


def _without(left: int, total: int) -> float:
    """Return the part of a total that is not left, which is all of nothing."""
    return 1 - left / total if total else 1.0


def _operators(graph: fx.Graph) -> Iterator[fx.Node]:
    return (node for node in graph.nodes if isinstance(node.target, EdgeOpOverload))


def _multiply_adds(module: Any, inputs: tuple[torch.Tensor, ...]) -> int:
    """Return the multiply-adds, each counted as two, of convolutions and products of matrices."""
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        module(*inputs)
    return counter.get_total_flops()


def _multiply_adds_of(node: fx.Node) -> int:
    """Return the same of one operator."""
    target: Any = node.target
    count = flop_registry.get(target._op.overloadpacket)
    if count is None:
        return 0
    arguments: Any = fx.map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    return count(*arguments[0], **arguments[1], out_val=node.meta["val"])
