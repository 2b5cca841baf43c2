"""Deployments: many programs of one model in a folder."""
