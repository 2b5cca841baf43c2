"""What was saved, as plain data that people look at.

``executable.py``
    What an executable's run says: for ``explain --json`` and for pages.
``bundle.py``
    What a bundle found on its machine.
``page.py``
    Pages of these.
"""
