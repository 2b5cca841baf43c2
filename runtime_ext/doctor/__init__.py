"""Checks of an installation, which run even where it is broken; one kind of checks a file.

``check.py``
    The finding of a check: fine, a warning, or a problem.
``compiled_code.py``
    TVM, the native executor and a kernel, tried in another process.
``compiler.py``
    The C++ compiler that links kernels.
``examine.py``
    Run all checks, causes before their consequences.
``packages.py``
    Versions of installed packages, and whether tvm-ios supports them.
``processor.py``
    The processor, how much of it this process may use, its load, and GPUs.
``surroundings.py``
    The cache folder, and environment variables that change what tvm-ios does.
``trial.py``
    A trial run of everything that is compiled.
"""
