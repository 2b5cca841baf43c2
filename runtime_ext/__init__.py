"""Kernels and the programs that run them: :func:`runtime_ext.build.build` compiles a module."""
