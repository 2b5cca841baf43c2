"""Models as a user names them: zoo networks and files.

- source: which model, and how it is to be read
- load: the door: what is named becomes ONNX, a graph of operators, or one of units
- random_weights: random weights in the place of constant-valued ones
- bare_graph: block graphs of other schedulers, which have units and edges only
- torch_archive: what of a ``.pt2`` file can be read without running anything
- torch_program: programs of ``torch.export`` as ONNX models
- torch_operators: operators that torch's exporter to ONNX lacks or misstates, in others
- torch_doubles: numbers beside tensors of float64, which that exporter rounds to float32
"""
