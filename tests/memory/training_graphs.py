"""Training steps as graphs: forward, backward and the optimiser's updates, of any length."""

from __future__ import annotations

import random
from collections import defaultdict

from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph

#: Operators whose gradient reads their result rather than their inputs.
_BY_RESULT = ("relu", "softmax")


class _Step:
    """A forward pass, to which the rest of a training step is added."""

    def __init__(self, size: int) -> None:
        self.tensors = [Tensor("input", (size,))]
        self.added: list[Operator] = []
        #: The operators that have weights.
        self.weighted: set[int] = set()

    def add(self, kind: str, size: int, *read: int, weights: bool = False) -> int:
        """Add an operator with one result of so many elements; return the result."""
        return self.several(kind, (size,), *read, weights=weights)[0]

    def several(
        self, kind: str, sizes: tuple[int, ...], *read: int, weights: bool = False
    ) -> tuple[int, ...]:
        """Add an operator with several results; return them."""
        number, first = len(self.added), len(self.tensors)
        self.tensors += [Tensor(f"t{number}.{k}", (size,)) for k, size in enumerate(sizes)]
        made = tuple(range(first, len(self.tensors)))
        self.added.append(Operator(f"op{number}", kind, read, made))
        if weights:
            self.weighted.add(number)
        return made

    def size(self, tensor: int) -> int:
        """Return the elements of a tensor."""
        return self.tensors[tensor].shape[0]

    def trained(self, name: str, loss: int) -> OpGraph:
        """Return the graph with gradients of the loss, and an update for each operator's weights.

        An update reads a gradient and has a small result, as moments and weights stay where they
        are.
        """
        forward = list(enumerate(self.added))
        parts: defaultdict[int, list[int]] = defaultdict(list)
        parts[loss].append(self.add("loss_gradient", self.size(loss), loss))
        updates: list[int] = []
        for number, op in reversed(forward):
            known = [self._sum(parts[t]) for t in op.outputs if parts[t]]
            if not known:
                continue
            kept = op.outputs if op.kind in _BY_RESULT else op.inputs
            kept = () if op.kind in ("add", "split", "reshape", "transpose") else kept
            if number in self.weighted:
                moved = self.add(
                    "weight_gradient", self.size(op.outputs[0]) // 4 + 1, *known, *kept
                )
                updates.append(self.add("update", 1, moved))
            for tensor in dict.fromkeys(op.inputs):
                if tensor:
                    size = self.size(tensor)
                    parts[tensor].append(self.add(f"{op.kind}_gradient", size, *known, *kept))
        return OpGraph(name, tuple(self.added), tuple(self.tensors), (0,), (loss, *updates))

    def _sum(self, gradients: list[int]) -> int:
        total, *rest = gradients
        for other in rest:
            total = self.add("add", self.size(total), total, other)
        return total


def gpt2_step(operators: int, seed: int = 0) -> OpGraph:
    """Return a training step of a transformer with at least so many operators."""
    rng = random.Random(seed)
    width, heads = 64 * rng.choice((12, 16, 20)), 2
    step = _Step(width)
    value = step.add("embedding", width, 0)
    for _ in range(-(-operators // _LAYER)):
        normal = step.add("layer_norm", width, value, weights=True)
        joined: list[int] = []
        packed = step.add("dense", 3 * width, normal, weights=True)
        qkv = step.several("split", (width // heads,) * 3 * heads, packed)
        for head in range(heads):
            query, key, content = qkv[3 * head : 3 * head + 3]
            turned = step.add("transpose", width // heads, key)
            scores = step.add("matmul", 2 * width, query, turned)
            likely = step.add("softmax", 2 * width, step.add("scale", 2 * width, scores))
            likely = step.add("dropout", 2 * width, likely)
            joined.append(step.add("matmul", width // heads, likely, content))
        attended = step.add("concat", width, *joined)
        attended = step.add("dense", width, attended, weights=True)
        value = step.add("add", width, value, step.add("dropout", width, attended))
        normal = step.add("layer_norm", width, value, weights=True)
        inner = step.add("gelu", 4 * width, step.add("dense", 4 * width, normal, weights=True))
        inner = step.add("dropout", width, step.add("dense", width, inner, weights=True))
        value = step.add("add", width, value, inner)
    return step.trained("gpt2_step", step.add("dense", 8 * width, value, weights=True))


def resnet_step(operators: int, seed: int = 0) -> OpGraph:
    """Return a training step of a residual network with at least so many operators."""
    rng = random.Random(seed)
    size = 64 * rng.choice((32, 48, 64))
    step = _Step(size)
    value = step.add("relu", size, step.add("conv2d", size, 0, weights=True))
    blocks = -(-operators // _BLOCK)
    for block in range(blocks):
        shrunk = size >> min(3, 4 * block // blocks)
        skipped = value
        if step.size(value) != shrunk:
            skipped = step.add("conv2d", shrunk, value, weights=True)
        inner = value
        for wide in (shrunk // 4, shrunk // 4, shrunk):
            inner = step.add("conv2d", wide, inner, weights=True)
            inner = step.add("batchnormalization", wide, inner, weights=True)
            if wide != shrunk:
                inner = step.add("relu", wide, inner)
        value = step.add("relu", shrunk, step.add("add", shrunk, inner, skipped))
    return step.trained("resnet_step", step.add("dense", 1000, value, weights=True))


#: Operators of a training step for each layer of a transformer and each residual block.
_LAYER, _BLOCK = 71, 33
