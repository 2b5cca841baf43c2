"""Rewrite operators into others that TVM's importer reads correctly."""
