"""The passes' interface to Relax: see :mod:`relay_passes.dialect`.

Of the same names in ``relay``: ``dialect``, ``importer``, ``saved_module``, ``canonical``,
``expressions``, ``extract``, ``operators``, ``spellings``, ``calls``, ``merge``, ``outline``,
``emitter``, ``memory_order``, ``target_units``. Of Relax alone:

- ``onnx_converters``: operators that TVM's ONNX importer lacks.
- ``roi_align``: RoiAlign as a TIR function.
- ``fix_inputs``: numbers for dynamic dimensions of modules.
- ``lrn``: local response norms in operators that fuse.
- ``reorder``: bindings in another order.
- ``scheduled``: the units and stages of a schedule, as data for building.
- ``redraw``: random weights that can be drawn again.
"""
