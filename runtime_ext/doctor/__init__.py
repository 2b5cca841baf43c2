"""Checks of an installation that work, too, where it does not; one kind of checks a file.

``check.py``
    What a check finds: fine, worth knowing, or in the way.
``compiled_code.py``
    TVM, the native executor and a kernel, tried in another process.
``compiler.py``
    The C++ compiler that links kernels.
``examine.py``
    All checks, in the order in which faults lead to others.
``packages.py``
    Versions of what is installed, and whether they are those that tvm-ios was made for.
``processor.py``
    The processor, how much of it this process may use, and what else is there.
``surroundings.py``
    The cache folder, and environment variables that change what tvm-ios does.
``trial.py``
    A trial run of everything that is compiled.
"""
