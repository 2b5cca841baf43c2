"""Outputs of models by the frameworks that they came from, independently of TVM.

``disturbed.py``
    How much rounding alone changes a model's outputs.
``evaluator_process.py``
    ``onnx.reference`` in a process of its own, which can be ended.
``expected.py``
    Choose the framework whose outputs are taken as right, for all commands.
``not_computed.py``
    The error of a framework that does not compute a model.
``onnx_outputs.py``
    Outputs of an ONNX model by ONNX Runtime, or by ``onnx.reference``.
``reference.py``
    The outputs that programs must compute, on random and edge inputs, for all commands.
``torch_outputs.py``
    Outputs of a program of ``torch.export`` by PyTorch.
"""
