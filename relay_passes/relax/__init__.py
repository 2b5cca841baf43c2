"""What the passes need to know of Relax: see :mod:`relay_passes.dialect`.

Of the same names in ``relay``: ``dialect``, ``importer``, ``saved_module``, ``canonical``,
``expressions``, ``extract``, ``operators``, ``spellings``, ``calls``, ``merge``, ``outline``,
``emitter``, ``memory_order``, ``target_units``. Of Relax alone:

- ``onnx_converters``: operators that TVM's ONNX importer lacks.
- ``roi_align``: regions of images, as a function of TIR.
- ``fix_inputs``: numbers for dynamic dimensions of modules.
- ``lrn``: local response norms in operators that fuse.
- ``reorder``: bindings in another order.
- ``scheduled``: what a schedule runs, as data for building.
- ``redraw``: random weights that can be drawn again.
"""
