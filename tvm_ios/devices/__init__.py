"""Described devices: figures of processors and memories, each with its source."""
