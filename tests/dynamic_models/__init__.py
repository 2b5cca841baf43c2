"""Models whose shapes are not fixed, and detectors and readers of text: what happens to each.

``python -m tests.dynamic_models`` runs all of them and writes the page of the documentation.

``drawing.py``
    A model under construction, as exporters write it.
``dynamic.py``
    Models of dynamic batches, sequences and images.
``detection.py``
    Models that find things, and text, in images.
``running.py``
    A model run by tvm-ios and by ONNX Runtime, and what happened as a line of the table.
"""
