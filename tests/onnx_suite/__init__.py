"""ONNX's own backend test suite, through tvm-ios and through its peers.

The suite comes with the ``onnx`` wheel: a model, inputs and expected outputs for every operator
(``node``), for layers that PyTorch once exported (``pytorch-converted``, ``pytorch-operator``), for
a few graphs (``simple``) and for nine networks with constant weights (``real``).

Cases are run in two forms. ``inputs`` is the suite's own: everything is an input, also shapes, axes
and weights. ``constants`` makes initializers of all inputs but the first, which is how exporters
write models; cases of one input have no such form.

What each case is expected to come to lies in ``expectations.json``, and through Relay in
``expectations_relay.json``: a case that is not named there passes. ``python -m tests.onnx_suite``
runs it by hand::

    python -m tests.onnx_suite run --through tvm-ios
    python -m tests.onnx_suite run --through onnxruntime --form constants
    python -m tests.onnx_suite show --verdict wrong
    python -m tests.onnx_suite table
    python -m tests.onnx_suite expect

Through Relay it runs in the environment that has it::

    .venv-relay/bin/relay-python -m tests.onnx_suite run --through tvm-ios-relay

``cases.py``
    The suite's cases in both forms.
``ways.py``
    What a case is run through: tvm-ios, ONNX Runtime, TVM.
``verdict.py``
    What a case comes to: its outputs beside the expected ones.
``results.py``
    Verdicts in a file, which a second run goes on with, and the table of them.
``expectations.py``
    What each case is expected to come to.
"""
