"""Outputs of models by the frameworks that they came from, independently of TVM."""
