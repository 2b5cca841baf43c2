"""Deployments: the registry of a folder of programs of one model."""
