"""Deployments: programs of one model for several shapes, machines and numbers of lanes."""
