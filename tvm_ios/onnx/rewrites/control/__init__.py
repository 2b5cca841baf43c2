"""Unroll control flow and sequences that constants and shapes decide.

- control_flow: ``If``, ``Loop`` and ``Scan``; bodies: copies of their graphs; trip_count: numbers
  of steps
- sequences: sequences and optional values whose content is known
- compress: ``Compress`` by a known condition as a gather
"""
