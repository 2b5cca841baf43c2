"""What is published: sdists and wheels.

``runtime_project.py``
    The project tvm-ios-runtime: the sources of tvm-ios with fewer requirements.
``wheels.py``
    Build the distributions; ``make wheels``.
"""
