"""Saved programs and results as plain data, for JSON output and pages."""
