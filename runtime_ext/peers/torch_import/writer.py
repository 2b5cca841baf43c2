"""Write a torch graph call by call."""

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
    """Raised for an operator that cannot be written in torch, with its name."""


class Writer:
    """A torch graph under construction, with the node of each ONNX value."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        #: Holds the weights.
        self.root = torch.nn.Module()
        self._nodes: dict[int, fx.Node] = {}
        self._kept: list[Any] = []
        self._numbers = itertools.count()

    def set(self, value: Any, node: fx.Node) -> None:
        """Set the node of a value."""
        self._nodes[id(value)] = node
        # Or another value could get its identity.
        self._kept.append(value)

    def node(self, value: Any) -> Any:
        """Return the node of a value, which is a weight if the value is constant.

        Nodes and None are returned as they are.
        """
        if value is None or isinstance(value, fx.Node):
            return value
        if id(value) not in self._nodes:
            self.set(value, self.weight(self.array(value)))
        return self._nodes[id(value)]

    def weight(self, array: Array) -> fx.Node:
        """Add a constant tensor, and return its node."""
        name = f"weight_{next(self._numbers)}"
        self.root.register_buffer(name, torch.from_numpy(np.array(array, order="C")))
        return self.graph.get_attr(name)

    def array(self, value: Any) -> Array:
        """Return the content of a constant value, or raise UnsupportedOperator."""
        content = constant(value)
        if content is None:
            raise UnsupportedOperator("an input that has to be constant is not")
        return content

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> fx.Node:
        """Add a call of a torch function on nodes and plain values, and return its node."""
        return self.graph.call_function(function, arguments, options)

    def module(self, input_names: Sequence[str]) -> fx.GraphModule:
        """Return the module for inference; its ``input_names`` has the order of inputs."""
        module = fx.GraphModule(self.root, self.graph).eval()
        module.input_names = tuple(input_names)  # pyright: ignore[reportArgumentType]
        return module
