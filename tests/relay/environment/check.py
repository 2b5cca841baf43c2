"""Checks that this TVM has Relay and that what it builds computes what it should."""

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor

x = relay.var("x", shape=(2, 3))
module = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
library = relay.build(module, target="llvm")
runner = graph_executor.GraphModule(library["default"](tvm.cpu()))
values = np.array([[-1, 0, 1], [2, -3, 4]], "float32")
runner.run(x=values)
np.testing.assert_array_equal(runner.get_output(0).numpy(), values.clip(0))
print(f"relay.build of TVM {tvm.__version__} works")
