"""Other runtimes that run a model, to be compared with our programs; all are in one registry.

``kept_tvm_builds.py``
    A cache of TVM's own builds.
``model_files.py``
    A model as peers of ``bench`` read it; that of a bundle is ``runtime_ext/bundle/network.py``.
``onnxruntime_peer.py``
    ONNX Runtime.
``peer.py``
    The interfaces of peers, and of the models that they run.
``registry.py``
    All peers, those of other packages too.
``side_by_side.py``
    Executables and peers of one model, compared and then timed in turn in a fresh process.
``requests_side_by_side.py``
    Ways to serve many requests of one model, timed in turn in a fresh process.
``torch_peer.py``
    PyTorch as it is, by CUDA graphs, and compiled.
``tvm_build.py``
    TVM's own build of a Relax module.
``tvm_peer.py``
    TVM's own build on TVM's runtime, or Relay's on the graph executor.
``torch_import/``
    ONNX models, and graphs of our importers, as networks of PyTorch.
"""
