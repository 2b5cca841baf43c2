"""Mutated models, schedules and executables: success or one sentence, and nothing else.

The target ``network`` draws sound models instead, and compares results with ONNX Runtime's.

``python -m tests.fuzz --cases 2000 --seed 7`` runs it by hand and prints every outcome that is
neither. A case is its target and its number: ``--only onnx:1234 --debug`` shows one again.
"""
