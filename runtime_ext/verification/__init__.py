"""What a model computes by the framework that it came from, independently of TVM.

``disturbed.py``
    By how much rounding alone changes what a model computes.
``evaluator_process.py``
    ``onnx.reference`` in a process of its own, which can be ended.
``expected.py``
    Whose outputs are right, for all commands.
``not_computed.py``
    What is raised where a framework does not compute a model.
``onnx_outputs.py``
    What an ONNX model computes by ONNX Runtime, or by ``onnx.reference``.
``reference.py``
    What programs have to compute, on random inputs and at edges: the one function of all commands.
``torch_outputs.py``
    What a program of ``torch.export`` computes by PyTorch.
"""
