"""Bundles: kernels compiled on one machine, searched and measured on another without a compiler."""
