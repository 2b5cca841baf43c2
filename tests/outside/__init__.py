"""Models drawn by the kinds of faults that users of other runtimes and exporters report.

Each case is compared with ONNX Runtime, else with ``onnx.reference``; modules of PyTorch with
PyTorch. A refusal in one sentence is no fault, another value or a traceback is.

``python -m tests.outside --cases 240 --seed 7`` draws anew and prints each case that is at fault;
``--page docs/outside_cases.md`` writes the counts and the refusals. A case is its kind and its
number: ``--only 'float edges:3'`` runs one again.

``case.py``
    A case, the registry of kinds, and how an ONNX model is put together.
``edges.py``
    Numbers at the edges of their types.
``examined.py``
    The verdict on a case: ours beside the reference.
``files.py``
    Files as old and careless exporters write them, and forms of operators that few use.
``learners.py``
    Operators of ``ai.onnx.ml``.
``operators.py``
    Operators of ONNX Runtime's own domain.
``optimised.py``
    Files that ONNX Runtime's optimiser and quantiser write.
``page.py``
    The page of counts and refusals.
``recurrent.py``
    Recurrent layers.
``torch_modules.py``
    Modules of PyTorch.
"""
