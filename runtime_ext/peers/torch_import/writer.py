"""Writing a torch graph call by call."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx

from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edit import constant


class UnsupportedOperator(UserError):
    """An operator that cannot be written in torch: one sentence that names it."""


class Writer:
    """A torch graph under construction, and which of its nodes stands for which ONNX value."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        #: Holds the weights.
        self.root = torch.nn.Module()
        self._nodes: dict[int, fx.Node] = {}
        self._kept: list[Any] = []
        self._numbers = itertools.count()

    def set(self, value: Any, node: fx.Node) -> None:
        """Let a node stand for a value."""
        self._nodes[id(value)] = node
        # Or another value could get its identity.
        self._kept.append(value)

    def node(self, value: Any) -> Any:
        """The node of a value, a weight if it is constant; nodes and None stand for themselves."""
        if value is None or isinstance(value, fx.Node):
            return value
        if id(value) not in self._nodes:
            self.set(value, self.weight(self.array(value)))
        return self._nodes[id(value)]

    def weight(self, array: Array) -> fx.Node:
        """A constant tensor."""
        name = f"weight_{next(self._numbers)}"
        self.root.register_buffer(name, torch.from_numpy(np.array(array, order="C")))
        return self.graph.get_attr(name)

    def array(self, value: Any) -> Array:
        """The content of a constant value.

        Raises
        ------
        UnsupportedOperator
            If it is not constant.
        """
        content = constant(value)
        if content is None:
            raise UnsupportedOperator("an input that has to be constant is not")
        return content

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> fx.Node:
        """A call of a torch function on nodes and plain values."""
        return self.graph.call_function(function, arguments, options)

    def module(self, input_names: Sequence[str]) -> fx.GraphModule:
        """The module for inference; its attribute ``input_names`` has the order of its inputs."""
        module = fx.GraphModule(self.root, self.graph).eval()
        module.input_names = tuple(input_names)  # pyright: ignore[reportArgumentType]
        return module
