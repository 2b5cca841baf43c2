"""Mutated models, schedules and executables: success or one sentence, and nothing else.

The target ``network`` draws sound models instead, and compares results with ONNX Runtime's; with
``.venv-relay/bin/relay-python`` through Relay.

``python -m tests.fuzz --cases 2000 --seed 7`` runs it by hand and prints every outcome that is
neither. A case is its target and its number: ``--only onnx:1234`` shows one again.
"""
