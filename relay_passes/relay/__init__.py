"""The passes' interface to Relay: see :mod:`relay_passes.dialect`.

Of the same names in ``relax``: ``dialect``, ``importer``, ``saved_module``, ``canonical``,
``expressions``, ``extract``, ``operators``, ``spellings``, ``calls``, ``merge``, ``outline``,
``emitter``, ``memory_order``, ``target_units``. Of Relay alone:

- ``frontend``, ``plain_onnx``, ``rewritten_onnx``: TVM's importer made faster, and models
  rewritten so that it reads them correctly.
- ``kernels``, ``unit_kernels``: a unit's kernels as functions, and as machine code.
- ``layouts``: the layouts of kernels' tensors.
"""
