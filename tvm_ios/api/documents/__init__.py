"""Saved programs and results as plain data, for JSON output and pages.

``executable.py``
    The profile of an executable's run: for ``explain --json`` and for pages.
``bundle.py``
    The results that a bundle brought back from its machine.
``page.py``
    HTML pages of these.
"""
